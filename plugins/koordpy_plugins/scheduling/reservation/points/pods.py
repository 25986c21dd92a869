"""The extension points for pods: they use reservations of which they are owners."""

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict

from ..attempt.pod_preparation import PodPreparation
from ..attempt.prepared import Prepared
from ..commit.pods import PodCommit
from ..explain.reasons import reasons_for
from ..filter.node import NO_MATCH
from ..filter.pods import PodFilter
from ..fit import scoring
from ..nomination.nominator import Nominator
from ..nomination.pods import PodNomination
from ..state.nominations import Nominations
from .points import Points


class PodPoints(Points):
    """For the pods of one profile."""

    def __init__(
        self,
        table: NodeTable,
        nominations: Nominations,
        *,
        preparation: PodPreparation,
        pod_filter: PodFilter,
        nomination: PodNomination,
        nominator: Nominator,
        commit: PodCommit,
    ) -> None:
        self._table, self._nominations = table, nominations
        self._preparation, self._filter = preparation, pod_filter
        self._nomination, self._nominator, self._commit = nomination, nominator, commit

    def prepare(self, state: CycleState, pod: Pod) -> tuple[Prepared | None, Status]:
        """Find the reservations that are for the pod."""
        return self._preparation.prepare(state, pod)

    def pre_filter(self, prepared: Prepared) -> tuple[frozenset[str] | None, Status]:
        """Leave only the nodes with matched reservations to a pod that must use one."""
        if prepared.requirements.affinity is None:
            return None, SUCCESS if prepared.has_nodes else Status.skip()
        names = frozenset(map(self._table.name_of, prepared.matches))
        return (names, SUCCESS) if names else (None, Status.unresolvable(NO_MATCH))

    def filter(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Verdict:
        """Refuse nodes where the pod fits into no matched reservation."""
        return self._filter.filter(state, prepared, pod, nodes)

    def reasons(self, prepared: Prepared, outcome: FilterOutcome) -> list[str]:
        """Count what was decided about the reservations of which the pod is an owner."""
        diagnoses = self._preparation.diagnose(prepared)
        return reasons_for(diagnoses, outcome, has_affinity=prepared.requirements.affinity is not None)

    def pre_score(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Status:
        """Nominate a reservation on every node that has one for the pod."""
        if prepared.requirements.ignores_reservations or not prepared.has_nodes:
            return Status.skip()
        return self._nomination.nominate_all(state, prepared, pod, nodes)

    def score(self, prepared: Prepared, nodes: NodeSet) -> Int64:
        """Prefer nodes whose reservation the pod fills best; one that goes before all others wins."""
        return self._nomination.score(prepared, nodes)

    def normalize(self, scores: Int64) -> Int64:
        """Bring the highest score to 100."""
        return scoring.normalize(scores)

    def nominate(
        self, state: CycleState, prepared: Prepared, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        """Choose a reservation, and remember the choice for the pod's next attempt."""
        if prepared.requirements.ignores_reservations:
            return None, SUCCESS
        row = self._table.row_of(node_name)
        info, status = self._nominator.for_pod(state, prepared, pod, row, node_name)
        if not status.is_success:
            return None, status
        if info is None:
            required = prepared.requirements.affinity is not None
            return None, Status.unschedulable(NO_MATCH) if required else SUCCESS
        self._nominations.add(pod, node_name, info)
        return info, SUCCESS

    def reserve(self, state: CycleState, prepared: Prepared, pod: Pod, node_name: str) -> Status:
        """Count the pod in its reservation."""
        info, status = self.nominate(state, prepared, pod, node_name)
        return status if info is None else self._commit.take(prepared, pod, info)

    def unreserve(self, prepared: Prepared | None, pod: Pod, node_name: str) -> None:
        """Take the pod out of its reservation."""
        if prepared is not None:
            self._commit.give_back(prepared, pod)
