"""Missing measurements: nodes without a NodeMetric, or with an expired one.

A node without a usable NodeMetric passes the filter whatever its load is, so missing ones are not noticed.
"""

from collections.abc import Iterable, Iterator

from koordpy.api.core import Node
from koordpy.api.koordinator import NodeMetric
from koordpy.api.needs import Lack
from koordpy.cluster.store import Store

from .node_load import micros_of

_SHOWN = 3
_SECOND = 1_000_000


def lacks(nodes: Iterable[Node], metrics: Store[NodeMetric], now: int, expiration: int) -> Iterator[Lack]:
    """Yield what is missing. `now` is in microseconds since 1970, `expiration` in seconds."""
    absent, silent, stale = [], [], []
    for name in sorted(node.metadata.name for node in nodes):
        metric = metrics.get("", name)
        reported = None if metric is None else micros_of(metric.status.update_time)
        if metric is None:
            absent.append(name)
        elif reported is None:
            silent.append(name)
        elif now - reported >= expiration * _SECOND:
            stale.append(name)
    if absent:
        yield Lack(
            f"{len(absent)} node(s) have no NodeMetric ({_some(absent)}): their load is ignored",
            "run koordlet (or another agent that reports NodeMetrics) on them, and koord-manager, which "
            "creates the objects",
        )
    if silent:
        yield Lack(
            f"the NodeMetrics of {len(silent)} node(s) were never filled in ({_some(silent)}): their load is "
            "ignored",
            "check that koordlet runs on these nodes and may write nodemetrics/status",
        )
    if stale:
        yield Lack(
            f"the NodeMetrics of {len(stale)} node(s) are older than {expiration} s ({_some(stale)}): they "
            "are ignored",
            "check why koordlet does not report there; compare the clocks of these nodes; or raise "
            "nodeMetricExpirationSeconds",
        )


def _some(names: list[str]) -> str:
    more = ", ..." if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
