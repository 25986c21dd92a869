"""The plan for a gang: a node for each of its members, or why there is none.

Source: Koordinator, `PlacePods` in
`pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go`.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.scheduling.interface.fit_error import fit_error
from koordpy.scheduling.interface.status import SUCCESS, Status

from .members import in_order_of_name
from .offers import Layout, Offers
from .requirement import Requirement
from .slots import Slots

MOST_SHOWN = 100
"""Members of the network in a message; of a layer there may be thousands."""


@dataclass(slots=True)
class Solution:
    """The nodes by the members' keys, or a status that says why there are none."""

    nodes: Mapping[str, str] = field(default_factory=dict)
    status: Status = SUCCESS


def solve(
    layout: Layout,
    requirement: Requirement,
    pods: Sequence[Pod],
    slots: Slots,
    existing: Int64 | None = None,
    scores: Int64 | None = None,
) -> Solution:
    """Choose the lowest members of the network that hold all pods, and nodes below the best of them.

    `slots` says how many of the pods each node holds. `existing` (n,) is how many pods of the same selector
    are on the nodes of `slots`; `scores` (n,) are preferences among equals.
    """
    if slots.error is not None:
        return Solution(status=slots.error)
    offers = Offers(layout, requirement, slots.nodes.names, slots.numbers, existing, scores)
    gathering = offers.gathering()
    for candidate in offers.candidates(gathering, len(pods)):
        shares = offers.distribute(len(pods), candidate)
        if sum(number for _, number in shares) == len(pods):
            return Solution(_assigned(pods, shares))
    offered = sorted(
        f"topology topologyNode {member.layer}/{member.name}: {offers.slots[index]}"
        for index in gathering
        for member in (layout.members[index],)
    )
    return Solution(status=Status.unschedulable(_no_candidate(requirement, len(pods), offered, slots)))


def _assigned(pods: Iterable[Pod], shares: Iterable[tuple[str, int]]) -> dict[str, str]:
    """Give the pods, by name, to nodes in order."""
    places = (name for name, number in shares for _ in range(number))
    ordered = in_order_of_name(pods)
    return {pod.metadata.key: name for pod, name in zip(ordered, places, strict=True)}


def _no_candidate(requirement: Requirement, wanted: int, offered: Sequence[str], slots: Slots) -> str:
    reasons = Counter(reason for status in slots.refusals.values() for reason in status.reasons)
    shown = list(offered[:MOST_SHOWN])
    if len(offered) > MOST_SHOWN:
        shown.append(f"and {len(offered) - MOST_SHOWN} more")
    text = (
        f"no candidate topology nodes can accommodate job, desiredOfferSlot: {wanted}, {';'.join(shown)}, "
        f"{fit_error(len(slots.nodes), reasons)}"
    )
    if requirement.multiples:
        units = ", ".join(sorted(f"{layer}={unit}" for layer, unit in requirement.multiples.items()))
        text += f"; podCountMultiple constraints: {units}"
    return text
