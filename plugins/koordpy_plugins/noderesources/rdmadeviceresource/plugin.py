"""Offer the RDMA cards that the Device of a node lists.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/rdmadevicereource`.
"""

from collections.abc import Sequence
from typing import ClassVar, Final

from koordpy.api import extension
from koordpy.api.device import Device, same_devices
from koordpy.api.plugin import NoArgs
from koordpy.api.quantity import Quantity
from koordpy.api.slo.colocation import ColocationStrategy
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
from koordpy.controllers.noderesource.toolkit import changed, enter_devices
from koordpy.controllers.slo.node_state import NodeState

RESOURCES: Final = (extension.RDMA,)
_TYPE: Final = "rdma"
_PER_CARD: Final = 100
_RESETS: Final = (ResourceItem(name=extension.RDMA, message="reset node rdma resources", reset=True),)


class RDMADeviceResource(ResourceCalculate, NodePrepare, NodeStatusCheck):
    """The plugin of RDMA resources."""

    name: ClassVar[str] = "RDMADeviceResource"
    args: NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.devices = handle.cluster.store(Device, optional=True)

    def setup(self) -> None:
        """Follow Devices."""
        self.devices.subscribe(on_add=self._enqueue, on_update=self.device_updated, on_delete=self._enqueue)

    def calculate(
        self, strategy: ColocationStrategy, node: NodeState, inputs: Inputs
    ) -> Sequence[ResourceItem]:
        """Return 100 for each healthy card; without one the resource is reset."""
        if node.allocatable is None:
            raise PluginError("missing essential arguments: the node has no allocatable resources")
        device = self.devices.get("", node.name)
        cards = 0
        if device is not None:
            cards = sum(1 for item in device.spec.devices if item.type == _TYPE and item.health)
        if not cards:
            return _RESETS
        return [
            ResourceItem(
                name=extension.RDMA,
                quantity=Quantity.of(_PER_CARD * cards),
                message="node rdma resources from device",
            )
        ]

    def prepare(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Enter the resource."""
        enter_devices(node, result, RESOURCES)

    def need_sync(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        """Return whether it changed enough."""
        return "rdma resource diff is big than threshold" if changed(strategy, old, new, RESOURCES) else ""

    def device_updated(self, old: Device, new: Device) -> None:
        """Have the node reconciled where the devices, not only metadata, changed."""
        if not same_devices(old, new):
            self._enqueue(new)

    def _enqueue(self, device: Device) -> None:
        self.handle.enqueue(device.metadata.name)
