"""What several noderesource plugins do alike: staleness of NodeMetrics, entering quantities, differences.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/util/util.go`.
"""

from collections.abc import Iterable
from datetime import datetime

from koordpy.api import extension
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import ResourceList, parse_time
from koordpy.api.quantity import Quantity
from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.lib import duration, int64

from ..slo.node_state import NodeState
from .amounts import differs
from .interface import PluginError
from .node_resource import NodeResource
from .ratio import parse


def is_stale(strategy: ColocationStrategy, node_metric: NodeMetric, now: datetime) -> bool:
    """Return whether a NodeMetric is too old, or too empty, to compute anything from."""
    status = node_metric.status
    if status.update_time is None or status.node_metric is None:
        return True
    try:
        limit = parse_time(status.update_time) + duration.of_seconds(
            60 * (strategy.degrade_time_minutes or 0)
        )
    except (ValueError, OverflowError):
        return True
    return now > limit


def normalization_ratio(result: NodeResource) -> float:
    """Return the CPU normalization ratio that was computed now, -1 if there is none."""
    ratio = parse(result.annotations.get(extension.ANNOTATION_CPU_NORMALIZATION_RATIO, ""))
    return -1.0 if ratio is None else ratio


def normalized(quantity: Quantity, ratio: float) -> Quantity:
    """Return a quantity of CPU times a ratio above 1, truncated to thousandths."""
    if not ratio > 1.0:
        return quantity
    return Quantity.of_milli(int64.from_float(float(quantity.milli_value()) * ratio), quantity.format)


def lists(node: NodeState) -> tuple[ResourceList, ResourceList]:
    """Return the capacity and the allocatable resources of a node. Raises PluginError if it has none."""
    if node.capacity is None or node.allocatable is None:
        raise PluginError("the node has no capacity or no allocatable resources")
    return node.capacity, node.allocatable


def enter(node: NodeState, result: NodeResource, name: str) -> None:
    """Set a resource of a node to what was computed, a whole number that is not negative; remove it if
    nothing was.
    """
    quantity = result.quantity(name)
    if quantity is None:
        for amounts in (node.capacity, node.allocatable):
            if amounts is not None:
                amounts.pop(name, None)
        return
    capacity, allocatable = lists(node)
    if name == extension.BATCH_CPU:
        quantity = normalized(quantity, normalization_ratio(result))
    capacity[name] = allocatable[name] = str(Quantity.of(max(quantity.value(), 0), quantity.format))


def enter_devices(node: NodeState, result: NodeResource, names: Iterable[str]) -> None:
    """Set resources of devices; those that are reset are removed, those without a result stay."""
    capacity, allocatable = lists(node)
    resets, quantities = result.resets, result.quantities
    for name in names:
        if resets.get(name):
            capacity.pop(name, None)
            allocatable.pop(name, None)
        elif (quantity := quantities.get(name)) is not None:
            capacity[name] = allocatable[name] = str(quantity)


def changed(strategy: ColocationStrategy, old: NodeState, new: NodeState, names: Iterable[str]) -> bool:
    """Return whether an allocatable resource appeared, disappeared, or changed by more than the threshold."""
    before, after = old.allocatable or {}, new.allocatable or {}
    threshold = strategy.resource_diff_threshold or 0.0
    for name in names:
        was, is_ = before.get(name), after.get(name)
        if was is None or is_ is None:
            if was is not is_:
                return True
        elif differs(was, is_, threshold):
            return True
    return False
