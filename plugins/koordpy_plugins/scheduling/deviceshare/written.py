"""What is written to a pod or Reservation that was allocated devices.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/plugin.go` (PreBind),
`pkg/util/reservation/reservation.go` (`UpdateReservationResizeAllocatable`).
"""

from collections.abc import Mapping
from dataclasses import replace

from koordpy.api import resource_amounts
from koordpy.api.device import Device
from koordpy.api.device_allocations import DeviceAllocations
from koordpy.api.quantity import Quantity
from koordpy.api.reservation_annotations import resized_allocatable
from koordpy.api.resource_list import Quantities, from_wire, text


def with_ids(allocations: DeviceAllocations, device: Device) -> DeviceAllocations:
    """Return an allocation with the ids of its devices; what the Device does not list has none."""
    ids: dict[tuple[str, int], str] = {}
    for info in device.spec.devices:
        if info.minor is not None:
            ids.setdefault((info.type, info.minor), info.id)
    return {
        type_: tuple(replace(each, id=ids.get((type_, each.minor), each.id)) for each in of_type)
        for type_, of_type in allocations.items()
    }


def total(allocations: DeviceAllocations) -> Quantities:
    """Return the sum of an allocation over all devices and types."""
    return resource_amounts.total(
        each.resources for type_ in sorted(allocations) for each in allocations[type_]
    )


def resize_annotation(annotations: Mapping[str, str], allocated: Mapping[str, Quantity]) -> str:
    """Return the annotation by which a Reservation reserves what was allocated. Raises DecodeError."""
    resources = from_wire(resized_allocatable(annotations)) | dict(allocated)
    return f'{{"resources":{text(resources)}}}' if resources else "{}"
