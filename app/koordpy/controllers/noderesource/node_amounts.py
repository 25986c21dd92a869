"""A node's capacity, and what is reserved on it for processes that are no pods.

Source: Koordinator, `pkg/util/node.go` (`GetNodeReservationFromKubelet`, `GetNodeReservationFromAnnotation`).
"""

from koordpy.api import extension
from koordpy.api.node_reservation import NodeReservation
from koordpy.api.quantity import Format, from_wire
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.api.scheme import DecodeError, decode

from ..slo.node_state import NodeState
from .amounts import NOTHING, Amounts, read


def capacity(node: NodeState) -> Amounts:
    """Return the capacity of a node. Raises QuantityError."""
    return read(node.capacity or {})


def memory_format(node: NodeState) -> Format:
    """Return how the node's memory is written, which amounts computed from it inherit."""
    memory = (node.capacity or {}).get(MEMORY)
    return Format.BINARY_SI if memory is None else from_wire(memory).format


def reserved(node: NodeState) -> Amounts:
    """Return the larger of what the kubelet and what the annotation reserves. Raises QuantityError."""
    return _by_kubelet(node).at_least(_by_annotation(node))


def _by_kubelet(node: NodeState) -> Amounts:
    """Return capacity without allocatable, not below 0."""
    return capacity(node).minus(read(node.allocatable or {})).at_least(NOTHING)


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
