"""`koordpy why`: a scheduling decision, told to people."""

import json
import sys
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .asking import follow
from .options import Failure
from .output import Format, console

_COLOURS = {"bound": "green", "unschedulable": "red", "error": "red", "failed": "red"}

_EARLIER: Final = 10
"""Attempts of a pod that are told before those to come."""


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
        if latest.get("chosen_by", "kube-scheduler") == "kube-scheduler":
            to.print("  [dim]kube-scheduler adds its own scores to these totals[/dim]")
    times = ", ".join(f"{verb} {ms:.2f} ms" for verb, ms in latest["milliseconds"].items())
    to.print(f"  [dim]started {latest['started']}{'; ' + times if times else ''}[/dim]")
    if len(attempts) > 1:
        to.print(f"  [dim]{len(attempts) - 1} earlier attempts are remembered (--output json)[/dim]")


def follow_all(server: str, namespace: str, pod: str, outcomes: tuple[str, ...], output: Format) -> None:
    """Print attempts as they go on (of one pod also the latest that there were), until the service ends.

    As JSON each is a line of its own, as YAML a document. Raises Failure.
    """
    query = [("watch", "true"), *(("outcome", outcome) for outcome in outcomes)]
    query += [(name, value) for name, value in (("namespace", namespace), ("pod", pod)) if value]
    if pod:
        query.append(("limit", str(_EARLIER)))
    to = console()
    for attempt in follow(server, "/apis/v1/decisions", query):
        if "outcome" not in attempt:
            raise Failure(str(attempt.get("message")))
        if output == "text":
            show_line(to, attempt)
        elif output == "json":
            sys.stdout.write(json.dumps(attempt, ensure_ascii=False) + "\n")
        else:
            import yaml

            sys.stdout.write("---\n" + yaml.safe_dump(attempt, sort_keys=False, allow_unicode=True))
        sys.stdout.flush()


def show_line(to: Console, attempt: dict[str, Any]) -> None:
    """Print how far an attempt has come, on one line."""
    colour = _COLOURS.get(attempt["outcome"], "yellow")
    where = f" {attempt['node']}" if attempt["node"] else ""
    feasible = f"{attempt['feasible_nodes']}/{attempt['evaluated_nodes']} nodes"
    message = f": {attempt['message']}" if attempt["message"] else ""
    to.print(
        f"{attempt['started'][11:23]} {escape(attempt['namespace'])}/{escape(attempt['pod'])} "
        f"[{colour}]{attempt['outcome']}{where}[/{colour}] [dim]({feasible})[/dim]{escape(message)}"
    )


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
