"""The annotation device-allocated: the devices that the scheduler allocated to a pod.

Source: Koordinator, `apis/extension/device_share.go` (`DeviceAllocations`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from koordpy.lib import go_json

from .extension import ANNOTATION_DEVICE_ALLOCATED
from .quantity import Quantity, from_wire

MOST_DEVICES: Final = 1024
"""The devices that an annotation may list, and a Device: more than any machine has."""


@dataclass(frozen=True, slots=True)
class AllocatedFunction:
    """A virtual function of an allocated device."""

    bus_id: str
    minor: int = 0


@dataclass(frozen=True, slots=True)
class DeviceAllocation:
    """One device, or a part of it. `template` is the GPU shared resource template that it was taken by."""

    minor: int
    resources: Mapping[str, Quantity]
    id: str = ""
    virtual_functions: tuple[AllocatedFunction, ...] = ()
    template: str = ""


DeviceAllocations = Mapping[str, tuple[DeviceAllocation, ...]]
"""Allocated devices by type (`gpu`, `rdma`), in the order in which they were chosen."""


def text(allocations: Mapping[str, Sequence[DeviceAllocation]]) -> str:
    """Return the annotation's text, with Koordinator's order of fields; what is empty is left out."""
    return go_json.encode(
        {type_: [_written(each) for each in allocations[type_]] for type_ in sorted(allocations)}
    )


def of(annotations: Mapping[str, str]) -> DeviceAllocations:
    """Return the allocated devices by type (`gpu`, `rdma`), empty if there are none. Raises ValueError."""
    text = annotations.get(ANNOTATION_DEVICE_ALLOCATED)
    if text is None:
        return {}
    try:
        types = {
            type_: go_json.array(devices, type_) or []
            for type_, devices in (go_json.mapping(go_json.parse(text), "value") or {}).items()
        }
        if len(types) + sum(map(len, types.values())) > MOST_DEVICES:
            raise ValueError(f"more than {MOST_DEVICES} devices")
        return {
            type_: tuple(_allocation(item, f"{type_}[{at}]") for at, item in enumerate(devices))
            for type_, devices in types.items()
        }
    except ValueError as error:
        raise ValueError(f"annotation {ANNOTATION_DEVICE_ALLOCATED}: {error}") from None


def _allocation(value: Any, place: str) -> DeviceAllocation:
    document = go_json.members(value, place)
    resources = go_json.mapping(document.get("resources"), f"{place}.resources") or {}
    extension = go_json.members(document.get("extension"), f"{place}.extension")
    functions = go_json.array(extension.get("vfs"), f"{place}.extension.vfs") or []
    return DeviceAllocation(
        go_json.integer(document.get("minor"), f"{place}.minor", 32),
        {name: from_wire(amount) for name, amount in resources.items()},
        go_json.text(document.get("id"), f"{place}.id"),
        tuple(_function(item, f"{place}.extension.vfs[{at}]") for at, item in enumerate(functions)),
        go_json.text(extension.get("gpusharedresourcetemplate"), f"{place}.gpuSharedResourceTemplate"),
    )


def _function(value: Any, place: str) -> AllocatedFunction:
    document = go_json.members(value, place)
    return AllocatedFunction(
        go_json.text(document.get("busid"), f"{place}.busID"),
        go_json.integer(document.get("minor"), f"{place}.minor"),
    )


def _written(allocation: DeviceAllocation) -> dict[str, Any]:
    resources = allocation.resources
    document: dict[str, Any] = {
        "minor": allocation.minor,
        "resources": {name: str(resources[name]) for name in sorted(resources)},
    }
    if allocation.id:
        document["id"] = allocation.id
    extension: dict[str, Any] = {}
    if allocation.virtual_functions:
        extension["vfs"] = [
            ({"minor": each.minor} if each.minor else {}) | ({"busID": each.bus_id} if each.bus_id else {})
            for each in allocation.virtual_functions
        ]
    if allocation.template:
        extension["gpuSharedResourceTemplate"] = allocation.template
    if extension:
        document["extension"] = extension
    return document
