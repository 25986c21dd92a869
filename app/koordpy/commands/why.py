"""`koordpy why`: a scheduling decision, told to people."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

_COLOURS = {"bound": "green", "unschedulable": "red", "error": "red", "failed": "red"}


def show(to: Console, attempts: list[dict[str, Any]]) -> None:
    """Print the latest of a pod's attempts in full, and how many came before it."""
    latest = attempts[0]
    colour = _COLOURS.get(latest["outcome"], "yellow")
    where = f" to {latest['node']}" if latest["node"] else ""
    to.print(
        f"  pod {escape(latest['namespace'])}/{escape(latest['pod'])} (profile {latest['profile']}): "
        f"[{colour}]{latest['outcome']}{where}[/{colour}]"
    )
    if latest["message"]:
        to.print(f"  {escape(latest['message'])}")
    to.print(f"  {latest['feasible_nodes']} of {latest['evaluated_nodes']} nodes asked about were feasible")
    for rejection in latest["rejections"]:
        names = ", ".join(rejection["examples"][:3])
        more = ", ..." if rejection["nodes"] > 3 else ""
        to.print(
            f"  [red]{rejection['nodes']} refused[/red] by {rejection['plugin']}: "
            f"{escape(rejection['reason'])} [dim]({names}{more})[/dim]"
        )
    if latest["top_nodes"]:
        to.print(_scores(latest))
        to.print("  [dim]kube-scheduler adds its own scores to these totals[/dim]")
    times = ", ".join(f"{verb} {ms:.2f} ms" for verb, ms in latest["milliseconds"].items())
    to.print(f"  [dim]started {latest['started']}{'; ' + times if times else ''}[/dim]")
    if len(attempts) > 1:
        to.print(f"  [dim]{len(attempts) - 1} earlier attempts are remembered (--output json)[/dim]")


def rejected_by(attempts: list[dict[str, Any]], plugin: str) -> int:
    """Return how many nodes a plugin refused in the latest attempt."""
    return sum(r["nodes"] for r in attempts[0]["rejections"] if r["plugin"] == plugin)


def _scores(attempt: dict[str, Any]) -> Table:
    weights = attempt["weights"]
    table = Table(box=None, padding=(0, 2), pad_edge=True)
    table.add_column("best nodes")
    for plugin, weight in weights.items():
        table.add_column(f"{plugin} (weight {weight})", justify="right")
    table.add_column("total", justify="right")
    for node in attempt["top_nodes"][:5]:
        scores = [str(node["plugins"].get(plugin, "-")) for plugin in weights]
        table.add_row(node["node"], *scores, str(node["total"]))
    return table
