"""Whether a pod may use a reservation, and if not, why.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Node, Pod
from koordpy.api.quantity import Quantity
from koordpy.api.reservation_affinity import ReservationAffinity, affinity_of, text_of, untolerated
from koordpy.api.resources import Vector, counted, pod_requests, surely_alike, vector
from koordpy.lib.last_answer import LastAnswer
from koordpy.scheduling.interface.reservation_info import ReservationInfo


class Decision(StrEnum):
    """The one verdict on a pod and a reservation."""

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


@dataclass(frozen=True, slots=True)
class Wish:
    """What a pod says about reservations, read once."""

    pod: Pod
    requests: Mapping[str, Quantity]
    needs: Vector
    """The requests in the units in which nodes count."""
    affinity: ReservationAffinity | None = None
    exact: tuple[str, ...] = ()
    """Resources of which a reservation must hold exactly what is requested."""
    ignores_reservations: bool = False

    @classmethod
    def of(cls, pod: Pod) -> "Wish":
        """Read a pod. Raises DecodeError, QuantityError."""
        return cls(
            pod,
            *_AMOUNTS.of(pod),
            affinity_of(pod.metadata.annotations),
            annotations.exact_match(pod.metadata.annotations),
            annotations.is_ignored_by(pod),
        )

    @staticmethod
    def amounts(pod: Pod) -> tuple[Mapping[str, Quantity], Vector]:
        """Return what a pod requests, exactly and in the units in which nodes count. Raises QuantityError."""
        requests = pod_requests(pod)
        return requests, counted(vector(requests))

    @property
    def name(self) -> str:
        """The one reservation that is asked for by name, empty if none is."""
        return self.affinity.name if self.affinity is not None else ""

    def fits_exactly(self, info: ReservationInfo) -> bool:
        """Return whether a reservation holds just what is requested of the resources that matter."""
        return annotations.matches_exactly(self.exact, self.requests, info.allocatable)


_AMOUNTS = LastAnswer(Wish.amounts, surely_alike)  # the pods of a workload come in one go


def decide(wish: Wish, info: ReservationInfo, node: Node, *, omit_node_labels: bool = False) -> Decision:
    """Return whether a pod may use a reservation on a node."""
    if wish.ignores_reservations:
        return Decision.IGNORED
    if not info.has_owner(wish.pod):
        return Decision.OWNER_UNMATCHED
    return decide_for_owner(wish, info, node, omit_node_labels=omit_node_labels)


def decide_for_owner(
    wish: Wish,
    info: ReservationInfo,
    node: Node,
    *,
    omit_node_labels: bool,
    minds_unschedulable: bool = True,
) -> Decision:
    """Tell the same for a pod that is among the owners."""
    affinity = wish.affinity
    if affinity is not None and affinity.name:
        if affinity.name != info.name:
            return Decision.NAME_UNMATCHED
        return Decision.NAME_MATCHED if wish.fits_exactly(info) else Decision.NOT_EXACT
    tolerated = affinity is not None and affinity.tolerates_unschedulable
    if minds_unschedulable and info.is_unschedulable and not tolerated:
        return Decision.UNSCHEDULABLE
    if untolerated(affinity, info.taints) is not None:
        return Decision.TAINT
    if not info.accepted_by(affinity, node, omit_node_labels=omit_node_labels):
        return Decision.AFFINITY_UNMATCHED
    return Decision.MATCHED if wish.fits_exactly(info) else Decision.NOT_EXACT


@dataclass(slots=True)
class Diagnosis:
    """How many reservations of a node came to which decision."""

    counts: dict[Decision, int] = field(default_factory=dict)
    taints: dict[str, int] = field(default_factory=dict)
    """Reservations by the taint that kept the pod out."""

    def count(self, decision: Decision, wish: Wish, info: ReservationInfo) -> None:
        """Count a decision."""
        self.counts[decision] = self.counts.get(decision, 0) + 1
        if decision is Decision.TAINT:
            taint = untolerated(wish.affinity, info.taints)
            assert taint is not None
            text = text_of(taint)
            self.taints[text] = self.taints.get(text, 0) + 1

    def count_error(self) -> None:
        """Count a pod that cannot be read."""
        self.counts[Decision.ERROR] = self.of(Decision.ERROR) + 1

    def of(self, decision: Decision) -> int:
        """Return how many reservations came to a decision."""
        return self.counts.get(decision, 0)

    @property
    def owned(self) -> int:
        """How many reservations have the pod among their owners."""
        return sum(
            number
            for decision, number in self.counts.items()
            if decision not in (Decision.IGNORED, Decision.OWNER_UNMATCHED)
        )

    @property
    def otherwise_fit(self) -> int:
        """How many of them were refused for no reason of their own."""
        return sum(map(self.of, (Decision.NAME_MATCHED, Decision.MATCHED, Decision.ERROR)))
