"""What one attempt knows about reservations: prepared before PreFilter, read by every later point."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Bool
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import StateKey
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .candidate_nodes import CandidateNodes
from .diagnosis import Diagnosis
from .matches import Matches
from .nominated import NominatedReservations
from .preemptible import Preemptible
from .requirements import PodRequirements
from .reservation_fits import ReservationFits


class LastFits(NamedTuple):
    """Into which reservations the pod fits, on all nodes of a view."""

    nodes: NodeSet
    moment: tuple[int, int]
    """That of the node table, which changes with reservations too."""
    fits: ReservationFits

    def covers(self, nodes: NodeSet) -> bool:
        """Return whether all of `nodes` are among those of this view."""
        if nodes is self.nodes:
            return True
        known = np.zeros(nodes.table.capacity, np.bool_)
        known[self.nodes.rows] = True
        return bool(known[nodes.rows].all())


@dataclass(slots=True)
class Prepared:
    """One attempt: what the pod requires, what matches, and what later points have found so far."""

    requirements: PodRequirements
    matches: Matches
    """Nodes with matched reservations or candidates, by row of the node table."""
    restored: Bool | None = None
    """(rows,) nodes on which what pods use of reservations is counted once; None for all nodes."""
    candidate_nodes: CandidateNodes | None = None
    """The nodes on which the pod may use reservations; None for a reserve pod."""
    has_nodes: bool = False
    """Whether reservations make a difference to this pod on any node."""
    reservation: ReservationInfo | None = None
    """The Reservation that is being scheduled, when the pod is a reserve pod."""
    problem: str = ""
    """Why a reserve pod cannot be scheduled at all: it cannot be found or is not valid."""
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict)
    """What was decided about the running pods that a Reservation may take over, by node name."""
    preemptible: Preemptible = field(default_factory=Preemptible)
    selected: dict[str, Sequence[Pod]] = field(default_factory=dict)
    """The candidates that Filter found to be enough, by node name."""
    nominated_reservations: NominatedReservations = field(default_factory=NominatedReservations)
    """The reservations nominated before scoring, one a node."""
    nominated_pods: dict[str, Sequence[Pod]] = field(default_factory=dict)
    """The pods to be taken over, by node name."""
    last_view: tuple[NodeSet, tuple[int, int], NodeSet] | None = None
    """The nodes of which a view was made last, the moment, and the view."""
    last_fits: LastFits | None = None
    """What Filter found last, for PreScore."""
    assumed: ReservationInfo | None = None
    """What Reserve has taken."""
    annotated: bool = False
    """Whether PreBind has set the annotation."""
    pre_allocated: Sequence[Pod] = ()
    """The pods that Reserve has taken over."""

    @property
    def is_pre_allocation(self) -> bool:
        """Whether a Reservation is scheduled that may take over running pods."""
        info = self.reservation
        return info is not None and info.is_pre_allocation

    @property
    def takes_many(self) -> bool:
        """Whether a Reservation is scheduled that may take over several pods at once."""
        info = self.reservation
        return (
            self.is_pre_allocation
            and info is not None
            and info.reservation is not None
            and info.reservation.takes_many
        )

    @property
    def required(self) -> bool:
        """Whether the pod must use a reservation, or the Reservation must take over a pod."""
        info = self.reservation
        if info is None or info.reservation is None:
            return self.requirements.affinity is not None
        return info.reservation.requires_pre_allocation

    def concerns(self, row: int, used: Bool) -> bool:
        """Return whether reservations make a difference to this pod on a node.

        `used` (rows,) is whether nodes have matchable reservations with pods.
        """
        if row in self.matches:
            return True
        restored = self.restored is None or (row < len(self.restored) and bool(self.restored[row]))
        return restored and (self.reservation is not None or bool(used[row]))

    def clone(self) -> "Prepared":
        """Return a copy for a what-if."""
        return replace(
            self,
            preemptible=self.preemptible.clone(),
            selected=dict(self.selected),
            nominated_pods=dict(self.nominated_pods),
        )


PREPARED: StateKey[Prepared] = StateKey("scheduling.koordinator.sh/reservation")
