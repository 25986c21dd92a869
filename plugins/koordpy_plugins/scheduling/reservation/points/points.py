"""The extension points that differ between pods and reserve pods.

Each method is an extension point of the same name, called only for attempts that are prepared.
"""

from abc import ABC, abstractmethod

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import Status, Verdict

from ..attempt.prepared import Prepared


class Points(ABC):
    """The extension points for one kind of pods."""

    @abstractmethod
    def prepare(self, state: CycleState, pod: Pod) -> tuple[Prepared | None, Status]:
        """Find the reservations that affect a pod; None with the reason to stop."""

    @abstractmethod
    def pre_filter(self, prepared: Prepared) -> tuple[frozenset[str] | None, Status]:
        """Restrict the nodes to the possible ones; Skip where reservations make no difference."""

    @abstractmethod
    def filter(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Verdict:
        """Filter nodes, which are as the attempt sees them."""

    @abstractmethod
    def reasons(self, prepared: Prepared, outcome: FilterOutcome) -> list[str]:
        """Return the reasons that concern reservations when no node was found."""

    @abstractmethod
    def pre_score(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Status:
        """Nominate on every node, as far as the scores need it; Skip where they do not."""

    @abstractmethod
    def score(self, prepared: Prepared, nodes: NodeSet) -> Int64:
        """(n,) scores of the nominations."""

    @abstractmethod
    def normalize(self, scores: Int64) -> Int64:
        """Bring scores (n,) into 0..100."""

    @abstractmethod
    def nominate(
        self, state: CycleState, prepared: Prepared, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        """Nominate on the node that was chosen; return the reservation, if the pod uses one."""

    @abstractmethod
    def reserve(self, state: CycleState, prepared: Prepared, pod: Pod, node_name: str) -> Status:
        """Reserve what was nominated."""

    @abstractmethod
    def unreserve(self, prepared: Prepared | None, pod: Pod, node_name: str) -> None:
        """Unreserve it; an unprepared attempt may have reserved something before a restart."""
