"""`koordpy quota`: the quota tree, why a quota has no room, and the root quotas of profiles."""

import asyncio
from typing import Any
from urllib.parse import quote as quoted

import click
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .debug_client import DebugServer, get, server_option
from .options import cluster_options, documents, files_option, output_option
from .output import Format, counted, emit, fitting

FOUND = 3
"""The exit code of a command that succeeded with bad results."""

_BAR = 10
"""Characters of a bar of usage."""


@click.group(short_help="The quota tree, and why a quota has no room.")
def quota() -> None:
    """Show ElasticQuotas: what each uses, may use and is guaranteed, and who borrows from whom."""


@quota.command()
@click.argument("name", required=False)
@click.option("--tree", default="", help="Only the quotas of the tree with this ID.")
@server_option
@output_option
def tree(name: str | None, tree: str, debug_server: DebugServer, output: Format) -> None:
    """Show all quotas, or NAME with the quotas below it."""
    query = {key: value for key, value in (("tree", tree), ("below", name or "")) if value}
    found = get(debug_server, "/apis/v1/quotas", query)
    emit(found, output, lambda to: show_tree(to, found))


@quota.command()
@click.argument("name")
@server_option
@output_option
def explain(name: str, debug_server: DebugServer, output: Format) -> None:
    """Show quota NAME up to the root, what exceeds its limits, and who shares with it."""
    found = get(debug_server, f"/apis/v1/quotas/{quoted(name)}")
    emit(found, output, lambda to: show_explanation(to, found))


@quota.command(short_help="Show the root quota that a new or changed profile would get.")
@files_option("YAML of ElasticQuotaProfiles (and of nodes and ElasticQuotas)", required=True)
@click.option("--offline", is_flag=True, help="Ask no cluster: the nodes and quotas in the files are all.")
@cluster_options
@output_option
@click.pass_context
def preview(
    this: click.Context,
    /,
    files: tuple[str, ...],
    offline: bool,
    output: Format,
    **access: Any,
) -> None:
    """Show what the controller quotaprofile would write for ElasticQuotaProfiles; nothing is written.

    The nodes and quotas are those of the cluster; those in files take precedence. Exit code 3: a profile
    cannot be used.
    """
    from . import quota_preview
    from .known import Access

    found = asyncio.run(quota_preview.preview(documents(files), Access(**access), offline=offline))
    plain = [item.model_dump(mode="json") for item in found]
    emit(plain, output, lambda to: quota_preview.show(to, found))
    if any(item.problem for item in found):
        this.exit(FOUND)


def show_tree(to: Console, found: dict[str, Any]) -> None:
    """Print quotas as a table, one line for each resource."""
    if not found["quotas"]:
        to.print("no quotas")
        return
    _print_table(to, found["quotas"])
    limit = "its runtime quota" if found["limitedBy"] == "runtime" else "its max"
    parents = " and that of its parents" if found["checksParents"] else ""
    to.print(f"[dim]a pod is scheduled while used + requested stays within {limit}{parents}[/dim]")


def _print_table(to: Console, quotas: list[dict[str, Any]]) -> None:
    to.print(fitting(to, _table(quotas), lambda: _table(quotas, is_narrow=True)))


def _table(quotas: list[dict[str, Any]], *, is_narrow: bool = False) -> Table:
    """Return quotas as a table; a narrow one has no requests, no bars, and scaled minimums in the notes."""
    table = Table(box=None, padding=(0, 1 if is_narrow else 2, 0, 0), pad_edge=False)
    table.add_column("QUOTA", no_wrap=True)
    table.add_column("RESOURCE", no_wrap=True)
    for name in ("USED", "RUNTIME", "MIN", "MAX", *(() if is_narrow else ("REQUEST",))):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("%" if is_narrow else "OF LIMIT", justify="right" if is_narrow else "left", no_wrap=True)
    table.add_column("")
    trees = len({quota["tree"] for quota in quotas}) > 1
    for quota in quotas:
        label = "  " * quota["depth"] + quota["name"]
        label += f" (tree {quota['tree']})" if trees and quota["tree"] and not quota["depth"] else ""
        if not quota["resources"]:
            table.add_row(escape(label))
        for row in quota["resources"]:
            minimum = row["min"]
            marks = _marks(quota, row)
            if row["scaledMin"] and row["scaledMin"] != minimum:
                if is_narrow:
                    marks = ", ".join(filter(None, (marks, f"min now {row['scaledMin']}")))
                else:
                    minimum += f" (now {row['scaledMin']})"
            table.add_row(
                escape(label),
                escape(row["resource"]),
                row["used"],
                row["runtime"],
                minimum,
                row["max"],
                *(() if is_narrow else (row["request"],)),
                _percent(row["usedPercent"], is_narrow=is_narrow),
                marks,
            )
            label = ""
    return table


def _percent(percent: float | None, *, is_narrow: bool) -> str:
    if percent is None or is_narrow:
        return "" if percent is None else f"{percent:.0f}"
    filled = min(_BAR, round(percent / 100 * _BAR))
    return f"{'█' * filled}{'░' * (_BAR - filled)} {percent:.0f}%"


def _marks(quota: dict[str, Any], row: dict[str, Any]) -> str:
    """Return what is remarkable about a resource of a quota."""
    marks = []
    if row["overUsed"]:
        marks.append(f"[red]over-used by {row['overUsed']}[/red]")
    if row["borrowed"]:
        marks.append(f"[yellow]borrows {row['borrowed']}[/yellow]")
    if row["lent"]:
        marks.append(f"[green]lends {row['lent']}[/green]")
    if not quota["lends"] and row["min"]:
        marks.append("[dim]does not lend[/dim]")
    return ", ".join(marks)


def show_explanation(to: Console, found: dict[str, Any]) -> None:
    """Print a quota up to the root, what is exceeded, and who shares with it."""
    limit = "runtime quota" if found["limitedBy"] == "runtime" else "max"
    tree = f" of tree {found['tree']}" if found["tree"] else ""
    to.print(
        f"quota [bold]{escape(found['quota'])}[/bold]{escape(tree)}: {counted(found['pods'], 'pod')} "
        f"with a node, limited by {limit}{', and by its parents' if found['checksParents'] else ''}"
    )
    show_path(to, found)
    if not found["exceeded"]:
        to.print("  no limit is exceeded")


def show_path(to: Console, found: dict[str, Any]) -> None:
    """Print the quotas from the top down to one, what is exceeded, who shares, and what would have to go."""
    _print_table(to, list(reversed(found["path"])))
    for one in found["exceeded"]:
        asked = f" + {one['request']} requested" if one["request"] else ""
        to.print(
            f"  [red]{escape(one['quota'])}: {escape(one['resource'])} {one['used']} used{asked} exceeds "
            f"{one['kind']} {one['limit']} by {one['short']}[/red]"
        )
    for sharing in found["sharing"]:
        told = [
            f"{what} {', '.join(escape(share['quota']) + ' ' + share['amount'] for share in shares)}"
            for what, shares in (("over their min", sharing["borrowers"]), ("lend", sharing["lenders"]))
            if shares
        ]
        to.print(f"  below {escape(sharing['parent'])}, {escape(sharing['resource'])}: {'; '.join(told)}")
    if found["toFree"]:
        to.print("  room would be made by the end of:")
        for pod in found["toFree"]:
            amounts = ", ".join(f"{name} {amount}" for name, amount in pod["resources"].items())
            to.print(
                f"    {escape(pod['pod'])} on {escape(pod['node'])}, priority {pod['priority']}: {amounts}"
            )
