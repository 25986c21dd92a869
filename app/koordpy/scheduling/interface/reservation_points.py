"""The reservation extension points of a profile, for the plugin that owns reservations to run.

Koordinator: `pkg/scheduler/frameworkext/framework_extender.go`.
"""

from collections.abc import Mapping
from typing import ClassVar, Protocol

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64

from .cycle_state import CycleState
from .reservation_info import ReservationInfo
from .reservation_pairs import ReservationPairs
from .reservations import ReservationNominator
from .status import Status, Verdict


class Named(Protocol):
    """A plugin, reduced to its name."""

    name: ClassVar[str]


class ReservationPoints(Protocol):
    """The reservation plugins of a profile, run point by point in Koordinator's order."""

    @property
    def nominator(self) -> ReservationNominator | None:
        """The plugin that chooses among reservations; the last one if there are several."""
        ...

    def without(self, plugin: Named) -> "ReservationPoints":
        """Return the same without one plugin: the caller, which already knows its own answer."""
        ...

    @property
    def restores(self) -> bool:
        """Whether any plugin restores reservations."""
        ...

    @property
    def filters(self) -> bool:
        """Whether any plugin filters reservations."""
        ...

    @property
    def scores(self) -> bool:
        """Whether any plugin scores reservations."""
        ...

    def pre_restore(self, state: CycleState, pod: Pod) -> Status:
        """Run PreRestoreReservation; return the first failure."""
        ...

    def restore(
        self, state: CycleState, pod: Pod, matched: ReservationPairs, unmatched: ReservationPairs
    ) -> tuple[dict[str, Mapping[str, object]], Status]:
        """Run RestoreReservation for the nodes of the pairs; both have the same nodes.

        Returns states by plugin name, then node name, none of them on a failure.
        """
        ...

    def final_restore(
        self, state: CycleState, pod: Pod, states: Mapping[str, Mapping[str, object]]
    ) -> Status:
        """Run FinalRestoreReservation with states by plugin name, then node name."""
        ...

    def pre_restore_pre_allocation(self, state: CycleState, reservation: ReservationInfo) -> Status:
        """Run PreRestoreReservationPreAllocation; return the first failure."""
        ...

    def restore_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo, pairs: ReservationPairs
    ) -> Status:
        """Run RestoreReservationPreAllocation for all candidates; return the first failure."""
        ...

    def filter(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Run FilterReservation for pairs (k,); return the first failure of each."""
        ...

    def filter_nominate(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Run FilterNominateReservation for pairs (k,); return the first failure of each."""
        ...

    def score(self, state: CycleState, pod: Pod, pairs: ReservationPairs) -> tuple[dict[str, Int64], Status]:
        """Run ScoreReservation and the normalisation among the pairs of each node.

        Returns scores (k,) by plugin name; empty if there are no pairs or on a failure.
        """
        ...

    def pre_allocation_score(
        self, state: CycleState, reservation: ReservationInfo, pairs: ReservationPairs
    ) -> tuple[dict[str, Int64], Status]:
        """Do the same for running pods that a Reservation may take over; a failure names the pod."""
        ...
