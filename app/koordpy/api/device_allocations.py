"""The annotation device-allocated: the devices that the scheduler allocated to a pod.

Source: Koordinator, `apis/extension/device_share.go` (`DeviceAllocations`).
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from koordpy.lib import go_json

from .extension import ANNOTATION_DEVICE_ALLOCATED
from .quantity import Quantity, from_wire


@dataclass(frozen=True)
class DeviceAllocation:
    """One device, or a part of it. `virtual_functions` are bus addresses."""

    minor: int
    resources: Mapping[str, Quantity]
    id: str = ""
    virtual_functions: tuple[str, ...] = ()


def of(annotations: Mapping[str, str]) -> Mapping[str, tuple[DeviceAllocation, ...]]:
    """Return the allocated devices by type (`gpu`, `rdma`), empty if there are none. Raises ValueError."""
    text = annotations.get(ANNOTATION_DEVICE_ALLOCATED)
    if text is None:
        return {}
    try:
        types = go_json.mapping(go_json.parse(text), "value") or {}
        return {
            type_: tuple(
                _allocation(item, f"{type_}[{at}]")
                for at, item in enumerate(go_json.array(devices, type_) or [])
            )
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
        tuple(
            go_json.text(go_json.members(item, f"{place}.extension.vfs").get("busid"), "busID")
            for item in functions
        ),
    )
