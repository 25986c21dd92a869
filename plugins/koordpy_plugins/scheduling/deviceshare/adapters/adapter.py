"""Tells device plugins what was allocated, in the annotations that they read (gate DevicePluginAdaption).

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go`.
"""

from typing import Final

from koordpy.api.core import Node
from koordpy.api.device import Device
from koordpy.api.device_allocations import DeviceAllocations
from koordpy.api.extension import (
    ANNOTATION_GPU_MINORS,
    LABEL_GPU_ISOLATION_PROVIDER,
    LABEL_GPU_MODEL,
    LABEL_GPU_VENDOR,
    LABEL_HAMI_VGPU_NODE,
)
from koordpy.api.meta import ObjectMeta
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.handle import Handle

from .node_locks import NodeLocks, NodeWriteError
from .vendors import BIND_TIMESTAMP, VENDORS, AdaptionError, minors

HAMI_CORE: Final = "HAMi-core"

_GPU: Final = "gpu"


class DevicePluginAdapter:
    """Completes what is written to pods and Reservations that were allocated devices."""

    def __init__(self, handle: Handle) -> None:
        self._handle = handle
        self._nodes = handle.cluster.store(Node)
        self._devices = handle.cluster.store(Device)
        self._locks = handle.cluster.shared(NodeLocks)

    async def adapt(
        self, target: ObjectMeta, allocations: DeviceAllocations, node_name: str, binding: Binding
    ) -> None:
        """Add annotations and labels to a binding; `target` is what is bound. Raises AdaptionError.

        A lock of the node stays where a later step of the bind fails: it expires.
        """
        if self._nodes.by_key(node_name) is None:
            raise AdaptionError(f'node "{node_name}" not found')
        now = self._handle.clock.now()
        nanoseconds = int(now.timestamp()) * 10**9 + now.microsecond * 1000
        binding.annotations[BIND_TIMESTAMP] = str(nanoseconds)
        gpus = allocations.get(_GPU)
        if not gpus:
            return
        binding.annotations[ANNOTATION_GPU_MINORS] = minors(gpus)
        if target.labels.get(LABEL_GPU_ISOLATION_PROVIDER) == HAMI_CORE:
            binding.labels[LABEL_HAMI_VGPU_NODE] = node_name
        device = self._devices.by_key(node_name)
        if device is None:
            raise AdaptionError(f'device.scheduling.koordinator.sh "{node_name}" not found')
        name = device.metadata.labels.get(LABEL_GPU_VENDOR, "")
        vendor = VENDORS.get(name)
        if vendor is None:
            return
        model = device.metadata.labels.get(LABEL_GPU_MODEL, "")
        try:
            binding.annotations.update(vendor.annotate(gpus, model, nanoseconds))
            if vendor.lock:
                client = self._handle.client
                if client is None:
                    raise AdaptionError("failed to lock node: there is no client to write with")
                await self._locks.lock(client, node_name, vendor.lock, target, now)
        except NodeWriteError:
            raise
        except AdaptionError as error:
            raise AdaptionError(
                f'failed to adapt for GPU device plugin of vendor "{name}": {error}'
            ) from None
