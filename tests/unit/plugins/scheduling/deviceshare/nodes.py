"""Nodes with GPUs and network cards, for tests."""

from collections.abc import Iterable, Mapping
from typing import Any

from koordpy.api.device import Device
from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.extension import GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO, RDMA
from koordpy.api.quantity import parse
from koordpy.api.resource_list import Quantities
from koordpy.api.scheme import decode
from koordpy_plugins.scheduling.deviceshare.allocation.requests import GPURequirements, Requests
from koordpy_plugins.scheduling.deviceshare.state import partitions
from koordpy_plugins.scheduling.deviceshare.state.node_devices import NodeDevices

WHOLE = {GPU_CORE: "100", GPU_MEMORY_RATIO: "100", GPU_MEMORY: "16Gi"}
HALF = {GPU_CORE: "50", GPU_MEMORY_RATIO: "50", GPU_MEMORY: "8Gi"}
HOPPER = {"node.koordinator.sh/gpu-model": "H100"}


def amounts(texts: Mapping[str, str]) -> Quantities:
    return {name: parse(text) for name, text in texts.items()}


def gpu(minor: int, **changes: Any) -> dict[str, Any]:
    """A GPU; two are at each PCIe switch, four on each NUMA node."""
    place = {"nodeID": minor // 4, "pcieID": str(minor // 2)}
    return {"type": "gpu", "minor": minor, "health": True, "resources": WHOLE, "topology": place} | changes


def card(minor: int, **changes: Any) -> dict[str, Any]:
    """A network card, one at each PCIe switch."""
    place = {"nodeID": minor // 2, "pcieID": str(minor)}
    info = {"type": "rdma", "minor": minor, "health": True, "resources": {RDMA: "100"}, "topology": place}
    return info | changes


def device(devices: Iterable[Mapping[str, Any]], **metadata: Any) -> Device:
    return decode(Device, {"metadata": {"name": "n", **metadata}, "spec": {"devices": list(devices)}})


def node(
    devices: Iterable[Mapping[str, Any]] = tuple(map(gpu, range(8))),
    used: Mapping[int, Mapping[str, str]] | None = None,
    **metadata: Any,
) -> NodeDevices:
    """Return a node; `used` is what pods use of its GPUs."""
    found = NodeDevices()
    made = device(devices, **metadata)
    found.set_device(made, partitions.of_device(made.metadata.annotations))
    for minor, texts in (used or {}).items():
        found.add(f"x/p{minor}", {"gpu": (DeviceAllocation(minor, amounts(texts)),)})
    return found


def gpus(count: int = 1, texts: Mapping[str, str] | None = None, **more: Any) -> Requests:
    """Return a request for whole GPUs, or for a part of each."""
    per_gpu = amounts(texts or {GPU_CORE: "100", GPU_MEMORY_RATIO: "100"})
    shared = per_gpu.get(GPU_MEMORY_RATIO, parse("0")) < parse("100")
    return Requests({"gpu": per_gpu}, GPURequirements(per_gpu, count, shared, **more))
