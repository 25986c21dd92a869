"""Missing measurements: nodes without a NodeMetric, or with an expired one.

A node without a NodeMetric passes the filter whatever its load is, so missing ones are not noticed. One with
an expired NodeMetric is refused, unless the arguments accept it.
"""

from collections.abc import Iterable, Iterator

from koordpy.api.core import Node
from koordpy.api.koordinator import NodeMetric
from koordpy.api.needs import Lack
from koordpy.cluster.store import Store

from .node_load import micros_of

_SHOWN = 3
_SECOND = 1_000_000


def lacks(
    nodes: Iterable[Node], metrics: Store[NodeMetric], now: int, expiration: int, *, refuses_expired: bool
) -> Iterator[Lack]:
    """Yield what is missing. `now` is in microseconds since 1970, `expiration` in seconds.

    With `refuses_expired` pods are not placed on nodes whose NodeMetrics are expired.
    """
    absent, silent, stale = [], [], []
    names = sorted(node.metadata.name for node in nodes)
    for name in names:
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
            f"load-aware placement is blind on {_share(absent, names)}: no NodeMetric",
            "run koordlet (or another agent that reports NodeMetrics) on these nodes, and koord-manager, "
            "which creates the objects; or take LoadAwareScheduling out of the profiles",
            is_problem=False,
        )
    effect = "no pod is placed on" if refuses_expired else "load-aware placement is blind on"
    if silent:
        yield Lack(
            f"{effect} {_share(silent, names)}: NodeMetrics were never filled in",
            "check that koordlet runs on these nodes and may write nodemetrics/status",
            is_problem=refuses_expired,
        )
    if stale:
        yield Lack(
            f"{effect} {_share(stale, names)}: NodeMetrics are older than {expiration} s",
            "check why koordlet does not report there; compare the clocks of these nodes; or raise "
            "nodeMetricExpirationSeconds",
            is_problem=refuses_expired,
        )


def _share(some: list[str], names: list[str]) -> str:
    if len(some) == len(names):
        return f"all {len(names)} node(s)"
    more = ", ..." if len(some) > _SHOWN else ""
    return f"{len(some)} of {len(names)} nodes ({', '.join(some[:_SHOWN])}{more})"
