"""When pods that found no devices are worth another attempt.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/plugin.go` (`EventsToRegister`).
"""

from collections.abc import Mapping
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.device import Device, same_devices
from koordpy.api.extension import ANNOTATION_DEVICE_ALLOCATED
from koordpy.api.meta import KubeObject
from koordpy.scheduling.interface import ChangeHelps

from .requests.device_requests import has_device_requests

REASONS: Final = (
    "Insufficient gpu devices",
    "Insufficient rdma devices",
    "Insufficient fpga devices",
    "Insufficient GPU Devices",
    "Insufficient Topology Scoped GPU Devices",
    "Insufficient Partitioned GPU Devices",
    "Insufficient NUMA Scoped Devices",
    "VirtualFunctions",
    "node(s) Insufficient primary device",
    "node(s) Device Joint-Allocate rules violation",
    "node(s) missing GPU Partition Table",
    "node(s) missing GPU Device Topology Tree",
)
"""Parts of the reasons that other devices, or other allocations, may remove."""


def device_may_help(old: Device | None, new: Device | None) -> bool:
    """Return whether a change of a Device may let pods pass; most writes of one change nothing of it.

    Without a Device, kubelet alone decides: so its deletion may help too.
    """
    if old is None or new is None:
        return True
    old_meta, meta = old.metadata, new.metadata
    return (
        old_meta.labels != meta.labels
        or old_meta.annotations != meta.annotations
        or not same_devices(old, new)
    )


def pod_may_help(old: Pod | None, new: Pod | None) -> bool:
    """Return whether a pod with devices is gone, possibly before it was bound, or has ended."""
    if old is None:
        return False
    if ANNOTATION_DEVICE_ALLOCATED not in old.metadata.annotations:
        return new is None and not old.spec.node_name and has_device_requests(old)
    return new is None or (new.is_terminal and not old.is_terminal)


EVENTS: Final[Mapping[type[KubeObject], ChangeHelps]] = {Device: device_may_help, Pod: pod_may_help}
