"""`koordpy whatif --drain`: where the pods of a node would go, as text."""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .output import counted


def show(to: Console, found: dict[str, Any]) -> None:
    """Print what a drain would do."""
    placed, pods = found["placed"], len(found["pods"])
    colour = "green" if placed == pods else "yellow" if placed else "red"
    cordoned = " (already unschedulable)" if found["unschedulable"] else ""
    to.print(
        f"draining {escape(found['node'])}{cordoned}: "
        f"[{colour}]{placed} of {counted(pods, 'pod')} would find another node[/{colour}]"
    )
    for note in found["notes"]:
        to.print(f"  [dim]{escape(note)}[/dim]")
    if found["pods"]:
        to.print(_pods(found["pods"]))
    for pod in found["pods"]:
        if not pod["node"]:
            to.print(f"  [red]no node for {escape(pod['pod'])}[/red]: {escape(pod['message'])}")
    if found["refused"]:
        to.print(f"  [yellow]{counted(found['refused'], 'eviction')} would be refused now[/yellow]")
    for pod in found["staying"]:
        to.print(f"  [dim]{escape(pod['pod'])} stays: {escape(pod['reason'])}[/dim]")


def _pods(pods: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2), pad_edge=True)
    for column in ("pod", "owner", "to node", "eviction"):
        table.add_column(column, no_wrap=True)
    for pod in pods:
        refused = pod["evictionRefused"]
        remarks = [f"[yellow]refused now: {escape(refused)}[/yellow]" if refused else "allowed"]
        remarks += [f"[dim]{escape(note)}[/dim]" for note in pod["notes"]]
        table.add_row(
            escape(pod["pod"]),
            escape(pod["owner"]) or "-",
            escape(pod["node"]) or "[red]none[/red]",
            "; ".join(remarks),
        )
    return table
