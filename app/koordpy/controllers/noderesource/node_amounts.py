"""A node's capacity, and what is reserved on it for processes that are no pods.

Source: Koordinator, `pkg/util/node.go` (`GetNodeReservationFromKubelet`, `GetNodeReservationFromAnnotation`).
"""

import msgspec

from koordpy.api import extension
from koordpy.api.node_reservation import NodeReservation
from koordpy.api.quantity import Format, from_wire
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.api.scheme import DecodeError, decode

from ..slo.node_state import NodeState
from .amounts import NOTHING, Amounts, read


class NodeAmounts(msgspec.Struct, frozen=True, gc=False):
    """A node's capacity, what is reserved on it, and how its memory is written, which amounts computed from
    it inherit.
    """

    capacity: Amounts
    reserved: Amounts
    memory_format: Format


def amounts_of(node: NodeState) -> NodeAmounts:
    """Return the amounts of a node; of what the kubelet and what the annotation reserve the larger ones.

    Raises QuantityError.
    """
    capacity_list = node.capacity or {}
    capacity, memory = read(capacity_list), capacity_list.get(MEMORY)
    by_kubelet = capacity.minus(read(node.allocatable or {})).at_least(NOTHING)
    return NodeAmounts(
        capacity,
        by_kubelet.at_least(_by_annotation(node)),
        Format.BINARY_SI if memory is None else from_wire(memory).format,
    )


def _by_annotation(node: NodeState) -> Amounts:
    text = (node.annotations or {}).get(extension.ANNOTATION_NODE_RESERVATION)
    if not text:
        return NOTHING
    try:
        reservation = decode(NodeReservation, b"{}" if text.strip() == "null" else text.encode())
        amounts = reservation.amounts()
    except (DecodeError, ValueError):
        return NOTHING
    cpu, memory = amounts.get(CPU), amounts.get(MEMORY)
    return Amounts(0 if cpu is None else cpu.nano_value(), 0 if memory is None else memory.nano_value())
