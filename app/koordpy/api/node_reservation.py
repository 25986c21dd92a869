"""Resources of a node reserved by an annotation for processes that are not scheduled.

Source: Koordinator, `apis/extension/node_reservation.go` and `pkg/util/node.go`.
"""

import msgspec
from msgspec.structs import replace

from koordpy.lib import cpuset

from . import extension
from .core import Node
from .meta import ResourceList, Struct
from .quantity import Quantity, from_wire
from .resources import quantities
from .scheme import DecodeError, decode

_ZERO = Quantity.of(0)
_KEPT = (extension.BATCH_CPU, extension.BATCH_MEMORY)
"""The component that writes these amounts has already subtracted the reservation."""


class NodeReservation(Struct):
    """Amounts, or CPU ids, which replace an amount of cpu."""

    resources: ResourceList = {}
    reserved_cpus: str = msgspec.field(default="", name="reservedCPUs")
    apply_policy: str = ""

    def amounts(self) -> dict[str, Quantity]:
        """Return what is reserved. Raises ValueError for an invalid amount or CPU list."""
        amounts = quantities(self.resources)
        if self.reserved_cpus:
            amounts[extension.CPU] = Quantity.of(len(cpuset.parse(self.reserved_cpus)))
        return amounts


def trimmed(node: Node) -> Node:
    """Return a node without the part of its allocatable that its annotation reserves.

    A node whose annotation is absent, invalid, reserves nothing, or concerns only CPUs, is returned
    unchanged.
    """
    reserved = kept_back(node)
    if not reserved:
        return node
    status = node.status
    allocatable: ResourceList = {
        name: _left(amount, reserved[name]) if name in reserved else amount
        for name, amount in status.allocatable.items()
    }
    allocatable.update(dict.fromkeys(reserved.keys() - allocatable.keys(), "0"))
    allocatable.update({name: status.allocatable.get(name, "0") for name in _KEPT})
    return replace(node, status=replace(status, allocatable=allocatable))


def kept_back(node: Node) -> dict[str, Quantity]:
    """Return what the annotation of a node takes from its allocatable; nothing if it is absent or invalid."""
    text = node.metadata.annotations.get(extension.ANNOTATION_NODE_RESERVATION)
    if text is None:
        return {}
    try:
        reservation = decode(NodeReservation, b"{}" if text.strip() == "null" else text.encode())
        reserved = reservation.amounts() if reservation.apply_policy in ("", "Default") else {}
    except (DecodeError, ValueError):
        return {}
    return {} if all(amount.is_zero for amount in reserved.values()) else reserved


def _left(amount: str | int | float, reserved: Quantity) -> str:
    left = from_wire(amount) - reserved
    return str(left if left > _ZERO else _ZERO)
