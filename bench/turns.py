"""Compare ways of doing the same, call by call in turn, so that all of them meet the same conditions.

On a machine that others use too, conditions change from one second to the next, but hardly from one call to
the next. Of many calls the median is reported, of processor time too, so that interrupted calls do not count.
"""

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping

from bench.report import Result

Way = Callable[[int], Awaitable[float]]
"""Does the turn of a number; returns the seconds that its caller waited for it."""


async def compare(
    ways: Mapping[str, Way], cpu: Callable[[], float], turns: int, *, calls: int = 1, settle: float = 0.0
) -> dict[str, dict[str, float]]:
    """Return of each way the quantiles of its seconds in ms, its CPU in µs a call, and that over the first's.

    `cpu` reads the processor time used so far, in seconds; `settle` seconds after a turn it is read again. A
    turn is so many `calls`.
    """
    names = list(ways)
    waited: dict[str, list[float]] = {name: [] for name in names}
    used: dict[str, list[float]] = {name: [] for name in names}
    for turn in range(turns):
        first = turn % len(names)
        for name in (*names[first:], *names[:first]):
            before = cpu()
            waited[name].append(await ways[name](turn))
            if settle:
                await asyncio.sleep(settle)
            used[name].append(cpu() - before)
    median = {name: statistics.median(used[name]) for name in names}
    return {
        name: {
            "p50": statistics.median(waited[name]) * 1e3,
            "p99": sorted(waited[name])[int(turns * 0.99)] * 1e3,
            "cpu": median[name] / calls * 1e6,
            "ratio": median[name] / median[names[0]],
        }
        for name in names
    }


def add(result: Result, label: str, found: Mapping[str, Mapping[str, float]]) -> None:
    """Add what `compare` found to a result, a row for each way."""
    for name, cells in found.items():
        result.row(f"{label}: {name}").add(**cells)


async def timed(work: Iterable[Awaitable[object]]) -> float:
    """Do all of some work at once; return the seconds it took."""
    began = time.perf_counter()
    await asyncio.gather(*work)
    return time.perf_counter() - began
