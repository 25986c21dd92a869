"""Offer the GPUs that the Device of a node lists, and label the node with what they are.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/gpudeviceresource`.
"""

from collections.abc import Mapping, Sequence
from typing import ClassVar, Final

from koordpy.api import extension
from koordpy.api.device import Device, DeviceInfo, same_devices
from koordpy.api.plugin import NoArgs
from koordpy.api.quantity import Quantity, from_wire
from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.controllers.noderesource.interface import (
    Handle,
    Inputs,
    NodeMetaCheck,
    NodePrepare,
    NodeResource,
    NodeStatusCheck,
    PluginError,
    ResourceCalculate,
    ResourceItem,
)
from koordpy.controllers.noderesource.toolkit import changed, enter_devices
from koordpy.controllers.slo.node_state import NodeState
from koordpy.lib.feature_gates import FeatureSpec, Stage

RESOURCES: Final = (
    extension.GPU,
    extension.GPU_CORE,
    extension.HUAWEI_NPU_CORE,
    extension.HUAWEI_NPU_CPU,
    extension.HUAWEI_NPU_DVPP,
    extension.GPU_MEMORY,
    extension.GPU_MEMORY_RATIO,
    extension.GPU_SHARED,
)
"""The resources that are written to nodes; Devices may list others."""
LABELS: Final = (extension.LABEL_GPU_VENDOR, extension.LABEL_GPU_MODEL, extension.LABEL_GPU_DRIVER_VERSION)
GATE: Final = "EnableSyncGPUSharedResource"
_TYPE: Final = "gpu"
_NVIDIA: Final = "nvidia"
_RESET, _UPDATED, _LABELLED = (
    "reset node gpu resources",
    "node gpu resources from device",
    "node gpu labels from device",
)


_RESETS: Final = tuple(ResourceItem(name=name, message=_RESET, reset=True) for name in RESOURCES)


class GPUDeviceResource(ResourceCalculate, NodePrepare, NodeStatusCheck, NodeMetaCheck):
    """The plugin of GPU resources and labels."""

    name: ClassVar[str] = "GPUDeviceResource"
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {GATE: FeatureSpec(False, Stage.ALPHA)}
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
        """Return the sums over healthy GPUs, and labels; without such a GPU the resources are reset."""
        if node.allocatable is None:
            raise PluginError("missing essential arguments: the node has no allocatable resources")
        device = self.devices.get("", node.name)
        gpus = [] if device is None else [gpu for gpu in device.spec.devices if _is_healthy(gpu)]
        if device is None or not gpus:
            return _RESETS
        total: dict[str, Quantity] = {}
        cores = Quantity.of(0)
        for gpu in gpus:
            for name, amount in gpu.resources.items():
                known = total.get(name)
                total[name] = from_wire(amount) if known is None else known + from_wire(amount)
            if (core := gpu.resources.get(extension.GPU_CORE)) is not None:
                cores += from_wire(core)
        labels = device.metadata.labels
        if labels.get(extension.LABEL_GPU_VENDOR, "") in ("", _NVIDIA):
            total[extension.GPU] = cores
        if self.handle.gates.enabled(GATE):
            total[extension.GPU_SHARED] = Quantity.of(100 * len(gpus))
        items = [ResourceItem(name=name, quantity=total[name], message=_UPDATED) for name in sorted(total)]
        if found := {label: labels[label] for label in LABELS if label in labels}:
            items.append(ResourceItem(name=self.name, labels=found, message=_LABELLED))
        return items

    def prepare(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Enter the resources and the labels; labels are never removed."""
        enter_devices(node, result, RESOURCES)
        found = {label: result.labels[label] for label in LABELS if label in result.labels}
        if found:
            node.labels = {**(node.labels or {}), **found}

    def need_sync(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        """Return whether a resource changed enough."""
        return "gpu resource diff is big than threshold" if changed(strategy, old, new, RESOURCES) else ""

    def need_sync_meta(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        """Return which label changed."""
        before, after = old.labels or {}, new.labels or {}
        for label in LABELS:
            if before.get(label, "") != after.get(label, ""):
                return f"gpu device label {label} changed"
        return ""

    def device_updated(self, old: Device, new: Device) -> None:
        """Have the node reconciled where the devices, not only metadata, changed."""
        if not same_devices(old, new):
            self._enqueue(new)

    def _enqueue(self, device: Device) -> None:
        self.handle.enqueue(device.metadata.name)


def _is_healthy(device: DeviceInfo) -> bool:
    return device.type == _TYPE and device.health
