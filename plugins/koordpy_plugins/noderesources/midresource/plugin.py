"""Offer what prod pods requested and are predicted not to use to mid pods, or a fixed share of the node.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/midresource/plugin.go`.
"""

from typing import ClassVar, Final

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.api.plugin import NoArgs
from koordpy.api.quantity import Format, Quantity
from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.controllers.noderesource import mid
from koordpy.controllers.noderesource.interface import (
    Handle,
    Inputs,
    NodePrepare,
    NodeResource,
    NodeStatusCheck,
    PluginError,
    ResourceCalculate,
    ResourceItem,
)
from koordpy.controllers.noderesource.toolkit import changed, enter, is_stale
from koordpy.controllers.slo.metrics import NodeGauges
from koordpy.controllers.slo.node_state import NodeState

RESOURCES: Final = (extension.MID_CPU, extension.MID_MEMORY)
_DEGRADED: Final = "degrade node Mid resource because of abnormal nodeMetric, reason: degradedByMidResource"


class MidResource(ResourceCalculate, NodePrepare, NodeStatusCheck):
    """The plugin of mid-cpu and mid-memory."""

    name: ClassVar[str] = "MidResource"
    args: NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._gauges = NodeGauges((extension.MID_CPU, "integer"), (extension.MID_MEMORY, "byte"))

    def setup(self) -> None:
        """Follow nodes that go."""
        nodes = self.handle.cluster.store(Node)
        nodes.subscribe(on_delete=lambda node: self._gauges.remove(node.metadata.name))

    def calculate(
        self, strategy: ColocationStrategy, node: NodeState, inputs: Inputs
    ) -> tuple[ResourceItem, ...]:
        """Return the mid resources; they are reset while the NodeMetric is stale."""
        if node.allocatable is None:
            raise PluginError("missing essential arguments: the node has no allocatable resources")
        if is_stale(strategy, inputs.node_metric, self.handle.clock.now()):
            return self.reset(node, _DEGRADED)
        known = inputs.amounts_of(node)
        offered = mid.for_node(strategy, known.capacity, node.capacity or {}, known.reserved, inputs.demand)
        self._gauges.set(node.name, offered.milli_cpu, offered.memory)
        return (
            ResourceItem(
                name=extension.MID_CPU,
                quantity=Quantity.of(offered.milli_cpu),
                message=offered.cpu_message,
            ),
            ResourceItem(
                name=extension.MID_MEMORY,
                quantity=Quantity.of(offered.memory, Format.BINARY_SI),
                message=offered.memory_message,
            ),
        )

    def reset(self, node: NodeState, message: str) -> tuple[ResourceItem, ...]:
        """Remove the mid resources."""
        return tuple(ResourceItem(name=name, message=message, reset=True) for name in RESOURCES)

    def prepare(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Enter the mid resources."""
        for name in RESOURCES:
            enter(node, result, name)

    def need_sync(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        """Return whether one of them changed enough."""
        return "mid resource diff is big than threshold" if changed(strategy, old, new, RESOURCES) else ""
