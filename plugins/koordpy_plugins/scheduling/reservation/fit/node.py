"""What a node lacks for a pod beside its reservations, resource by resource."""

from collections.abc import Collection
from dataclasses import dataclass

from koordpy.api.resource_names import PODS
from koordpy.api.resources import Vector

from .rules import Ignores, compared_on_node, left_on_node

_NOTHING: Vector = {}


@dataclass(frozen=True, slots=True)
class NodeAmounts:
    """What is known of a node, in milli-CPU and base units, and its number of pods."""

    allocatable: Vector
    requested: Vector
    """What pods and reservations request; what pods use of unmatched reservations is counted once."""
    pods: int
    """Pods on the node, without matched reserve pods."""
    allocated: Vector
    """What pods use of the matched reservations."""
    left_to_others: Collection[str] = ()
    """Resources that a DeviceClass backs and the node does not offer: kube-scheduler allocates them."""


def lacking_on_node(
    request: Vector,
    node: NodeAmounts,
    ignores: Ignores,
    *,
    available: Vector = _NOTHING,
    leaving: int = 0,
    preemptible: Vector = _NOTHING,
) -> list[str]:
    """Return the resources that a node lacks for a request.

    `available` is the free part of the one reservation that the pod would use, `leaving` the number of pods
    that make way, `preemptible` what they free.
    """
    lacking = []
    if left_on_node(node.allocatable.get(PODS, 0), node.pods, leaving) < 1:
        lacking.append(PODS)
    for name in compared_on_node(request, ignores):
        if name in node.left_to_others:
            continue
        freed = available.get(name, 0) + node.allocated.get(name, 0) + preemptible.get(name, 0)
        left = left_on_node(node.allocatable.get(name, 0), node.requested.get(name, 0), freed)
        if request.get(name, 0) > left:
            lacking.append(name)
    return lacking
