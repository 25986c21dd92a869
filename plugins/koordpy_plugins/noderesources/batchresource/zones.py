"""Batch resources of NUMA zones in a NodeResourceTopology.

Source: Koordinator, `pkg/slo-controller/noderesource/plugins/util/util.go` (`UpdateNRTZoneListIfNeeded`) and
`plugins/batchresource/noderesourcetopology_event_handler.go`.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from koordpy.api import extension
from koordpy.api.koordinator import NodeResourceTopology, Zone, ZoneResource
from koordpy.api.meta import ResourceList
from koordpy.api.quantity import Format, Quantity, from_wire
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.controllers.noderesource.amounts import Amounts, differs, read
from koordpy.controllers.noderesource.toolkit import normalized

_CHECKED: Final = (CPU, MEMORY)
_FIELDS: Final = ("capacity", "allocatable", "available")
_WRITTEN: Final = (extension.BATCH_CPU, extension.BATCH_MEMORY)


def has_resources(topology: NodeResourceTopology) -> bool:
    """Return whether a zone has cpu or memory."""
    return any(resource.name in _CHECKED for zone in topology.zones for resource in zone.resources)


def allocatable(zone: Zone) -> Amounts:
    """Return the allocatable cpu and memory of a zone. Raises QuantityError."""
    return read({item.name: item.allocatable for item in zone.resources if item.name in _CHECKED})


def memory_format(zone: Zone) -> Format:
    """Return how a zone's memory is written. Raises QuantityError."""
    return next(
        (from_wire(item.allocatable).format for item in zone.resources if item.name == MEMORY),
        Format.BINARY_SI,
    )


class ZoneAmounts(msgspec.Struct, frozen=True):
    """What the zones of a topology offer, by zone, and how their memory is written."""

    topology: NodeResourceTopology
    allocatable: list[Amounts]
    formats: list[Format]


def amounts_of(topology: NodeResourceTopology) -> ZoneAmounts:
    """Return the amounts of all zones. Raises QuantityError."""
    return ZoneAmounts(
        topology,
        [allocatable(zone) for zone in topology.zones],
        [memory_format(zone) for zone in topology.zones],
    )


def changed(old: Sequence[Zone], new: Sequence[Zone]) -> bool:
    """Return whether zones, or their cpu or memory, changed."""
    return [_checked(zone) for zone in old] != [_checked(zone) for zone in new]


def _checked(zone: Zone) -> tuple[str, dict[str, tuple[Quantity, Quantity, Quantity]]]:
    return zone.name, {
        item.name: (from_wire(item.capacity), from_wire(item.allocatable), from_wire(item.available))
        for item in zone.resources
        if item.name in _CHECKED
    }


def updated(
    zones: Sequence[Zone],
    results: Mapping[str, Mapping[str, Quantity]],
    ratio: float,
    threshold: float,
) -> tuple[list[Zone], bool]:
    """Return the zones with the results, and whether anything has to be written.

    A zone without a result asks for a write as long as it has batch resources, which stay as they are: so
    does Koordinator, which means to set them to 0.
    """
    made, is_needed = [], False
    for zone in zones:
        result = results.get(zone.name)
        if result is None:
            is_needed |= any(item.name in _WRITTEN and not _is_zero(item) for item in zone.resources)
            made.append(zone)
            continue
        resources = list(zone.resources)
        for name, amount in result.items():
            amount = normalized(amount, ratio) if name == extension.BATCH_CPU else amount
            at = next((at for at, item in enumerate(resources) if item.name == name), None)
            text = str(amount)
            if at is None:
                resources.append(ZoneResource(name=name, capacity=text, allocatable=text, available=text))
                resources.sort(key=lambda item: item.name)
                is_needed = True
            elif changes := _changes(resources[at], text, threshold):
                resources[at] = msgspec.structs.replace(resources[at], **changes)
                is_needed = True
        made.append(msgspec.structs.replace(zone, resources=resources))
    return made, is_needed


def wire(zones: Sequence[Zone]) -> list[dict[str, Any]]:
    """Return zones as in the API; quantities are never left out."""
    documents: list[dict[str, Any]] = msgspec.to_builtins(zones)
    for zone, document in zip(zones, documents, strict=True):
        if zone.resources:
            document["resources"] = [
                {
                    "name": item.name,
                    "capacity": item.capacity,
                    "allocatable": item.allocatable,
                    "available": item.available,
                }
                for item in zone.resources
            ]
    return documents


def _changes(item: ZoneResource, text: str, threshold: float) -> ResourceList:
    if item.capacity == item.allocatable == item.available:
        return dict.fromkeys(_FIELDS, text) if differs(item.capacity, text, threshold) else {}
    return {field: text for field in _FIELDS if differs(getattr(item, field), text, threshold)}


def _is_zero(item: ZoneResource) -> bool:
    return all(from_wire(amount).is_zero for amount in (item.capacity, item.allocatable, item.available))
