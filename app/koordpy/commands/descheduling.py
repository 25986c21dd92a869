"""What the descheduler's rounds say, as text: rounds, and what is known about a node or a pod."""

from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import datetime
from typing import Any, Final

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .output import counted

_COLOURS: Final = {"evicted": "green", "dryRun": "cyan", "limited": "yellow", "refused": "red"}

_MOST_LINES: Final = 20
"""Pods, nodes or reasons that are listed; the rest is counted."""

_FIGURES: Final = ("usage", "low", "high", "prodUsage", "prodLow", "prodHigh")

Document = dict[str, Any]


def show_rounds(to: Console, rounds: Sequence[Document], nothing: str) -> None:
    """Print rounds as a table, a line each; without any print `nothing`."""
    if not rounds:
        to.print(escape(nothing))
        return
    table = _table("round", "started", "took", "nodes", "evicted", "dry run", "limited", "refused", "others")
    table.add_column("not tried", justify="right")
    table.add_column("error")
    for each in rounds:
        table.add_row(*_cells(each))
    to.print(table)


def show_line(to: Console, each: Document) -> None:
    """Print a round on one line."""
    tried = ", ".join(f"{pods} {outcome}" for outcome, pods in _attempts(each["runs"]).items())
    error = f" [red]{escape(each['error'])}[/red]" if each["error"] else ""
    passed = sum(count["pods"] for run in each["runs"] for count in run["notEvictedCounts"])
    to.print(
        f"{each['started'][11:19]} round {each['number']}: {counted(each['nodes'], 'node')}, "
        f"{tried or 'no attempt'}, {counted(passed, 'candidate')} not tried{error}"
    )


def show_round(to: Console, each: Document) -> None:
    """Print all of one round."""
    _show_head(to, each)
    for run in each["runs"]:
        _show_run(to, run)


def show_forecast(to: Console, found: Document) -> None:
    """Print what a hypothetical round would do."""
    pods, nodes = found["pods"], found["byNode"]
    where = f" of {counted(len(nodes), 'node')}" if pods else ""
    to.print(f"[bold]{counted(pods, 'pod')}{where} would be evicted[/bold] (nothing is changed)")
    for note in found["notes"]:
        to.print(f"  [dim]{escape(note)}[/dim]")
    if nodes:
        table = _table("node", "pods")
        for node, number in list(nodes.items())[:_MOST_LINES]:
            table.add_row(escape(node), str(number))
        if len(nodes) > _MOST_LINES:
            table.add_row(f"{len(nodes) - _MOST_LINES} more", "")
        to.print(table)
    show_round(to, found["round"])


def show_node(to: Console, story: Document) -> None:
    """Print what is known about a node."""
    state = "does not exist any more"
    if story["exists"]:
        profiles = ", ".join(story["profiles"]) or "no profile selects it"
        cordoned = ", unschedulable" if story["unschedulable"] else ""
        state = f"{'ready' if story['ready'] else 'not ready'}{cordoned}; {escape(profiles)}"
    to.print(f"node [bold]{escape(story['node'])}[/bold]: {state}")
    _show_rounds_about(to, story)
    if not story["exists"]:
        return
    against = [(item["pod"], verdict) for item in story["pods"] for verdict in item["verdicts"]]
    refused = [(pod, verdict) for pod, verdict in against if not verdict["evictable"]]
    may = sum(all(verdict["evictable"] for verdict in item["verdicts"]) for item in story["pods"])
    to.print(f"  now: the filters allow evicting {may} of {counted(len(story['pods']), 'pod')}")
    _show_reasons(to, ((pod, f"{each['by']}: {each['reason']}") for pod, each in refused))


def show_pod(to: Console, story: Document) -> None:
    """Print what is known about a pod."""
    where = f" on {escape(story['node'])}" if story["node"] else ", not bound to a node"
    gone = "" if story["exists"] else ", does not exist any more"
    to.print(f"pod [bold]{escape(story['pod'])}[/bold]{where}{gone}")
    _show_rounds_about(to, story)
    for verdict in story["verdicts"]:
        profile = escape(verdict["profile"])
        if verdict["evictable"]:
            to.print(f"  now: the filters of {profile} allow evicting it")
        else:
            to.print(
                f"  now: the filters of {profile} do not allow evicting it: "
                f"{escape(verdict['by'])}: {escape(verdict['reason'])}"
            )
    if story["exists"] and story["node"] and not story["verdicts"]:
        to.print("  now: no profile selects its node")


def _show_rounds_about(to: Console, story: Document) -> None:
    if not story["rounds"]:
        to.print("  no remembered round names it")
    if quiet := story.get("quietRounds"):
        to.print(f"  [dim]{counted(quiet, 'other remembered round')} tried nothing[/dim]")
    for each in story["rounds"]:
        _show_head(to, each, indent="  ")
        for run in each["runs"]:
            _show_run(to, run, indent="    ", totals=False)


def _show_head(to: Console, each: Document, indent: str = "") -> None:
    notes = f"{counted(each['nodes'], 'ready node')}{', dry run' if each['dryRun'] else ''}"
    to.print(
        f"{indent}round {each['number']} [dim]started {each['started']}, took {_took(each)}, {notes}[/dim]"
    )
    if each["error"]:
        to.print(f"{indent}  [red]{escape(each['error'])}[/red]")


def _show_run(to: Console, run: Document, indent: str = "  ", *, totals: bool = True) -> None:
    to.print(
        f"{indent}[bold]{escape(run['plugin'])}[/bold] ({escape(run['point'])}, {escape(run['profile'])})"
    )
    inner = f"{indent}  "
    if run["error"]:
        to.print(f"{inner}[red]{escape(run['error'])}[/red]")
    for report in run["details"]:
        _show_report(to, report, inner)
    attempts = run["evictions"]
    for item in attempts[:_MOST_LINES]:
        outcome = item["outcome"]
        detail = f" [dim]({escape(item['detail'])})[/dim]" if item["detail"] else ""
        target = f", proved for {escape(item['target'])}" if item.get("target") else ""
        to.print(
            f"{inner}[{_COLOURS.get(outcome, 'yellow')}]{outcome}[/] {escape(item['pod'])} of "
            f"{escape(item['node'])}{target}: {escape(item['reason'])}{detail}"
        )
    told = Counter(item["outcome"] for item in attempts[:_MOST_LINES])
    every = Counter(item["outcome"] for item in attempts)
    if totals:
        every = Counter({item["outcome"]: item["pods"] for item in run["attempts"]}) or every
    for outcome, pods in (every - told).items():
        to.print(f"{inner}[dim]{pods} more {outcome}[/dim]")
    if totals:
        for count in run["notEvictedCounts"]:
            to.print(
                f"{inner}{counted(count['pods'], 'candidate')} {count['outcome']} by {escape(count['by'])}"
            )
    _show_reasons(
        to, ((item["pod"], f"{item['by']}: {item['reason']}") for item in run["notEvicted"]), f"{inner}  "
    )


def _show_reasons(to: Console, found: Iterable[tuple[str, str]], indent: str = "    ") -> None:
    """Print reasons with the pods that they hold for, the most frequent first."""
    by_reason: dict[str, list[str]] = {}
    for pod, reason in found:
        by_reason.setdefault(reason, []).append(pod)
    ordered = sorted(by_reason.items(), key=lambda item: -len(item[1]))
    for reason, pods in ordered[:_MOST_LINES]:
        more = f" and {len(pods) - 3} more" if len(pods) > 3 else ""
        to.print(f"{indent}not evicted: {escape(', '.join(pods[:3]))}{more}: [dim]{escape(reason)}[/dim]")
    if len(ordered) > _MOST_LINES:
        to.print(f"{indent}[dim]{counted(len(ordered) - _MOST_LINES, 'more reason')} (-o json)[/dim]")


def _show_report(to: Console, report: Document, indent: str) -> None:
    """Print a plugin's report: those of LowNodeLoad as tables, others by their fields."""
    if report.get("kind") == "LowNodeLoadNode":
        figures = report["figures"]
        node_class = figures["nodeClass"] if figures else "not measured (no fresh NodeMetric)"
        abnormal = ", abnormal" if report["abnormal"] else ""
        to.print(f"{indent}pool {escape(report['pool'])}: {escape(report['outcome'])}")
        to.print(f"{indent}class {node_class}{abnormal}")
        if figures:
            to.print(_amounts(figures))
    elif report.get("kind") == "LowNodeLoadPool":
        classes = Counter(node["nodeClass"] for node in report["nodes"].values())
        told = ", ".join(f"{number} {node_class}" for node_class, number in classes.most_common())
        unmeasured = (
            f", {len(report['unmeasured'])} without a fresh NodeMetric" if report["unmeasured"] else ""
        )
        to.print(f"{indent}pool {escape(report['name'])}: {escape(report['outcome'])}")
        to.print(f"{indent}nodes: {told or 'none measured'}{unmeasured}")
        hot = [
            (name, node)
            for name, node in report["nodes"].items()
            if name in report["abnormal"] or node["nodeClass"] in ("source", "prodHigh")
        ]
        if hot:
            to.print(_hot_nodes(hot, report["abnormal"]))
    elif report.get("kind") == "NodeUtilizationNode":
        percentages = ", ".join(
            f"{escape(name)} {value:g} %" for name, value in report["figures"]["percentages"].items()
        )
        to.print(f"{indent}{escape(report['outcome'])}")
        to.print(f"{indent}class {escape(report['figures']['nodeClass'])}: requested {percentages}")
    elif report.get("kind") == "NodeUtilization":
        classes = Counter(node["nodeClass"] for node in report["nodes"].values())
        told = ", ".join(f"{number} {node_class}" for node_class, number in classes.most_common())
        to.print(f"{indent}{escape(report['outcome'])}")
        to.print(f"{indent}nodes: {told or 'none measured'}")
    else:
        for key, value in report.items():
            text = str(value)
            to.print(f"{indent}{escape(key)}: {escape(text[:200])}{'...' if len(text) > 200 else ''}")


def _amount(resource: str, value: int | None) -> str:
    """Return an amount of a report with its unit: cores of cpu, bytes in GiB, else as it is."""
    if value is None:
        return ""
    if resource == "cpu":
        return f"{value / 1000:.1f} cores"
    if resource in ("memory", "ephemeral-storage"):
        return f"{value / (1 << 30):.1f} GiB"
    return str(value)


def _amounts(figures: Document) -> Table:
    table = _table("", *_FIGURES)
    for resource in sorted({name for field in _FIGURES for name in figures[field]}):
        table.add_row(
            escape(resource), *(_amount(resource, figures[field].get(resource)) for field in _FIGURES)
        )
    return table


def _hot_nodes(nodes: Sequence[tuple[str, Document]], abnormal: Sequence[str]) -> Table:
    table = _table("node", "class", "abnormal", "usage / high threshold")
    for name, node in nodes[:_MOST_LINES]:
        usage, high = ("prodUsage", "prodHigh") if node["nodeClass"] == "prodHigh" else ("usage", "high")
        told = [
            f"{escape(resource)} {_amount(resource, amount)}/{_amount(resource, node[high][resource])}"
            for resource, amount in node[usage].items()
            if resource in node[high]
        ]
        table.add_row(escape(name), node["nodeClass"], "yes" if name in abnormal else "", ", ".join(told))
    if len(nodes) > _MOST_LINES:
        table.add_row(f"{len(nodes) - _MOST_LINES} more")
    return table


def _attempts(runs: Iterable[Document]) -> Counter[str]:
    found: Counter[str] = Counter()
    for run in runs:
        for item in run["attempts"]:
            found[item["outcome"]] += item["pods"]
    return found


def _cells(each: Document) -> list[str]:
    tried = _attempts(each["runs"])
    others = sum(tried.values()) - sum(tried[outcome] for outcome in _COLOURS)
    passed = sum(count["pods"] for run in each["runs"] for count in run["notEvictedCounts"])
    columns = [tried["evicted"], tried["dryRun"], tried["limited"], tried["refused"], others, passed]
    return [
        str(each["number"]),
        each["started"][:19],
        _took(each),
        str(each["nodes"]),
        *(str(number or "-") for number in columns),
        escape(each["error"]),
    ]


def _took(each: Document) -> str:
    if not each["ended"]:
        return "still running"
    seconds = datetime.fromisoformat(each["ended"]) - datetime.fromisoformat(each["started"])
    return f"{seconds.total_seconds():.2f} s"


def _table(*columns: str) -> Table:
    table = Table(box=None, padding=(0, 2), pad_edge=True)
    for column in columns:
        table.add_column(column, no_wrap=True)
    return table
