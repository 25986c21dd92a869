"""The extension points for reserve pods: they take nodes, and perhaps over what running pods hold there."""

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict

from ..attempt.prepared import Prepared
from ..attempt.reserve_pod_preparation import ReservePodPreparation
from ..commit.reservations import ReservationCommit
from ..explain.reasons import reasons_for
from ..filter.pre_allocation import NO_POD, NOTHING_FITS
from ..filter.reserve_pods import ReservePodFilter
from ..nomination.reserve_pods import ReservePodNomination
from .points import Points


class ReservePodPoints(Points):
    """For the reserve pods of one profile."""

    def __init__(
        self,
        table: NodeTable,
        *,
        preparation: ReservePodPreparation,
        reserve_pod_filter: ReservePodFilter,
        nomination: ReservePodNomination,
        commit: ReservationCommit,
    ) -> None:
        self._table, self._preparation, self._filter = table, preparation, reserve_pod_filter
        self._nomination, self._commit = nomination, commit

    def prepare(self, state: CycleState, pod: Pod) -> tuple[Prepared | None, Status]:
        """Find the Reservation, and the running pods that it may take over."""
        return self._preparation.prepare(pod)

    def pre_filter(self, prepared: Prepared) -> tuple[frozenset[str] | None, Status]:
        """Leave only the nodes with candidates to a Reservation that must take over a pod."""
        if prepared.problem:
            return None, Status.failed(prepared.problem)
        if not prepared.required:
            return None, SUCCESS
        names = frozenset(map(self._table.name_of, prepared.matches))
        return (names, SUCCESS) if names else (None, Status.unresolvable(NO_POD))

    def filter(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Verdict:
        """Refuse nodes with reservations of another policy, and where taking over pods is not enough."""
        return self._filter.filter(state, prepared, pod, nodes)

    def reasons(self, prepared: Prepared, outcome: FilterOutcome) -> list[str]:
        """Count what was decided about the running pods that the Reservation might take over."""
        return reasons_for(prepared.diagnoses.items(), outcome, has_affinity=False)

    def pre_score(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Status:
        """Choose the running pod that is taken over on every node."""
        if not prepared.is_pre_allocation or prepared.takes_many or not prepared.has_nodes:
            return Status.skip()
        return self._nomination.nominate(state, prepared, nodes.names)

    def score(self, prepared: Prepared, nodes: NodeSet) -> Int64:
        """Prefer nodes whose running pod fills the Reservation best, or where it takes over few pods."""
        return self._nomination.score(prepared, nodes)

    def normalize(self, scores: Int64) -> Int64:
        """Leave scores as they are: they end at 100."""
        return scores

    def nominate(
        self, state: CycleState, prepared: Prepared, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        """Choose the running pods that are taken over."""
        if not prepared.is_pre_allocation:
            return None, SUCCESS
        return None, self._nomination.nominate(state, prepared, [node_name])

    def reserve(self, state: CycleState, prepared: Prepared, pod: Pod, node_name: str) -> Status:
        """Count the Reservation on its node."""
        pods = prepared.nominated_pods.get(node_name, ())
        status = self._commit.take(prepared, node_name, pods)
        if status.is_success and prepared.required and not pods:
            return Status.unschedulable(NOTHING_FITS)
        return status

    def unreserve(self, prepared: Prepared | None, pod: Pod, node_name: str) -> None:
        """Take the Reservation off its node."""
        self._commit.give_back(prepared, pod)
