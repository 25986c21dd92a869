"""`koordpy whatif`: where pods would be placed, and why the others would not be."""

import sys
from pathlib import Path
from typing import Any, Final

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from koordpy.api.workloads import pod_of

from . import descheduling, whatif_drain
from .debug_client import DebugServer, either_option, post, post_text
from .options import Failure, documents, files_option, output_option
from .output import Format, counted, emit

_ONE_BY_ONE: Final = 20
"""Pods that are shown on a line each; more are grouped by node."""

_NOT_ALL: Final = 3
"""The exit code when a pod would not be placed."""


@click.command(short_help="Show where pods would be placed, and why.")
@files_option("File with a pod or a workload (Deployment, ReplicaSet, StatefulSet, Job)")
@click.option("--drain", metavar="NODE", default="", help="Show where the pods of a node would go instead.")
@click.option(
    "--descheduler-config",
    metavar="FILE",
    default="",
    help="Show what a round of this DeschedulerConfiguration would do instead; - is stdin.",
)
@click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    help="With --descheduler-config: rounds on the same data, of which the last is shown.",
)
@click.option("--count", type=click.IntRange(min=1), help="The number of pods, instead of the workload's.")
@click.option(
    "--admission/--no-admission",
    default=None,
    help="Apply the webhooks' changes first, or do not (default: if that koordpy serves webhooks).",
)
@click.option(
    "--top",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="How many of the best nodes to show for each pod.",
)
@click.option("--namespace", "-n", default="", help="The namespace of pods and workloads that name none.")
@either_option(lambda given: bool(given["descheduler_config"]))
@output_option
def whatif(
    files: tuple[str, ...],
    drain: str,
    descheduler_config: str,
    rounds: int | None,
    count: int | None,
    admission: bool | None,
    top: int,
    namespace: str,
    debug_server: DebugServer,
    output: Format,
) -> None:
    """Show where pods would be placed, one after the other, and why others would not be. Nothing is changed.

    Each workload is evaluated as if it were the only one. With --drain: where the pods of a node would go if
    it was drained, and which evictions PodDisruptionBudgets forbid. Exit code 3: not all would be placed.

    With --descheduler-config: which pods a round of the descheduler would evict, and why it would not evict
    others; plugins that act on what lasts (LowNodeLoad's anomalyCondition) need several --rounds.
    """
    if rounds is not None and not descheduler_config:
        raise click.UsageError("--rounds needs --descheduler-config")
    if descheduler_config:
        _refuse_others("--descheduler-config", drain=drain, files=files, count=count, admission=admission)
        _show_descheduling(debug_server, descheduler_config, rounds or 1, output)
        return
    if drain:
        _refuse_others("--drain", files=files, count=count, admission=admission)
        _show_drain(debug_server, drain, output)
        return
    if not files:
        raise click.UsageError("Missing option '-f' / '--filename', '--drain' or '--descheduler-config'.")
    wanted = [
        (file, document) for file in files for document in documents((file,)) if pod_of(document) is not None
    ]
    if not wanted:
        raise Failure(f"{', '.join(files)}: no pod or workload (Deployment, ReplicaSet, StatefulSet, Job)")
    for _, document in wanted if namespace else ():
        document["metadata"] = {"namespace": namespace, **(document.get("metadata") or {})}
    query: dict[str, Any] = {"top": top}
    if count is not None:
        query["count"] = count
    if admission is not None:
        query["admission"] = "true" if admission else "false"
    found = [_forecast(debug_server, file, document, query) for file, document in wanted]
    emit(found[0] if len(found) == 1 else found, output, lambda to: _show_all(to, found))
    if any(item["stopped"] for item in found):
        raise click.exceptions.Exit(_NOT_ALL)


def _refuse_others(option: str, **others: object) -> None:
    """Raise UsageError for options about workloads beside another question."""
    names = {"drain": "--drain", "files": "-f", "count": "--count", "admission": "--admission"}
    given = [names[name] for name, value in others.items() if value not in (None, (), "")]
    if given:
        raise click.UsageError(f"{option} and {given[0]} cannot be combined")


def _show_drain(server: DebugServer, node: str, output: Format) -> None:
    """Print what a drain would do. Exits with code 3 if a pod would find no node. Raises Failure."""
    found = post(server, "/apis/v1/whatif/drain", None, {"node": node})
    emit(found, output, lambda to: whatif_drain.show(to, found))
    if found["withoutPlace"]:
        raise click.exceptions.Exit(_NOT_ALL)


def _show_descheduling(server: DebugServer, file: str, rounds: int, output: Format) -> None:
    """Print what rounds of a configuration would do. Raises Failure, which names the file if it is wrong."""
    try:
        text = sys.stdin.read() if file == "-" else Path(file).read_text(encoding="utf-8")
    except OSError as error:
        raise Failure(f"{file}: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise Failure(f"{file}: not UTF-8: {error}") from None
    path = "/apis/v1/whatif/descheduling"
    try:
        found = post_text(server, path, text, {"rounds": rounds})
    except Failure as error:
        raise _about(error, server, file) from None
    emit(found, output, lambda to: descheduling.show_forecast(to, found))


def _about(error: Failure, server: DebugServer, file: str) -> Failure:
    """Return an error with the name of the file, unless it is about the connection."""
    if server.url in error.message or (server.subject and server.subject in error.message):
        return error
    return Failure(f"{file}: {error.message}")


def _forecast(
    debug_server: DebugServer, file: str, document: dict[str, Any], query: dict[str, Any]
) -> dict[str, Any]:
    """Return the answer for one document. Raises Failure, which names the file of a wrong document."""
    try:
        answer: dict[str, Any] = post(debug_server, "/apis/v1/whatif", document, query)
    except Failure as error:
        raise _about(error, debug_server, file) from None
    return answer


def _show_all(to: Console, found: list[dict[str, Any]]) -> None:
    for number, item in enumerate(found):
        if number:
            to.print()
        show(to, item)


def show(to: Console, found: dict[str, Any]) -> None:
    """Print one answer as text."""
    placed, pods = len(found["placed"]), found["pods"]
    profile = f" (profile {found['profile']})" if found["profile"] else ""
    colour = "green" if placed == pods else "yellow" if placed else "red"
    what = f"{escape(found['kind'])} {escape(found['namespace'])}/{escape(found['name'])}{escape(profile)}"
    on = f" on {counted(len(found['byNode']), 'node')}" if placed else ""
    to.print(f"{what}: [{colour}]{placed} of {counted(pods, 'pod')} would be placed[/{colour}]{on}")
    _show_admission(to, found["admission"])
    for note in found["notes"]:
        to.print(f"  [dim]{escape(note)}[/dim]")
    if placed:
        to.print(_pods(found) if placed <= _ONE_BY_ONE else _nodes(found))
    if found["stopped"]:
        _show_stop(to, found["stopped"])


def _show_admission(to: Console, admission: dict[str, Any]) -> None:
    if not admission["ran"]:
        to.print(f"  [dim]webhooks: {escape(admission['message'])}[/dim]")
        return
    changes = admission["changes"]
    to.print(f"  [dim]webhooks: {counted(len(changes), 'change') if changes else 'nothing is changed'}[/dim]")
    for change in changes:
        to.print(f"    [dim]{change['op']} {escape(change['path'])} ({escape(change['cause'])})[/dim]")


def _pods(found: dict[str, Any]) -> Table:
    """One line per pod: its node, and the score differences to the next best node."""
    table = _table("pod", "node")
    table.add_column("score", justify="right")
    table.add_column("feasible", justify="right")
    table.add_column("next best")
    table.add_column("because")
    for pod in found["placed"]:
        best, *others = pod["topNodes"]
        following = f"{others[0]['node']} {others[0]['total']}" if others else ""
        table.add_row(
            escape(pod["pod"]),
            escape(pod["node"]),
            str(pod["total"]),
            f"{pod['feasibleNodes']}/{pod['evaluatedNodes']}",
            escape(following),
            _difference(best, others[0]) if others else "",
        )
    return table


def _difference(best: dict[str, Any], other: dict[str, Any]) -> str:
    """Return the score differences of two nodes by plugin, the largest first."""
    ahead = {plugin: score - other["plugins"].get(plugin, 0) for plugin, score in best["plugins"].items()}
    told = sorted((item for item in ahead.items() if item[1]), key=lambda item: -abs(item[1]))
    return ", ".join(f"{plugin} {points:+d}" for plugin, points in told) or "equal scores"


def _nodes(found: dict[str, Any]) -> Table:
    table = _table("node")
    table.add_column("pods", justify="right")
    for node, pods in found["byNode"].items():
        table.add_row(escape(node), str(pods))
    return table


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2), pad_edge=True)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table


def _show_stop(to: Console, stop: dict[str, Any]) -> None:
    rest = "it" if stop["pods"] == 1 else f"it and {counted(stop['pods'] - 1, 'pod')} after it"
    to.print(f"  [red]no node for {escape(stop['pod'])}[/red] ({escape(stop['stage'])} stops {rest})")
    to.print(f"  {escape(stop['message'])}")
    for refused in stop["rejections"]:
        names = ", ".join(refused["examples"])
        more = ", ..." if refused["nodes"] > len(refused["examples"]) else ""
        to.print(
            f"  [red]{refused['nodes']} refused[/red] by {escape(refused['plugin'])}: "
            f"{escape(refused['reason'])} [dim]({escape(names)}{more})[/dim]"
        )
    eviction = stop["eviction"]
    if eviction is not None:
        names = ", ".join(f"{victim['namespace']}/{victim['name']}" for victim in eviction["victims"])
        budgets = (
            f", violating {counted(eviction['pdbViolations'], 'budget')}" if eviction["pdbViolations"] else ""
        )
        to.print(f"  evicting {escape(names)} from {escape(eviction['node'])} would make room{budgets}")
    elif stop["preemptionMightHelp"]:
        number = stop["preemptionMightHelp"]
        refuse = f"{counted(number, 'node')} {'refuses' if number == 1 else 'refuse'} it for now only"
        to.print(f"  [dim]{refuse}, but evicting less important pods would not make room[/dim]")
