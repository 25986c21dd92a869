"""Whether a pod may use a reservation, and if not, why.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go`.
"""

from enum import StrEnum

from koordpy.api.core import Node
from koordpy.api.reservation_affinity import untolerated
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .requirements import PodRequirements


class Decision(StrEnum):
    """What is decided about a pod and a reservation."""

    ERROR = "error"
    """The pod's annotations cannot be read."""
    IGNORED = "ignored"
    """The pod goes anywhere as if there were no reservations."""
    OWNER_UNMATCHED = "ownerUnmatched"
    NAME_UNMATCHED = "nameUnmatched"
    NAME_MATCHED = "nameMatched"
    UNSCHEDULABLE = "unschedulable"
    TAINT = "taint"
    AFFINITY_UNMATCHED = "affinityUnmatched"
    NOT_EXACT = "notExact"
    MATCHED = "matched"


USABLE = frozenset((Decision.IGNORED, Decision.NAME_MATCHED, Decision.MATCHED))


def decide(
    requirements: PodRequirements, info: ReservationInfo, node: Node, *, omit_node_labels: bool = False
) -> Decision:
    """Return whether a pod may use a reservation on a node.

    With `omit_node_labels` (gate OmitNodeLabelsForReservation) its affinity applies to the reservation's
    labels alone, not the node's too.
    """
    if requirements.ignores_reservations:
        return Decision.IGNORED
    if not info.has_owner(requirements.pod):
        return Decision.OWNER_UNMATCHED
    return decide_for_owner(requirements, info, node, omit_node_labels=omit_node_labels)


def decide_for_owner(
    requirements: PodRequirements,
    info: ReservationInfo,
    node: Node,
    *,
    omit_node_labels: bool,
    may_be_unschedulable: bool = False,
) -> Decision:
    """Decide the same for a pod that is among the owners."""
    affinity = requirements.affinity
    if affinity is not None and affinity.name:
        if affinity.name != info.name:
            return Decision.NAME_UNMATCHED
        return Decision.NAME_MATCHED if requirements.fits_exactly(info) else Decision.NOT_EXACT
    tolerated = may_be_unschedulable or (affinity is not None and affinity.tolerates_unschedulable)
    if info.is_unschedulable and not tolerated:
        return Decision.UNSCHEDULABLE
    if untolerated(affinity, info.taints) is not None:
        return Decision.TAINT
    if not info.accepted_by(affinity, node, omit_node_labels=omit_node_labels):
        return Decision.AFFINITY_UNMATCHED
    return Decision.MATCHED if requirements.fits_exactly(info) else Decision.NOT_EXACT
