"""Before PreFilter of a reserve pod: its Reservation, and the running pods that it may take over.

Source: Koordinator, `pkg/scheduler/plugins/reservation/transformer.go`.
"""

from collections.abc import Mapping, Sequence

import numpy as np

from koordpy.api.core import Node, Pod
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import RESTRICTED, Reservation, validate
from koordpy.api.reserve_pod import reservation_name_of
from koordpy.api.resources import counted, pod_request_vector
from koordpy.api.scheme import DecodeError
from koordpy.scheduling.interface.gates import OMIT_NODE_LABELS_FOR_RESERVATION
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.node_memo import MemoCache

from ..args import PreAllocationConfig
from ..state.pre_allocatable import PreAllocatablePods, is_free
from ..state.withheld import Withheld
from .candidate_nodes import CandidateNodes, ConflictingTerms, specific_nodes
from .diagnosis import Diagnosis
from .matches import Matches, NodeMatch
from .matching import USABLE, Decision, decide_for_owner
from .pod_preparation import CONFLICT
from .prepared import Prepared
from .requirements import PodRequirements

UNSUPPORTED = "node(s) reservation pre allocation is unsupported with current attributes"
NO_CLUSTER_MODE = "reservation requires cluster mode pre-allocation which is disabled"


class ReservePodPreparation:
    """Prepares the attempts of reserve pods for one profile."""

    def __init__(self, handle: Handle, withheld: Withheld, config: PreAllocationConfig) -> None:
        self._handle, self._table, self._withheld = handle, handle.nodes, withheld
        self._cluster_mode = config.enable_cluster_mode
        self._reservations = handle.cluster.store(Reservation)
        self._pods = handle.cluster.store(Pod)
        self._pre_allocatable = PreAllocatablePods(config, self._pods)
        self._selected = MemoCache(handle.nodes, np.bool_)

    def prepare(self, pod: Pod) -> tuple[Prepared | None, Status]:
        """Find what decides where a Reservation goes; None with the reason to stop."""
        name = reservation_name_of(pod)
        reservation = self._reservations.get("", name)
        try:
            requirements = PodRequirements(pod, counted(pod_request_vector(pod)))
            info = None if reservation is None else ReservationInfo(reservation)
        except QuantityError as error:
            return None, Status.failed(error)
        try:
            candidate_nodes = CandidateNodes(pod, None, specific_nodes(pod))
        except ConflictingTerms:
            return None, Status.unresolvable(CONFLICT)
        prepared = Prepared(requirements, Matches(self._withheld.matchable), reservation=info)
        if reservation is None or info is None:
            prepared.problem = f'cannot get reservation, err: reservation "{name}" not found'
        else:
            prepared.problem = validate(reservation)
        if info is not None and prepared.is_pre_allocation:
            status = self._check_pre_allocation(info)
            if not status.is_success:
                return None, status
            self._find_candidates(prepared, info, candidate_nodes)
        self._choose_restored(prepared, candidate_nodes)
        return prepared, SUCCESS

    def _check_pre_allocation(self, info: ReservationInfo) -> Status:
        reservation = info.reservation
        assert reservation is not None
        if info.policy != RESTRICTED:
            return Status.unresolvable(UNSUPPORTED)
        if info.parse_error:
            return Status.unresolvable(info.parse_error)
        if reservation.uses_cluster_mode and not self._cluster_mode:
            return Status.unresolvable(NO_CLUSTER_MODE)
        return SUCCESS

    def _choose_restored(self, prepared: Prepared, candidate_nodes: CandidateNodes) -> None:
        """Note on which nodes other reservations or pods make a difference to a Reservation's attempt."""
        candidates = prepared.matches.mask(self._table.capacity)
        if prepared.required:
            prepared.restored = candidates
        else:
            restored = self._withheld.allocated.copy()
            if not candidate_nodes.everywhere:
                restored &= candidate_nodes.rows(self._table, self._selected)
            if prepared.restored is not None:
                restored |= prepared.restored & self._withheld.has_matchable
            prepared.restored = restored | candidates
        prepared.has_nodes = bool((prepared.restored & self._table.present).any())

    # --- running pods to be taken over -----------------------------------------------------------

    def _find_candidates(
        self, prepared: Prepared, info: ReservationInfo, candidate_nodes: CandidateNodes
    ) -> None:
        """Find the pods that a Reservation may take over, by node; in cluster mode by their priority."""
        reservation = info.reservation
        assert reservation is not None
        matches: dict[int, NodeMatch] = {}
        listed = prepared.restored = np.zeros(self._table.capacity, np.bool_)
        for node_name, pods in self._free_pods(info, cluster_mode=reservation.uses_cluster_mode).items():
            row = self._table.row_of(node_name)
            node = None if row is None else self._table.node(row)
            if row is None or node is None or not pods or not candidate_nodes.include(node):
                continue
            listed[row] = True
            diagnosis = prepared.diagnoses[node_name] = Diagnosis()
            accepted = [
                pod
                for pod in pods
                if (reservation.uses_cluster_mode or info.has_owner(pod))
                and self._decide(pod, info, node, diagnosis) in USABLE
            ]
            if accepted:
                matches[row] = NodeMatch(node_name, candidates=accepted)
        prepared.matches = Matches(self._withheld.matchable, candidates=matches)

    def _free_pods(self, info: ReservationInfo, *, cluster_mode: bool) -> Mapping[str, Sequence[Pod]]:
        """Return the pods that a Reservation selects, by node: by label in cluster mode, else as owners."""
        if cluster_mode:
            marked = self._pre_allocatable
            return {node_name: list(marked.on(node_name)) for node_name in marked.node_names}
        found: dict[str, list[Pod]] = {}
        selected = [pod for pod in self._pods if is_free(pod) and info.owners.selects(pod)]
        for pod in sorted(selected, key=lambda pod: (pod.metadata.name, pod.metadata.uid)):
            found.setdefault(pod.spec.node_name, []).append(pod)
        return found

    def _decide(self, pod: Pod, info: ReservationInfo, node: Node, diagnosis: Diagnosis) -> Decision:
        """Return whether a running pod could itself use the Reservation, and count it."""
        try:
            requirements = PodRequirements.of(pod)
        except (DecodeError, QuantityError):
            diagnosis.count_error()
            return Decision.ERROR
        decision = decide_for_owner(
            requirements,
            info,
            node,
            omit_node_labels=self._handle.gates.enabled(OMIT_NODE_LABELS_FOR_RESERVATION),
            may_be_unschedulable=True,
        )
        if decision is Decision.NAME_MATCHED:
            decision = Decision.MATCHED  # that it is named is no reason to report
        diagnosis.count(decision, requirements, info)
        return decision
