"""`koordpy why --history`: the history of a pod, as text."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from koordpy.lib.counting import are, counted

from .gang import show_gang
from .quota import show_path

_COLOURS = {
    "bound": "green",
    "unschedulable": "red",
    "error": "red",
    "failed": "red",
    "bound-by-others": "yellow",
    "ended": "dim",
    "deleted": "dim",
}


def show(to: Console, history: dict[str, Any]) -> None:
    """Print a pod's history as a timeline, and why the pod waits."""
    where = f" on {history['node']}" if history["node"] else ""
    where += f" in Reservation {history['allocatedReservation']}" if history["allocatedReservation"] else ""
    to.print(
        f"pod {escape(history['namespace'])}/{escape(history['pod'])} "
        f"(schedulerName {escape(history['schedulerName'])}): "
        f"[{_COLOURS.get(history['state'], 'yellow')}]{history['state']}[/]{escape(where)}"
    )
    to.print(
        f"  [dim]UID {escape(history['uid'])}, created {history['created'] or 'at an unknown time'}[/dim]"
    )
    if history["steps"]:
        to.print(_timeline(history["steps"]))
    if history["droppedSteps"]:
        to.print(f"  [dim]{history['droppedSteps']} earlier steps were dropped[/dim]")
    if history["state"] == "pending" and not history["cycles"]:
        to.print("  [yellow]kube-scheduler has never called koordpy for this pod.[/yellow]")
    show_causes(to, history["causes"])
    show_shared(to, history)
    if history["otherUids"]:
        others = ", ".join(history["otherUids"])
        to.print(f"  [dim]other pods of that name (--uid): {escape(others)}[/dim]")


def show_causes(to: Console, causes: list[dict[str, Any]]) -> None:
    """Print why a pod waits, each reason with what to do about it."""
    for cause in causes:
        to.print(f"  [bold]{cause['certainty']}[/bold] {cause['cause']}: {escape(cause['message'])}")
        to.print(f"    [dim]{escape(cause['fix'])}[/dim]")


def show_shared(to: Console, history: dict[str, Any]) -> None:
    """Print the gang of a pod until it is scheduled, and its quota if that has no room for the pod."""
    gang, quota = history.get("gang"), history.get("quota")
    if gang and history["state"] == "pending":
        show_gang(to, gang)
    if quota and quota["exceeded"]:
        to.print(f"quota [bold]{escape(quota['quota'])}[/bold]:")
        show_path(to, quota)


def _timeline(steps: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2), pad_edge=True, show_header=False)
    for name in ("time", "after", "what", "how"):
        table.add_column(name, justify="right" if name == "after" else "left", no_wrap=name != "how")
    for step in steps:
        what = step["what"]
        colour = _COLOURS.get(what, "default")
        again = f" ({step['times']} times, last {step['lastTime']})" if step["times"] > 1 else ""
        table.add_row(
            step["time"], _after(step["afterSeconds"]), f"[{colour}]{what}[/]", escape(_how(step) + again)
        )
    return table


def _how(step: dict[str, Any]) -> str:
    """Describe a step in one line."""
    refused = ", ".join(f"{plugin} refused {nodes}" for plugin, nodes in step["refusedBy"].items())
    match step["what"]:
        case "filtered":
            nodes = step["evaluatedNodes"]
            counts = f"{step['feasibleNodes']} of {counted(nodes, 'node')} {are(nodes)} feasible"
            return f"{counts}: {refused}" if refused else counts
        case "unschedulable":
            return f"{step['message']} [{refused}]" if refused else str(step["message"])
        case "reported":
            return f"PodScheduled: {step['message']}"
        case "gated":
            return f"by {step['message']}"
        case "ungated":
            return f"{step['message']} gone"
        case "waiting":
            return f"at Permit, for {step['message']}"
        case "binding" | "bound" | "nominated" | "allowed":
            return f"to {step['node']}" if step["node"] else ""
    where = f"{step['node']}: " if step["node"] and step["message"] else step["node"]
    return f"{where}{step['message']}"


def _after(seconds: float) -> str:
    if seconds <= 0:
        return ""
    if seconds < 1:
        return f"+{seconds * 1000:.0f} ms"
    if seconds < 120:
        return f"+{seconds:.1f} s"
    minutes, rest = divmod(int(seconds), 60)
    return f"+{minutes} min {rest} s" if minutes < 120 else f"+{minutes // 60} h {minutes % 60} min"
