"""`koordpy gang`: gangs, how far their members are, and what they wait for."""

from typing import Any
from urllib.parse import quote

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .debug_client import DebugServer, get, server_option
from .options import Failure, output_option
from .output import Format, counted, emit, fitting

_COLOURS = {
    "scheduled": "green",
    "bound": "green",
    "waiting": "yellow",
    "planned": "yellow",
    "incomplete": "red",
    "blocked": "red",
    "unknown": "red",
}
_COUNTS = {
    "members": "PODS",
    "bound": "BOUND",
    "waiting": "WAITING",
    "planned": "PLANNED",
    "gated": "GATED",
    "pending": "PENDING",
}
"""Heads of the columns with the numbers of pods."""


@click.group(short_help="Gangs, how far their members are, and what they wait for.")
def gang() -> None:
    """Show gangs: pods that are scheduled together, all that are needed or none."""


@gang.command("list")
@click.option("--namespace", "-n", default="", help="Only gangs of this namespace.")
@click.option(
    "--all-namespaces", "-A", is_flag=True, help="Gangs of all namespaces, as a plugin of kubectl too."
)
@server_option
@output_option
@click.pass_context
def list_(
    this: click.Context,
    /,
    namespace: str,
    all_namespaces: bool,
    debug_server: DebugServer,
    output: Format,
) -> None:
    """List gangs and how many of their pods are in which state.

    As a plugin of kubectl those of the context's namespace, else of all.
    """
    if all_namespaces:
        if namespace and this.get_parameter_source("namespace") is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError("--namespace and --all-namespaces cannot be combined")
        namespace = ""
    found = get(debug_server, "/apis/v1/gangs", {"namespace": namespace} if namespace else None)
    emit(found, output, lambda to: show_list(to, found))


@gang.command()
@click.argument("name", metavar="NAMESPACE/NAME")
@click.option("--namespace", "-n", default="", help="The gang's namespace.")
@server_option
@output_option
@click.pass_context
def show(
    this: click.Context, /, name: str, namespace: str, debug_server: DebugServer, output: Format
) -> None:
    """Show a gang, each of its pods, and what it waits for."""
    place, slash, short = name.partition("/")
    if not slash:
        place, short = namespace, name
    if not place or not short or "/" in short:
        raise Failure(f"got {name!r}, expected NAMESPACE/NAME, or -n NAMESPACE NAME")
    is_default = this.get_parameter_source("namespace") is click.core.ParameterSource.DEFAULT_MAP
    if slash and namespace not in ("", place) and not is_default:
        raise Failure(f"got gang {name!r} and --namespace {namespace!r}, expected one namespace")
    found = get(debug_server, f"/apis/v1/gangs/{quote(place)}/{quote(short)}")
    emit(found, output, lambda to: show_gang(to, found))


def show_list(to: Console, gangs: list[dict[str, Any]]) -> None:
    """Print gangs as a table."""
    if not gangs:
        to.print("no gangs")
        return
    to.print(fitting(to, _table(gangs), lambda: _table(gangs, is_narrow=True)))


def _table(gangs: list[dict[str, Any]], *, is_narrow: bool = False) -> Table:
    """Return gangs as a table; a narrow one has what `koordpy gang show` has no need to add to."""
    table = Table(box=None, padding=(0, 1 if is_narrow else 2, 0, 0), pad_edge=False)
    table.add_column("GANG", no_wrap=True)
    table.add_column("STATE", no_wrap=True)
    counts = ["members", "bound"] if is_narrow else [*_COUNTS]
    for name in ("MIN", *(_COUNTS[count] for count in counts)):
        table.add_column(name, justify="right", no_wrap=True)
    if not is_narrow:
        table.add_column("MODE", no_wrap=True)
        table.add_column("POLICY", no_wrap=True)
    table.add_column("WAITS FOR")
    for found in gangs:
        state = found["state"]
        table.add_row(
            escape(found["gang"]),
            f"[{_COLOURS.get(state, 'default')}]{state}[/]",
            str(found["minMember"]),
            *(str(found["size"][count]) for count in counts),
            *(() if is_narrow else (found["mode"], found["matchPolicy"])),
            escape(waits_for(found)),
        )
    return table


def waits_for(gang: dict[str, Any]) -> str:
    """Return what a gang waits for, in a few words."""
    size = gang["size"]
    match gang["state"]:
        case "unknown":
            return "its PodGroup, or a valid minimum"
        case "incomplete":
            return f"{gang['minMember'] - size['members']} more to be created"
        case "blocked":
            return "; ".join(f"{peer['gang']} {peer['problem']}" for peer in gang["group"] if peer["problem"])
        case "pending" | "planned" | "waiting":
            failed = f"a node for {gang['failedMember']}" if gang["failedMember"] else ""
            needed = f"{size['needed']} more at Permit" if gang["state"] == "waiting" else ""
            return ", ".join(filter(None, (needed, failed)))
    return ""


def show_gang(to: Console, gang: dict[str, Any]) -> None:
    """Print a gang with its members."""
    state, size = gang["state"], gang["size"]
    to.print(
        f"gang [bold]{escape(gang['gang'])}[/bold] (from {gang['writtenAs']}): "
        f"[{_COLOURS.get(state, 'default')}]{state}[/]"
    )
    if state != "unknown":
        least = f"{counted(gang['minMember'], 'pod')} of {max(gang['totalMembers'], size['members'])}"
        policy = f"{gang['mode']}, {gang['matchPolicy']}; pods wait up to {gang['waitSeconds']:g} s"
        to.print(f"  needs at least {least}; {policy}")
    counts = ", ".join(
        f"{size[state]} {state}"
        for state in ("bound", "waiting", "planned", "gated", "pending")
        if size[state]
    )
    to.print(f"  {counted(size['members'], 'pod')}: {counts or 'none'}")
    if (words := waits_for(gang)) and state != "scheduled":
        to.print(f"  waits for [yellow]{escape(words)}[/yellow]")
    if gang["failedMember"] and state != "scheduled":
        to.print(f"  [red]{escape(gang['failedMember'])}[/red]: {escape(gang['failure'])}")
    if len(gang["group"]) > 1:
        to.print("  gang group:")
        for peer in gang["group"]:
            note = f" [red]{escape(peer['problem'])}[/red]" if peer["problem"] else ""
            pods = counted(peer["members"], "pod")
            to.print(f"    {escape(peer['gang'])}: {pods}, min {peer['minMember']}{note}")
    if gang["members"]:
        to.print(_members(gang["members"], gang["failure"]))


def _members(members: list[dict[str, Any]], failure: str) -> Table:
    """Return members as a table; what they have in common is not repeated."""
    table = Table(box=None, padding=(0, 2), pad_edge=True)
    told = {failure: "above"}
    table.add_column("POD", no_wrap=True)
    table.add_column("STATE", no_wrap=True)
    table.add_column("NODE", no_wrap=True)
    table.add_column("FOR", justify="right", no_wrap=True)
    table.add_column("WHY")
    for member in members:
        left, state = member["secondsLeft"], member["state"]
        message = member["message"]
        why = message or ", ".join(member["gates"])
        if message and (first := told.setdefault(message, member["pod"])) != member["pod"]:
            why = f"as {first}"
        table.add_row(
            escape(member["pod"]),
            f"[{_COLOURS.get(state, 'default')}]{state}[/]",
            escape(member["node"]),
            "" if left is None else f"{left:.0f} s",
            escape(why),
        )
    return table
