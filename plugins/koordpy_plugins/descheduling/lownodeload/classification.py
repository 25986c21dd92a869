"""The classification of nodes: eviction sources, targets, and others.

Source: Koordinator, `pkg/descheduler/framework/plugins/loadaware/utilization_util.go`.
"""

from collections.abc import Mapping
from enum import StrEnum

from .usage import NodeUsage


class NodeClass(StrEnum):
    """The class of a node in one round."""

    LOW = "low"
    """Underutilized as a whole, but not by prod pods."""
    BOTH_LOW = "bothLow"
    """Underutilized as a whole and by prod pods."""
    PROD_LOW = "prodLow"
    """Underutilized by prod pods only."""
    PROD_HIGH = "prodHigh"
    """Overutilized by prod pods."""
    SOURCE = "source"
    """Overutilized as a whole."""
    NONE = "none"


def classify(node: NodeUsage) -> NodeClass:
    """Classify a node. An unschedulable node can be a source but not a target."""
    schedulable = not node.node.spec.unschedulable
    prod_low = schedulable and not is_over(node.prod_usage, node.prod_low)
    prod_high = is_over(node.prod_usage, node.prod_high)
    if schedulable and not is_over(node.usage, node.low):
        if prod_high:
            return NodeClass.PROD_HIGH
        return NodeClass.BOTH_LOW if prod_low else NodeClass.LOW
    if is_over(node.usage, node.high):
        return NodeClass.SOURCE
    if prod_high:
        return NodeClass.PROD_HIGH
    return NodeClass.PROD_LOW if prod_low else NodeClass.NONE


def is_over(usage: Mapping[str, int], thresholds: Mapping[str, int]) -> bool:
    """Return whether some usage is above its threshold; at the threshold it is not."""
    return any(usage[name] > limit for name, limit in thresholds.items() if name in usage)
