"""Offer what high-priority pods do not use of a node, and of its NUMA zones, to batch pods.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/batchresource/plugin.go`.
"""

import logging
from datetime import datetime
from typing import ClassVar, Final

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.needs import Needs, Right
from koordpy.api.plugin import NoArgs
from koordpy.api.quantity import Format, Quantity, QuantityError, from_wire
from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.cluster.errors import NotFound
from koordpy.cluster.retry import retried
from koordpy.controllers.noderesource import amounts, batch
from koordpy.controllers.noderesource.interface import (
    Handle,
    Inputs,
    NodePrepare,
    NodePreUpdate,
    NodeResource,
    NodeStatusCheck,
    ResourceCalculate,
    ResourceItem,
)
from koordpy.controllers.noderesource.toolkit import changed, enter, is_stale, lists, normalization_ratio
from koordpy.controllers.slo import metrics
from koordpy.controllers.slo.node_state import NodeState

from . import allocations, zones

log = logging.getLogger(__name__)

RESOURCES: Final = (extension.BATCH_CPU, extension.BATCH_MEMORY)
_DEGRADED: Final = "degrade node resource because of abnormal nodeMetric, reason: degradedByBatchResource"
_NO_AMOUNT: Final = -1


class BatchResource(ResourceCalculate, NodePreUpdate, NodePrepare, NodeStatusCheck):
    """The plugin of batch-cpu and batch-memory."""

    name: ClassVar[str] = "BatchResource"
    needs: ClassVar[Needs] = Needs(
        rights=(
            Right("get", "noderesourcetopologies", "topology.node.k8s.io"),
            Right("patch", "noderesourcetopologies", "topology.node.k8s.io"),
        )
    )
    args: NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.topologies = handle.cluster.store(NodeResourceTopology, optional=True)
        self.written: dict[str, datetime] = {}
        """When the topology of a node was last written."""
        self._zones: dict[str, zones.ZoneAmounts] = {}
        """What the zones of a node's present topology offer."""
        self._gauges = metrics.NodeGauges((extension.BATCH_CPU, "integer"), (extension.BATCH_MEMORY, "byte"))

    def setup(self) -> None:
        """Follow the zones of nodes, and nodes that go."""
        nodes = self.handle.cluster.store(Node)
        nodes.subscribe(on_delete=lambda node: self._gauges.remove(node.metadata.name))
        self.topologies.subscribe(
            on_add=self._topology_added, on_update=self._topology_updated, on_delete=self._topology_deleted
        )

    # --- calculating -----------------------------------------------------------------------------

    def calculate(
        self, strategy: ColocationStrategy, node: NodeState, inputs: Inputs
    ) -> tuple[ResourceItem, ...]:
        """Return the batch resources; they are reset while the NodeMetric is stale."""
        if is_stale(strategy, inputs.node_metric, self.handle.clock.now()):
            return self.reset(node, _DEGRADED)
        known, demand = inputs.amounts_of(node), inputs.demand
        offered = batch.for_node(strategy, known.capacity, known.reserved, demand)
        milli_cpu = amounts.milli(offered.amounts.cpu)
        self._gauges.set(node.name, milli_cpu / 1000, amounts.whole(offered.amounts.memory))
        zone_cpu: dict[str, Quantity] = {}
        zone_memory: dict[str, Quantity] = {}
        topology = self.topologies.get("", node.name)
        if topology is not None and zones.has_resources(topology):
            try:
                read = self._read(topology)
                found = batch.for_zones(strategy, read.allocatable, known.reserved, demand)
            except QuantityError as error:
                log.error("node %s: no batch resources of NUMA zones: %s", node.name, error)
            else:
                for zone, format, of_zone in zip(topology.zones, read.formats, found, strict=True):
                    zone_cpu[zone.name] = Quantity.of(amounts.milli(of_zone.amounts.cpu))
                    zone_memory[zone.name] = amounts.quantity(of_zone.amounts.memory, format)
        return (
            ResourceItem(
                name=extension.BATCH_CPU,
                quantity=Quantity.of(milli_cpu),
                zones=zone_cpu,
                message=offered.cpu_message,
            ),
            ResourceItem(
                name=extension.BATCH_MEMORY,
                quantity=amounts.quantity(offered.amounts.memory, known.memory_format),
                zones=zone_memory,
                message=offered.memory_message,
            ),
        )

    def _read(self, topology: NodeResourceTopology) -> zones.ZoneAmounts:
        """Return what the zones offer; a topology is read once. Raises QuantityError."""
        known = self._zones.get(topology.metadata.name)
        if known is None or known.topology is not topology:
            known = self._zones[topology.metadata.name] = zones.amounts_of(topology)
        return known

    def reset(self, node: NodeState, message: str) -> tuple[ResourceItem, ...]:
        """Remove the batch resources."""
        return tuple(ResourceItem(name=name, message=message, reset=True) for name in RESOURCES)

    # --- NUMA zones ------------------------------------------------------------------------------

    async def pre_update(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Write the batch resources of zones to the NodeResourceTopology, where they changed enough."""
        if not result.zones:
            return
        try:
            await retried(
                _Attempts(self, strategy, node, result), rng=self.handle.rng, sleep=self.handle.sleep
            )
        except Exception:
            metrics.count(metrics.NODE_RESOURCE_RECONCILES, "updateNodeResourceTopology", ok=False)
            raise
        # As in Koordinator, an attempt that found nothing to write counts as a write too.
        self.written[node.name] = self.handle.clock.now()
        metrics.count(metrics.NODE_RESOURCE_RECONCILES, "updateNodeResourceTopology", ok=True)

    def patch(
        self,
        topology: NodeResourceTopology,
        strategy: ColocationStrategy,
        node: NodeState,
        result: NodeResource,
    ) -> dict[str, object] | None:
        """Return the merge patch of a NodeResourceTopology, None if it does not have to be written."""
        if not zones.has_resources(topology):
            return None
        threshold, ratio = strategy.resource_diff_threshold or 0.0, normalization_ratio(result)
        updated, is_needed = zones.updated(topology.zones, result.zones, ratio, threshold)
        if not is_needed and not self._is_overdue(strategy, node.name):
            return None
        version = topology.metadata.resource_version
        return {"metadata": {"resourceVersion": version} if version else {}, "zones": zones.wire(updated)}

    def _is_overdue(self, strategy: ColocationStrategy, name: str) -> bool:
        last = self.written.get(name)
        limit = strategy.update_time_threshold_seconds or 0
        return last is None or (self.handle.clock.now() - last).total_seconds() > limit

    # --- writing ---------------------------------------------------------------------------------

    def prepare(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Enter the batch resources, without what other schedulers have allocated of them."""
        for name in RESOURCES:
            enter(node, result, name)
        allocatable = node.allocatable or {}
        cpu, memory = (
            from_wire(allocatable[name]).value() if name in allocatable else _NO_AMOUNT for name in RESOURCES
        )
        origin = {
            extension.BATCH_CPU: Quantity.of(max(cpu, 0)),
            extension.BATCH_MEMORY: Quantity.of(max(memory, 0), Format.BINARY_SI),
        }
        if node.annotations is not None:
            allocations.record_origin(node.annotations, origin)
        if cpu < 0 or memory < 0:
            return
        taken = allocations.by_third_parties(node.annotations or {})
        if taken is None:
            return
        capacity, allocatable = lists(node)
        for name, amount in origin.items():
            left = amount - taken[name] if name in taken else amount
            text = str(left) if left.sign > 0 else "0"
            capacity[name] = allocatable[name] = text

    def need_sync(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        """Return whether one of them changed enough."""
        return "batch resource diff is big than threshold" if changed(strategy, old, new, RESOURCES) else ""

    # --- events ----------------------------------------------------------------------------------

    def _topology_added(self, topology: NodeResourceTopology) -> None:
        if zones.has_resources(topology):
            self.handle.enqueue(topology.metadata.name)

    def _topology_updated(self, old: NodeResourceTopology, new: NodeResourceTopology) -> None:
        if zones.changed(old.zones, new.zones):
            self.handle.enqueue(new.metadata.name)

    def _topology_deleted(self, topology: NodeResourceTopology) -> None:
        self.written.pop(topology.metadata.name, None)
        self._zones.pop(topology.metadata.name, None)


class _Attempts:
    """Writes a node's topology: first from the store, after a conflict from the API server."""

    def __init__(
        self, plugin: BatchResource, strategy: ColocationStrategy, node: NodeState, result: NodeResource
    ) -> None:
        self._plugin, self._strategy, self._node, self._result = plugin, strategy, node, result
        self._is_first = True

    async def __call__(self) -> None:
        plugin, name = self._plugin, self._node.name
        if self._is_first:
            self._is_first = False
            topology = plugin.topologies.get("", name)
        else:
            try:
                topology = await plugin.handle.client.get(NodeResourceTopology, "", name)
            except NotFound:
                topology = None
        if topology is None:
            return
        patch = plugin.patch(topology, self._strategy, self._node, self._result)
        if patch is not None:
            await plugin.handle.client.patch(NodeResourceTopology, "", name, patch)
