"""Results as tables: a row for each quantity, a column for each scheduler."""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import msgspec
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from koordpy.lib.counting import counted

from .result import Colocation, Gangs, Result, Spread

_MOST_QUOTAS = 20

_Row = tuple[str, Callable[[Result], str]]


def document(results: Sequence[Result], *, placements: bool = False) -> dict[str, Any]:
    """Return the JSON form of results; placements of all pods only on request."""
    found = []
    for result in results:
        plain = msgspec.to_builtins(result)
        if not placements:
            del plain["placements"]
        found.append({**plain, "speedUp": result.speed_up})
    return {"scenario": results[0].scenario, "results": found}


def show(to: Console, results: Sequence[Result]) -> None:
    """Print tables of results of one scenario."""
    to.print(f"[bold]{results[0].scenario}[/bold]: {heading(results)}")
    for title, rows in _sections(results):
        table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
        table.add_column("", min_width=44)
        for result in results:
            table.add_column(result.scheduler, justify="right", min_width=16)
        for name, value in rows:
            table.add_row(name, *(value(result) for result in results))
        to.print()
        to.print(table)
    for result in results:
        for note in result.notes:
            to.print(f"{escape(result.scheduler)}: {escape(note)}", soft_wrap=True)
        for problem in result.problems:
            to.print(f"[yellow]{result.scheduler}[/yellow]: {problem}", markup=True, soft_wrap=True)


def tables(results: Sequence[Result]) -> list[tuple[str, list[tuple[str, list[str]]]]]:
    """Return the tables as text: each with its title, and rows of a name and a value for each result."""
    return [
        (title, [(name, [value(result) for result in results]) for name, value in rows])
        for title, rows in _sections(results)
    ]


def heading(results: Sequence[Result]) -> str:
    """Return what was simulated: how long, on how many nodes."""
    first = results[0]
    return f"{_time(first.simulated_seconds)} of {counted(first.nodes, 'node')}, seed {first.seed}"


def _sections(results: Sequence[Result]) -> Iterator[tuple[str, Iterator[_Row]]]:
    yield "Pods", _pods(results)
    yield "Nodes", _nodes()
    yield "Use, % of what all nodes offer", _use(results)
    if any(result.colocation is not None for result in results):
        yield "Colocation", _colocation()
    if any(result.gangs is not None for result in results):
        yield "Gangs", _gangs()
    quotas = dict.fromkeys(name for result in results for name in sorted(result.quotas))
    if quotas:
        title = "ElasticQuotas: used (mean, max) of runtime (mean), of max"
        yield title, _quotas(results, list(quotas)[:_MOST_QUOTAS])
    yield "The run itself", _run()


def _pods(results: Sequence[Result]) -> Iterator[_Row]:
    yield "created", lambda result: f"{result.pods.created:,}"
    yield "given a node", lambda result: f"{result.pods.bound:,}"
    yield "finished", lambda result: f"{result.pods.finished:,}"
    yield "evicted, or lost with their node", lambda result: f"{result.pods.evicted:,}"
    yield "evicted again soon after", lambda result: f"{result.pods.evicted_repeatedly:,}"
    yield "refused at admission", lambda result: f"{result.pods.refused:,}"
    yield (
        "at the end running, pending",
        lambda result: f"{result.pods.running_at_end:,}, {result.pods.pending_at_end:,}",
    )
    yield "time to a node: p50, p95, max", lambda result: _times(result.pending_seconds)
    workloads = dict.fromkeys(name for result in results for name in result.pending_seconds_of)
    if len(workloads) > 1:
        for name in workloads:
            yield f"  of {name}", partial(_times_of, name)


def _times_of(workload: str, result: Result) -> str:
    spread = result.pending_seconds_of.get(workload)
    return "" if spread is None else _times(spread)


def _times(spread: Spread) -> str:
    return ", ".join(_time(value) for value in (spread.p50, spread.p95, spread.max))


def _nodes() -> Iterator[_Row]:
    yield "used at all", lambda result: f"{result.nodes_used:,}"
    yield (
        "pods given to a node: mean, p95, max",
        lambda result: (
            f"{result.pods_per_node.mean:.1f}, {result.pods_per_node.p95:.0f}, {result.pods_per_node.max:.0f}"
        ),
    )
    yield "hot, share of the time", lambda result: f"{result.hot.share:.2f} %"
    yield "hot, hours of a node", lambda result: f"{result.hot.node_hours:,.1f}"
    yield "hot at one time, at most", lambda result: f"{result.hot.at_most:,}"
    yield "hot at any time", lambda result: f"{result.hot.nodes:,}"


def _use(results: Sequence[Result]) -> Iterator[_Row]:
    names = dict.fromkeys(name for result in results for name in result.resources)
    for name in names:
        for what, find in (("requested", _requested), ("used", _used), ("used on busiest nodes", _busiest)):
            if any(find(result, name).max for result in results):
                yield f"{name} {what}: mean, p95, max", partial(_of_resource, find, name)


def _of_resource(find: Callable[[Result, str], Spread], name: str, result: Result) -> str:
    spread = find(result, name)
    return ", ".join(f"{value:.1f}" for value in (spread.mean, spread.p95, spread.max))


def _colocation() -> Iterator[_Row]:
    for name, value in (
        ("batch cores offered: mean, p95, max", _offered),
        ("batch core-hours offered", lambda found: f"{found.offered_core_hours:,.1f}"),
        ("core-hours used by best-effort pods", lambda found: f"{found.used_core_hours:,.1f}"),
        ("core-hours suppressed, share of wanted", _suppressed),
        ("best-effort pods evicted by agents", lambda found: f"{found.evicted:,}"),
        ("core-hours that these had used", lambda found: f"{found.evicted_core_hours:,.1f}"),
        ("core-hours that other pods lacked", lambda found: f"{found.throttled_core_hours:,.1f}"),
    ):
        yield name, partial(_of_colocation, value)


def _of_colocation(value: Callable[[Colocation], str], result: Result) -> str:
    return "" if result.colocation is None else value(result.colocation)


def _gangs() -> Iterator[_Row]:
    for name, value in (
        ("created", lambda found: f"{found.created:,}"),
        ("whole at any time", lambda found: f"{found.whole:,}"),
        ("time until whole: p50, p95, max", lambda found: _times(found.seconds_to_whole)),
        ("partly bound, hours of a gang", lambda found: f"{found.partly_bound_hours:,.1f}"),
        ("partly bound, longest", lambda found: _time(found.longest_partly_bound)),
        (
            "at the end whole, partly bound, waiting",
            lambda found: f"{found.whole_at_end:,}, {found.partly_bound_at_end:,}, {found.waiting_at_end:,}",
        ),
    ):
        yield name, partial(_of_gangs, value)


def _of_gangs(value: Callable[[Gangs], str], result: Result) -> str:
    return "" if result.gangs is None else value(result.gangs)


def _quotas(results: Sequence[Result], names: Sequence[str]) -> Iterator[_Row]:
    for name in names:
        for resource in dict.fromkeys(item for each in results for item in each.quotas.get(name, ())):
            yield f"{name}: {resource}", partial(_of_quota, name, resource)


def _of_quota(name: str, resource: str, result: Result) -> str:
    found = result.quotas.get(name, {}).get(resource)
    if found is None:
        return ""
    used, runtime = found.used, found.runtime
    most = "-" if found.max is None else _amount(resource, found.max)
    return (
        f"{_amount(resource, used.mean)}, {_amount(resource, used.max)} of "
        f"{_amount(resource, runtime.mean)}, of {most}"
    )


def _amount(resource: str, value: float) -> str:
    """Format cores, bytes or a plain number."""
    if resource == "memory" or resource.endswith("storage"):
        return f"{value / (1 << 30):,.1f} Gi"
    return f"{value:,.1f}".removesuffix(".0")


def _offered(found: Colocation) -> str:
    return ", ".join(f"{value:,.1f}" for value in (found.offered.mean, found.offered.p95, found.offered.max))


def _suppressed(found: Colocation) -> str:
    share = 100.0 * found.suppressed_core_hours / found.wanted_core_hours if found.wanted_core_hours else 0.0
    return f"{found.suppressed_core_hours:,.1f}, {share:.1f} %"


def _run() -> Iterator[_Row]:
    yield "took", lambda result: _time(result.wall_seconds)
    yield "times real time", lambda result: f"{result.speed_up:,.0f}"
    yield "usage reports", lambda result: f"{result.reports:,}"


def _requested(result: Result, name: str) -> Spread:
    found = result.resources.get(name)
    return Spread() if found is None else found.requested


def _used(result: Result, name: str) -> Spread:
    found = result.resources.get(name)
    return Spread() if found is None or found.used is None else found.used


def _busiest(result: Result, name: str) -> Spread:
    found = result.resources.get(name)
    return Spread() if found is None or found.hottest is None else found.hottest


def _time(seconds: float) -> str:
    """Format a duration with a suitable unit."""
    if seconds < 60:
        return f"{seconds:.0f} s" if seconds >= 10 or seconds == int(seconds) else f"{seconds:.1f} s"
    for unit, size in (("d", 86400.0), ("h", 3600.0), ("min", 60.0)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}".replace(".0 ", " ")
    return ""
