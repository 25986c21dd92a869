"""What the Device of a node says: its devices, labels and annotations.

Source: Koordinator, `pkg/koordlet/statesinformer/impl/states_device_linux.go`.
"""

import logging
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from koordpy.agent.interface.facts import (
    DeviceStatus,
    GPUDevice,
    GPUDriver,
    RDMADevice,
    XPUDevice,
    XPUTopology,
)
from koordpy.api import extension, labels, quantity
from koordpy.api.quantity import Format, Quantity, QuantityError

log = logging.getLogger(__name__)

Document = dict[str, Any]

WHOLE: Final = "100"
"""What a whole device offers of a resource in percent."""
UNKNOWN_SOCKET: Final = -1
HEALTHY: Final = "Healthy"
NVIDIA: Final = "nvidia"
LONGEST_MESSAGE: Final = 32768
_REASON: Final = re.compile(r"[A-Za-z](?:[A-Za-z0-9_,:]{0,1022}[A-Za-z0-9_])?")
"""What the API server takes as the reason of a condition; it would refuse the whole object for another."""
_MINOR: Final = re.compile(r"[0-9]{1,10}")
_SHORT_NAMES: Final = {"gpu-core": extension.GPU_CORE, "gpu-memory": extension.GPU_MEMORY}


@dataclass(frozen=True)
class DeviceSpec:
    """The devices of a node as documents, by type and minor, with the labels and annotations of the object.

    Conditions are without the time of their last transition.
    """

    devices: list[Document] = field(default_factory=list)
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


def spec_of(
    gpus: Iterable[GPUDevice],
    driver: GPUDriver,
    xpus: tuple[XPUDevice, ...],
    cards: Iterable[RDMADevice],
    *,
    only_described: bool = False,
) -> DeviceSpec:
    """Return the spec. Described accelerators replace GPUs, which `only_described` leaves out in any case."""
    spec = DeviceSpec()
    if xpus:
        spec.devices.extend(sorted((_xpu(xpu) for xpu in xpus), key=lambda device: str(device["id"])))
        spec.labels.update(_xpu_labels(xpus[0]))
        spec.annotations.update(_partitions(xpus))
    elif not only_described and (found := [_gpu(gpu) for gpu in gpus]):
        spec.devices.extend(found)
        spec.labels[extension.LABEL_GPU_VENDOR] = NVIDIA
        if driver.model:
            spec.labels[extension.LABEL_GPU_MODEL] = driver.model
        if driver.version:
            spec.labels[extension.LABEL_GPU_DRIVER_VERSION] = driver.version
    spec.devices.extend(_card(card) for card in cards)
    spec.devices.sort(key=place)
    for name, text in list(spec.labels.items()):
        if (problem := labels.value_error(text)) is not None:
            log.error("label %s of the Device is left out: %r %s", name, text, problem)
            del spec.labels[name]
    return spec


def place(device: Document) -> tuple[str, int]:
    """Return by what devices are sorted."""
    return str(device.get("type") or ""), int(device.get("minor") or 0)


def _gpu(gpu: GPUDevice) -> Document:
    document: Document = {
        "id": gpu.uuid,
        "minor": gpu.minor,
        "type": "gpu",
        "health": gpu.status is None or gpu.status.healthy,
        "resources": {
            extension.GPU_CORE: WHOLE,
            extension.GPU_MEMORY: str(Quantity.of(gpu.memory_total, Format.BINARY_SI)),
            extension.GPU_MEMORY_RATIO: WHOLE,
        },
    }
    if gpu.numa_node >= 0 and gpu.pcie and gpu.bus_id:
        document["topology"] = _topology(gpu.numa_node, gpu.pcie, gpu.bus_id)
    return document | _conditions(gpu.status)


def _card(card: RDMADevice) -> Document:
    document: Document = {
        "id": card.bus_id,
        "minor": card.minor,
        "type": "rdma",
        "health": card.healthy,
        "resources": {extension.RDMA: WHOLE},
        "topology": _topology(card.numa_node, card.pcie, card.bus_id),
    }
    if card.virtual_functions is not None:
        functions = [{"minor": -1, "busID": bus_id} for bus_id in sorted(card.virtual_functions)]
        document["vfGroups"] = [{"vfs": functions} if functions else {}]
    return document


def _xpu(xpu: XPUDevice) -> Document:
    resources = {extension.GPU_MEMORY_RATIO: WHOLE}
    for name, text in xpu.resources.items():
        try:
            amount = str(quantity.parse(text))
        except QuantityError as error:
            log.error("resource %s of device %s is not reported: %s", name, xpu.uuid, error)
            continue
        resources[_SHORT_NAMES.get(name, name)] = amount
    document: Document = {
        "id": xpu.uuid,
        "minor": xpu.minor,
        "type": "gpu",
        "health": xpu.status is None or xpu.status.healthy,
        "resources": resources,
    }
    if (topology := xpu.topology) is not None:
        document["topology"] = _topology(topology.numa_node, topology.pcie, topology.bus_id)
    return document | _conditions(xpu.status)


def _topology(node: int, pcie: str, bus_id: str) -> Document:
    bus = {"busID": bus_id} if bus_id else {}
    return {"socketID": UNKNOWN_SOCKET, "nodeID": node, "pcieID": pcie, **bus}


def _conditions(status: DeviceStatus | None) -> Document:
    if status is None:
        return {}
    condition = {"type": HEALTHY, "status": "True", "reason": "DeviceHealthy", "message": "device is healthy"}
    if not status.healthy:
        code, message = status.error_code, status.error_message or "device is unhealthy"
        if code and not _REASON.fullmatch(code):
            code, message = "Unknown", f"{message} (error code {code})"
        condition["status"] = "False"
        condition["reason"] = code or "Unknown"
        condition["message"] = message[:LONGEST_MESSAGE]
    return {"conditions": [condition]}


# --- described accelerators ------------------------------------------------------------------------


def _xpu_labels(first: XPUDevice) -> dict[str, str]:
    found = {extension.LABEL_GPU_MODEL: first.model, extension.LABEL_GPU_VENDOR: first.vendor}
    if first.topology is not None and first.topology.links is not None:
        policy = "Honor" if first.topology.must_honor_partition else "Prefer"
        found[extension.LABEL_GPU_PARTITION_POLICY] = policy
    return found


def _partitions(xpus: Iterable[XPUDevice]) -> dict[str, str]:
    """Return the annotation with the groups of linked devices by their number; none without links."""
    table: dict[str, list[Document]] = {}
    seen: set[tuple[int, ...]] = set()
    for xpu in xpus:
        for minors, type_ in _linked(xpu, xpu.topology):
            if minors not in seen:
                seen.add(minors)
                partition = {"minors": list(minors), "gpuLinkType": type_, "allocationScore": 1}
                table.setdefault(str(len(minors)), []).append(partition)
    if not table:
        return {}
    ordered = {size: table[size] for size in sorted(table)}  # keys are texts, as Go sorts them
    return {extension.ANNOTATION_GPU_PARTITIONS: msgspec.json.encode(ordered).decode()}


def _linked(xpu: XPUDevice, topology: XPUTopology | None) -> Iterator[tuple[tuple[int, ...], str]]:
    for link in (topology.links or ()) if topology is not None else ():
        if not link.peers or not link.type:
            log.error("device %s has a link without peers or type: %s", xpu.uuid, link)
            continue
        peers = {int(peer) for peer in link.peers.split(",") if _MINOR.fullmatch(peer)}
        yield tuple(sorted({*peers, xpu.minor})), link.type
