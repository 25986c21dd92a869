"""The arithmetic of fitting.

`left_on_node` and `left_in_reservation` take exact quantities, integers, or arrays of integers of any shape:
Filter works on arrays for all nodes at once, and finds the reasons for one node with plain numbers. A request
fits if it is not more than the free amount. Pods are one more resource, of which a pod requests 1.

Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go` (`fitsNode`, `fitsReservation`).
"""

from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from koordpy.api.quantity import Quantity
from koordpy.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from koordpy.api.resources import Vector
from koordpy.cluster.columns import Int64

Amount = TypeVar("Amount", int, Quantity, Int64)

Ignores = Callable[[str], bool]
"""Whether a resource need not fit: `ignoredResources` and `ignoredResourceGroups` of the arguments."""

_NATIVE = (CPU, MEMORY, EPHEMERAL_STORAGE)


def left_on_node(allocatable: Amount, requested: Amount, freed: Amount) -> Amount:
    """Return how much of a resource a pod may request on a node.

    `requested` is what pods and reservations take, each matched reservation in full. `freed` is how much of
    that the pod need not mind: what pods use of the matched reservations (they are counted themselves), what
    is available in the one reservation that the pod is to use, if any, and what preemption would free.
    """
    return allocatable - (requested - freed)


def left_in_reservation(allocatable: Amount, reserved: Amount, allocated: Amount) -> Amount:
    """Return how much of a resource a pod may request of a Restricted reservation.

    `reserved` is what no pod can have of it, `allocated` what other pods use.
    """
    return allocatable - reserved - allocated


def compared_on_node(request: Vector, ignores: Ignores) -> tuple[str, ...]:
    """Return the resources, beside pods, that have to be left on a node for a request.

    Those that every node has are among them though the pod may not request them: a node where less than
    nothing is left refuses it. A pod that requests nothing at all is refused for none.
    """
    scalars = [name for name in request if name not in _NATIVE and name != PODS]
    if not scalars and not any(request.get(name) for name in _NATIVE):
        return ()
    return (*_NATIVE, *(name for name in scalars if not ignores(name)))


def compared_in_reservation(
    names: Iterable[str], requests: Mapping[str, Quantity], ignores: Ignores
) -> list[str]:
    """Return which of a reservation's resources have to be left in it for a request."""
    return [name for name in names if name in requests and not requests[name].is_zero and not ignores(name)]


def concerns(names: Iterable[str], requests: Mapping[str, Quantity]) -> bool:
    """Return whether a reservation holds anything that a pod requests, be it an amount of 0.

    One that does not is of no use to a pod that does not have to take a reservation.
    """
    return any(name in requests for name in names)
