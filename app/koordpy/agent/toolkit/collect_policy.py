"""The collect policy of a NodeMetric, with the defaults of koordlet (`defaultNodeMetricSpec`).

The central controller writes it; the reporter of NodeMetrics and the collectors of memory follow it.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from koordpy.api.koordinator import NodeMetric
from koordpy.lib import duration
from koordpy.lib.duration import MINUTE

log = logging.getLogger(__name__)

LEAST_AGGREGATE_SECONDS: Final = 60
LEAST_INTERVAL_SECONDS: Final = 30


class MemoryPolicy(StrEnum):
    """What counts as memory usage. An unknown policy counts as WITHOUT_PAGE_CACHE."""

    WITHOUT_PAGE_CACHE = "usageWithoutPageCache"
    WITH_HOT_PAGE_CACHE = "usageWithHotPageCache"
    WITH_PAGE_CACHE = "usageWithPageCache"


@dataclass(frozen=True)
class CollectPolicy:
    """How usage is measured and reported."""

    aggregate_seconds: int = 300
    """The window of averages."""
    interval_seconds: int = 60
    """The time between two reports."""
    durations: tuple[int, ...] = (5 * MINUTE, 10 * MINUTE, 30 * MINUTE)
    """The windows of aggregated usages, in nanoseconds."""
    memory: str = MemoryPolicy.WITHOUT_PAGE_CACHE


DEFAULT: Final = CollectPolicy()


def completed(spec: NodeMetric.Spec | None) -> CollectPolicy:
    """Return the policy of a NodeMetric's spec, merged over the default one.

    A list of durations replaces the default one, but an empty or malformed one does not.
    """
    given = spec.metric_collect_policy if spec is not None else None
    if given is None:
        return DEFAULT
    aggregate, interval = given.aggregate_duration_seconds, given.report_interval_seconds
    aggregation = given.node_aggregate_policy
    durations = _durations(aggregation.durations or ()) if aggregation is not None else ()
    memory = given.node_memory_collect_policy
    return CollectPolicy(
        max(aggregate if aggregate is not None else DEFAULT.aggregate_seconds, LEAST_AGGREGATE_SECONDS),
        max(interval if interval is not None else DEFAULT.interval_seconds, LEAST_INTERVAL_SECONDS),
        durations or DEFAULT.durations,
        memory if memory is not None else DEFAULT.memory,
    )


def _durations(texts: Sequence[str]) -> tuple[int, ...]:
    try:
        return tuple(map(duration.parse, texts))
    except ValueError as error:
        log.warning("NodeMetric metricCollectPolicy.nodeAggregatePolicy.durations: %s", error)
        return ()
