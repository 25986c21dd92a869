"""`koordpy why`: a scheduling decision, as text."""

import json
import sys
from typing import Any, Final
from urllib.parse import quote

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from . import descheduling as rounds
from . import history as histories
from .debug_client import DebugServer, NotFound, Server, either_option, follow, get
from .options import Failure, output_option
from .output import Format, console, counted, emit

_COLOURS = {"bound": "green", "unschedulable": "red", "error": "red", "failed": "red"}

_REFUSED: Final = ("unschedulable", "error", "failed")

_EARLIER: Final = 10
"""Earlier attempts of a pod that are printed before those to come."""


@click.command()
@click.argument("pod", metavar="NAMESPACE/POD", required=False)
@click.option(
    "--descheduling",
    is_flag=True,
    help="Show why a pod, or the pods of a node, were evicted or not: NAMESPACE/POD or NODE.",
)
@click.option(
    "--limit",
    type=click.IntRange(1, 10_000),
    help="With --descheduling: how many rounds, the newest and others that tried something.  [default: 3]",
)
@click.option("--history", is_flag=True, help="Show the pod's whole history, and why it waits if it does.")
@click.option("--uid", default="", help="With --history: the UID of one of several pods with that name.")
@click.option("--reservation", default="", help="Show the Reservation with this name instead of a pod.")
@click.option("--follow", is_flag=True, help="Show decisions as they are made; without a pod, for all pods.")
@click.option(
    "--namespace", "-n", default="", help="The pod's namespace; with --follow: only pods of this namespace."
)
@click.option("--outcome", multiple=True, help="With --follow: only attempts with this outcome.")
@either_option(lambda given: bool(given["descheduling"]))
@output_option
@click.pass_context
def why(
    this: click.Context,
    /,
    pod: str | None,
    descheduling: bool,
    limit: int | None,
    history: bool,
    uid: str,
    reservation: str,
    follow: bool,
    namespace: str,
    outcome: tuple[str, ...],
    debug_server: DebugServer,
    output: Format,
) -> None:
    """Show the last scheduling decision about a pod, and the reasons.

    If no decision is known (because kube-scheduler never called koordpy, for example), the pod's history is
    shown. With --descheduling: what the descheduler's last rounds, and its filters, say about a pod or node.
    """
    if history and follow:
        raise click.UsageError("--history and --follow cannot be combined")
    if uid and not history:
        raise click.UsageError("--uid needs --history")
    if limit is not None and not descheduling:
        raise click.UsageError("--limit needs --descheduling")
    if outcome and not follow:
        raise click.UsageError("--outcome needs --follow")
    # kubectl's namespace, or that of the kubeconfig, is for a pod that names none.
    is_default = this.get_parameter_source("namespace") is click.core.ParameterSource.DEFAULT_MAP
    if is_default and (reservation or (pod and "/" in pod)):
        namespace = ""
    if descheduling:
        if history or follow or reservation:
            raise click.UsageError(
                "--descheduling cannot be combined with --history, --follow or --reservation"
            )
        _show_descheduling(debug_server, pod, "" if is_default else namespace, limit, output)
        return
    if reservation and (pod or namespace or history):
        raise click.UsageError("--reservation cannot be combined with a pod, --namespace or --history")
    if reservation and not follow:
        _show_reservation(debug_server, reservation, output)
        return
    if pod is None and not follow:
        raise click.UsageError("Missing argument 'NAMESPACE/POD'.")
    place, name = (namespace, "") if pod is None else _key(pod, namespace)
    if follow:
        wanted = {"namespace": place, "pod": name, "reservation": reservation}
        follow_all(debug_server, wanted, outcome, output)
        return
    life = f"/apis/v1/pods/{quote(place)}/{quote(name)}/history"
    if history:
        told = get(debug_server, life, {"uid": uid} if uid else None)
        emit(told, output, lambda to: histories.show(to, told))
        return
    try:
        found = get(debug_server, f"/apis/v1/decisions/{quote(place)}/{quote(name)}")
    except NotFound as error:
        if output != "text":
            raise Failure(f"{error.message}; --history shows what else is known about the pod") from None
        told = get(debug_server, life)
        emit(told, output, lambda to: histories.show(to, told))
        return
    shared = _shared(debug_server, life) if output == "text" else {}
    causes = _causes(shared) if found[0]["outcome"] in (*_REFUSED, "waiting") else []

    def render(to: Console) -> None:
        show(to, found)
        histories.show_causes(to, causes)
        histories.show_shared(to, shared)

    emit(found, output, render)


def _show_descheduling(
    server: Server, subject: str | None, namespace: str, limit: int | None, output: Format
) -> None:
    """Print what the descheduler's rounds say about NODE or NAMESPACE/POD. Raises Failure."""
    if subject is None:
        raise click.UsageError("Missing argument 'NODE' or 'NAMESPACE/POD'.")
    base, query = "/apis/v1/descheduling", {"limit": limit} if limit is not None else None
    if "/" in subject or namespace:
        place, name = _key(subject, namespace)
        found = get(server, f"{base}/pods/{quote(place)}/{quote(name)}", query)
        emit(found, output, lambda to: rounds.show_pod(to, found))
    else:
        found = get(server, f"{base}/nodes/{quote(subject)}", query)
        emit(found, output, lambda to: rounds.show_node(to, found))


def _show_reservation(server: Server, name: str, output: Format) -> None:
    """Print the attempts to place a Reservation. Raises Failure."""
    found = get(server, "/apis/v1/decisions", {"reservation": name, "limit": _EARLIER})
    if not found:
        raise Failure(
            f"no attempt to place Reservation {name} is recorded: see its conditions (kubectl describe "
            "reservation), and koordpy doctor"
        )
    emit(found, output, lambda to: show(to, found))


def _shared(server: Server, life: str) -> dict[str, Any]:
    """Return what is known about a pod besides its attempts: why it waits, its gang, its quota."""
    try:
        found: dict[str, Any] = get(server, life)
    except NotFound:  # deleted meanwhile
        return {}
    return found


def _causes(shared: dict[str, Any]) -> list[dict[str, Any]]:
    """Return why a pod waits, without causes that its last attempt shows already."""
    return [cause for cause in shared.get("causes", ()) if cause["cause"] != "WaitsForRetry"]


def _key(pod: str, namespace: str) -> tuple[str, str]:
    """Parse NAMESPACE/POD, or POD where its namespace is given. Raises Failure."""
    place, slash, name = pod.rpartition("/")
    place = place if slash else namespace
    if not place or not name or "/" in place:
        raise Failure(f"got {pod!r}, expected NAMESPACE/POD, or -n NAMESPACE POD")
    if namespace not in ("", place):
        raise Failure(f"got pod {pod!r} and --namespace {namespace!r}, expected one namespace")
    return place, name


def show(to: Console, attempts: list[dict[str, Any]]) -> None:
    """Print the latest of a pod's attempts in full, and the number of earlier ones."""
    latest = attempts[0]
    colour = _COLOURS.get(latest["outcome"], "yellow")
    where = f" {'on' if latest['outcome'] == 'failed' else 'to'} {latest['node']}" if latest["node"] else ""
    where += f" in Reservation {latest['allocatedReservation']}" if latest["allocatedReservation"] else ""
    to.print(
        f"  {escape(_subject(latest))} (profile {escape(latest['profile'])}): "
        f"[{colour}]{latest['outcome']}{escape(where)}[/{colour}]"
    )
    if latest["message"]:
        to.print(f"  {escape(latest['message'])}")
    for remark in latest.get("remarks", ()):
        to.print(f"  {escape(remark)}")
    evaluated = counted(latest["evaluatedNodes"], "evaluated node")
    verb = "was" if latest["evaluatedNodes"] == 1 else "were"
    to.print(f"  {latest['feasibleNodes']} of {evaluated} {verb} feasible")
    for rejection in latest["rejections"]:
        names = ", ".join(rejection["examples"][:3])
        more = ", ..." if rejection["nodes"] > 3 else ""
        by = f" by {rejection['plugin']}" if rejection["plugin"] else ""
        to.print(
            f"  [red]{rejection['nodes']} refused[/red]{by}: "
            f"{escape(rejection['reason'])} [dim]({names}{more})[/dim]"
        )
    if latest["topNodes"]:
        to.print(_scores(latest))
        if latest.get("chosenBy", "kube-scheduler") == "kube-scheduler":
            to.print("  [dim]kube-scheduler adds its own scores to these totals[/dim]")
    if latest["evaluatedFor"]:
        to.print(
            f"  [dim]the nodes were evaluated for {escape(latest['evaluatedFor'])}, which has the same "
            "signature; this pod got the best of those offered that had not changed since[/dim]"
        )
    times = ", ".join(f"{verb} {ms:.2f} ms" for verb, ms in latest["milliseconds"].items())
    to.print(f"  [dim]started {latest['started']}{'; ' + times if times else ''}[/dim]")
    if len(attempts) > 1:
        to.print(f"  [dim]{counted(len(attempts) - 1, 'earlier attempt')} recorded (--output json)[/dim]")


def follow_all(server: Server, wanted: dict[str, str], outcomes: tuple[str, ...], output: Format) -> None:
    """Print attempts as they proceed (for one pod its latest earlier ones too), until the service ends.

    As JSON each is one line, as YAML one document. Raises Failure.
    """
    query = [("watch", "true"), *(("outcome", outcome) for outcome in outcomes)]
    query += [(name, value) for name, value in wanted.items() if value]
    if wanted["pod"] or wanted["reservation"]:
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


def _subject(attempt: dict[str, Any]) -> str:
    """Return the object of an attempt."""
    reservation = attempt.get("reservation")
    return f"Reservation {reservation}" if reservation else f"pod {attempt['namespace']}/{attempt['pod']}"


def show_line(to: Console, attempt: dict[str, Any]) -> None:
    """Print the state of an attempt on one line."""
    colour = _COLOURS.get(attempt["outcome"], "yellow")
    where = f" {attempt['node']}" if attempt["node"] else ""
    where += f" in Reservation {attempt['allocatedReservation']}" if attempt["allocatedReservation"] else ""
    feasible = f"{attempt['feasibleNodes']}/{attempt['evaluatedNodes']} nodes"
    message = f": {attempt['message']}" if attempt["message"] else ""
    to.print(
        f"{attempt['started'][11:23]} {escape(_subject(attempt).removeprefix('pod '))} "
        f"[{colour}]{attempt['outcome']}{escape(where)}[/{colour}] [dim]({feasible})[/dim]{escape(message)}"
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
    best = attempt["topNodes"]
    for node in (*best[:5], *(node for node in best[5:] if node["node"] == attempt["node"])):
        scores = [str(node["plugins"].get(plugin, "-")) for plugin in weights]
        table.add_row(node["node"], *scores, str(node["total"]))
    return table
