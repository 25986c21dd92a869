"""`koordpy audit`: whether anything of a cluster is handed out twice.

Exit codes: 0 when the books are clean, 1 with findings, 2 when there is nothing that can be audited.
"""

import asyncio
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .audit_lists import listed as listed
from .options import cluster_options, output_option
from .output import Format, counted, emit

if TYPE_CHECKING:
    from koordpy.audit.finding import Finding, Report

_COLOURS = {"error": "red", "warning": "yellow", "note": "dim"}
_OUTCOMES = {"done": "green", "nothing to check": "dim", "not possible": "magenta"}
_MOST_OWNERS = 4
"""Owners of a finding that the table names."""
_UNUSABLE = 2
_NUMBER = re.compile(r"(?<=s)es(?= |$)|s(?= on | without |$)")
"""What makes the name of a count plural: `statuses`, `nodes without zones`."""


class Unusable(click.ClickException):
    """There is nothing that can be audited."""

    exit_code = _UNUSABLE


@click.command(short_help="Check that nothing of a cluster is handed out twice.")
@click.option(
    "-f",
    "--filename",
    "files",
    multiple=True,
    help="A dump instead of a cluster: a file or folder of kubectl's output, or a recording; - is stdin.",
)
@click.option(
    "--recheck",
    type=click.FloatRange(0, 3600),
    default=3.0,
    show_default=True,
    metavar="SECONDS",
    help="On a cluster, findings are reported if they are still there after this time.",
)
@click.option(
    "--watch",
    "watches",
    is_flag=True,
    help="Follow the cluster, and print findings as they appear and last; Ctrl-C ends it.",
)
@cluster_options
@output_option
@click.pass_context
def audit(
    this: click.Context,
    /,
    files: tuple[str, ...],
    recheck: float,
    watches: bool,
    output: Format,
    **access: str | None,
) -> None:
    """Check that nothing of a cluster is handed out twice, from its objects alone.

    Checked are what nodes have and what pods and Reservations request of it, CPUs, NUMA nodes, devices with
    their memory and virtual functions, Reservations and their owners, quotas and their pods. Each finding
    names who holds what, where, and how much. Nothing is changed, and no other component is asked.

    A note is no finding: services use more than before, and so a node offers less to batch pods than those it
    has already request.

    Exit codes: 0 the books are clean, 1 there are findings, 2 there is nothing that can be audited.
    """
    if files and any(access.values()):
        raise click.UsageError("-f cannot be combined with --server, --kubeconfig and --context")
    if files and watches:
        raise click.UsageError("-f cannot be combined with --watch: a dump does not change")
    if watches:
        this.exit(1 if _watched(recheck, output, access) else 0)
    report = _of_files(files) if files else _of_cluster(recheck, access)
    emit(report.model_dump(mode="json"), output, lambda to: show(to, report))
    this.exit(report.exit_code)


def _of_files(files: tuple[str, ...]) -> "Report":
    from koordpy.audit import dump, objects
    from koordpy.audit.auditing import audit as audited

    def found() -> Iterator[dump.Placed]:
        for file in files:
            if file == "-":
                yield from dump.read_text(sys.stdin.buffer.read(), "stdin", Path())
            else:
                yield from dump.read(Path(file))

    try:
        return audited(objects.of_documents(found()), ", ".join(files))
    except objects.UnusableDump as error:
        raise Unusable(str(error)) from None
    except OSError as error:
        raise Unusable(f"{error.filename}: {error.strerror}") from None


def _of_cluster(recheck: float, access: dict[str, str | None]) -> "Report":
    from koordpy.api.scheme import DecodeError
    from koordpy.audit.auditing import audit as audited
    from koordpy.audit.auditing import confirmed
    from koordpy.cluster.connection import ConnectionConfigError
    from koordpy.cluster.errors import ApiError, ConnectionFailed

    from .known import Access

    async def look() -> "Report":
        async with Access(**access).client() as client:
            server = client.connection.server
            report = audited(await listed(client), server)
            if report.findings:
                await asyncio.sleep(recheck)
                report = confirmed(report, audited(await listed(client), server))
            return report

    try:
        return asyncio.run(look())
    except (ApiError, ConnectionConfigError, ConnectionFailed, DecodeError, OSError) as error:
        raise Unusable(str(error)) from None


def _watched(recheck: float, output: Format, access: dict[str, str | None]) -> int:
    """Follow a cluster until a signal; return how many findings there were."""
    from koordpy.cluster.connection import ConnectionConfigError
    from koordpy.cluster.errors import ApiError, ConnectionFailed

    from .audit_watch import Watch
    from .known import Access

    async def follow() -> int:
        stopping = asyncio.Event()
        for number in (signal.SIGINT, signal.SIGTERM):
            asyncio.get_running_loop().add_signal_handler(number, stopping.set)
        async with Access(**access).client() as client:
            click.echo(f"auditing {client.connection.server} (Ctrl-C ends it)", err=True)
            watch = Watch(client, recheck, lambda found: _tell(found, output))
            await watch.run(stopping)
            return watch.told

    try:
        return asyncio.run(follow())
    except (ApiError, ConnectionConfigError, ConnectionFailed, OSError) as error:
        raise Unusable(str(error)) from None


def _tell(found: "Finding", output: Format) -> None:
    """Print one finding: a line of text or JSON, or a YAML document."""
    if output == "json":
        click.echo(found.model_dump_json())
    elif output == "yaml":
        click.echo("---")
        emit(found.model_dump(mode="json"), output, lambda _: None)
    else:
        amounts = f" ({found.held}{f' of {found.limit}' if found.limit else ''})" if found.held else ""
        place = f"node {found.node}, " if found.node else ""
        click.echo(f"{found.severity.value}: {place}{found.what}: {found.problem}{amounts}: {_owners(found)}")


def show(to: Console, report: "Report") -> None:
    """Print the findings and notes, then what was checked."""
    if report.findings or report.notes:
        table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False)
        for name in ("SEVERITY", "NODE", "WHAT", "HELD", "OF", "PROBLEM", "OWNERS"):
            table.add_column(name, no_wrap=name not in ("PROBLEM", "OWNERS"))
        for found in (*report.findings, *report.notes):
            colour = _COLOURS[found.severity.value]
            table.add_row(
                f"[{colour}]{found.severity.value}[/]",
                escape(found.node or "-"),
                escape(found.what),
                escape(found.held or "-"),
                escape(found.limit or "-"),
                escape(found.problem),
                escape(_owners(found)),
            )
        to.print(table)
        to.print()
    for checked in report.checks:
        outcome = checked.outcome.value
        counts = ", ".join(
            counted(number, _NUMBER.sub("", what, count=1), what) for what, number in checked.counts.items()
        )
        details = "; ".join(part for part in (counts, checked.reason) if part)
        to.print(
            f"{checked.check:<15} [{_OUTCOMES[outcome]}]{outcome}[/]"
            + (f": {escape(details)}" if details else "")
        )
    read = ", ".join(f"{number:,} {kind}" for kind, number in report.objects.items())
    result = f"{counted(report.errors, 'error')}, {counted(report.warnings, 'warning')}"
    verdict = result if report.findings else "nothing is handed out twice"
    if report.notes:
        verdict += f", {counted(len(report.notes), 'note')}"
    to.print(f"{escape(report.source)} ({read}): {verdict}")


def _owners(found: "Finding") -> str:
    more = len(found.owners) - _MOST_OWNERS
    named = ", ".join(str(owner) for owner in found.owners[:_MOST_OWNERS])
    return f"{named} and {more} more" if more > 0 else named
