"""Thresholds as amounts: the usage of each resource at which a node is under- or overutilized.

Source: Koordinator, `pkg/descheduler/framework/plugins/loadaware` (`low_node_load.go`,
`utilization_util.go`).
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from koordpy.lib import int64

from .args import NodePool, Percentages
from .totals import Amounts
from .usage import NodeUsage, counted, of_counted

MEMORY = "memory"
MAX_PERCENT = 100.0


@dataclass(frozen=True)
class Thresholds:
    """The percentages of a pool: every resource that one map names is in `low` and `prod_low`."""

    low: Percentages
    high: Percentages
    prod_low: Percentages
    prod_high: Percentages

    @property
    def resources(self) -> list[str]:
        """The evaluated resources, sorted."""
        return sorted(self.low)


def complete(pool: NodePool) -> Thresholds:
    """Add the resources that a pool's maps lack, in place; missing maps are created.

    A resource without a low threshold gets 100 % for low and high, or with deviation 0, which means "ignore";
    a high threshold without a low one is overwritten. Memory is always evaluated. A resource with a low but
    no high threshold has a high threshold of 0.
    """
    low = {} if pool.low is None else pool.low
    high = {} if pool.high is None else pool.high
    prod_low = {} if pool.prod_low is None else pool.prod_low
    prod_high = {} if pool.prod_high is None else pool.prod_high
    fill = 0.0 if pool.use_deviation_thresholds else MAX_PERCENT
    for name in {*low, *high, *prod_low, *prod_high, MEMORY}:
        if name not in low:
            low[name] = high[name] = fill
        if name not in prod_low:
            prod_low[name] = prod_high[name] = fill
    return Thresholds(low, high, prod_low, prod_high)


def apply(thresholds: Thresholds, nodes: Sequence[NodeUsage], use_deviation: bool) -> None:
    """Set the thresholds of measured nodes; with deviation, relative to their mean usage."""
    if not use_deviation:
        for node in nodes:
            for name in thresholds.low:
                allocatable = node.allocatable.get(name, 0)
                node.low[name] = fraction(name, thresholds.low[name], allocatable)
                node.high[name] = fraction(name, thresholds.high.get(name, 0.0), allocatable)
                node.prod_low[name] = fraction(name, thresholds.prod_low[name], allocatable)
                node.prod_high[name] = fraction(name, thresholds.prod_high.get(name, 0.0), allocatable)
        return
    mean = _mean((node.allocatable, node.usage) for node in nodes)
    prod_mean = _mean((node.allocatable, node.prod_usage) for node in nodes)
    for node in nodes:
        for name in thresholds.low:
            allocatable = node.allocatable.get(name, 0)
            node.low[name], node.high[name] = _around(
                name, mean.get(name, 0.0), thresholds.low[name], thresholds.high.get(name, 0.0), allocatable
            )
            node.prod_low[name], node.prod_high[name] = _around(
                name,
                prod_mean.get(name, 0.0),
                thresholds.prod_low[name],
                thresholds.prod_high.get(name, 0.0),
                allocatable,
            )


def fraction(name: str, percent: float, allocatable: int) -> int:
    """Return a percentage of an amount, truncated to whole milli-cpu or units (all in billionths)."""
    return of_counted(name, int64.from_float(percent * 0.01 * float(counted(name, allocatable))))


def _around(name: str, mean: float, below: float, above: float, allocatable: int) -> tuple[int, int]:
    """The thresholds at given distances from the mean; a lower distance of 0 disables the resource."""
    if below == 0:
        return allocatable, allocatable
    return (
        fraction(name, min(max(mean - below, 0.0), MAX_PERCENT), allocatable),
        fraction(name, min(max(mean + above, 0.0), MAX_PERCENT), allocatable),
    )


def _mean(nodes: Iterable[tuple[Amounts, Amounts]]) -> dict[str, float]:
    """Mean usage in percent by resource; a node without a resource counts as 0."""
    total: dict[str, float] = {}
    count = 0
    for allocatable, usage in nodes:
        count += 1
        for name, used in usage.items():
            offered = counted(name, allocatable.get(name, 0))
            percent = float(counted(name, used)) / float(offered) * 100.0 if offered else 0.0
            total[name] = total.get(name, 0.0) + percent
    return {name: percent / count for name, percent in total.items()}
