"""How a node measures and reports, from the strategy of colocation.

Source: Koordinator, `pkg/slo-controller/nodemetric/collect_policy.go`.
"""

from koordpy.api.koordinator import MetricAggregatePolicy, NodeMetric
from koordpy.api.slo.colocation import DEFAULT, ColocationStrategy
from koordpy.api.slo.colocation_config import invalid


class Unsatisfied(ValueError):
    """A strategy says nothing about measuring; the default is used."""


def collect_policy(strategy: ColocationStrategy) -> NodeMetric.CollectPolicy:
    """Return the collect policy of a node. Raises Unsatisfied for an invalid or disabled strategy."""
    if invalid(strategy):
        raise Unsatisfied("invalid colocationConfig")
    if not strategy.enable:
        raise Unsatisfied("colocationConfig disabled")
    return _policy(strategy)


def default_policy() -> NodeMetric.CollectPolicy:
    """Return the collect policy of nodes without colocation."""
    return _policy(DEFAULT)


def _policy(strategy: ColocationStrategy) -> NodeMetric.CollectPolicy:
    aggregate = strategy.metric_aggregate_policy
    return NodeMetric.CollectPolicy(
        aggregate_duration_seconds=strategy.metric_aggregate_duration_seconds,
        report_interval_seconds=strategy.metric_report_interval_seconds,
        node_aggregate_policy=(
            None if aggregate is None else MetricAggregatePolicy(durations=list(aggregate.durations) or None)
        ),
        node_memory_collect_policy=strategy.metric_memory_collect_policy,
    )
