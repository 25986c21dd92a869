"""NodeNUMAResource: pods get CPUs of their own, and amounts of the NUMA nodes of a node.

PreFilter reads which CPUs a pod asks for and by which NUMA policy. Filter refuses nodes that cannot serve it;
on nodes with a NUMA policy it finds, with the other hint providers, the NUMA nodes to take it from. Reserve
allocates from what is free by then, in a ledger that all profiles of a process share, so that no two pods get
the same CPU. PreBind writes what was allocated to the pod.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, ClassVar

import numpy as np

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    APIService,
    Binding,
    ChangeHelps,
    EnqueueExtensions,
    Filter,
    NUMATopologyHint,
    NUMATopologyHintProvider,
    Plugin,
    PreBind,
    PreFilter,
    PreScore,
    ReservationFilter,
    ReservationPairs,
    ReservationPreAllocationRestore,
    ReservationPreBind,
    ReservationRestore,
    Reserve,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import INLINE_BATCH_SCHEDULE
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo, each
from koordpy.scheduling.interface.plan import PLAN, PLANNED_NODE
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import PASS, SUCCESS, Status, Verdict
from koordpy.scheduling.toolkit.restored_nodes import RememberedNodes, RestoredNodes
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT
from koordpy.scheduling.toolkit.topology_manager.manager import init_store

from .admission import Admission
from .all_nodes.arrays import Arrays
from .all_nodes.nodes import AllNodes
from .all_nodes.plain import PlainNodes
from .args import NodeNUMAResourceArgs
from .attempt import pod_state
from .attempt.pod_state import POD_STATE, PodState
from .cases import Case, Cases
from .commit import Commit
from .filter import NodeFilter
from .preemption import move
from .reservations.reusable import (
    NOTHING,
    RESTORED,
    NodeReusable,
    of_reservations_on,
    restore_pods,
    restored_in,
    reusable_on,
)
from .scorer import Scorer
from .scoring import NodeScore
from .service import node_allocations
from .state.columns import CPUColumns
from .state.ledger import CPULedger
from .waking import EVENTS, REASONS

_READ_LABELS = (
    extension.LABEL_POD_QOS,
    extension.LABEL_POD_PRIORITY_CLASS,
    extension.LABEL_PRE_ALLOCATION_REQUIRED,
)
_READ_ANNOTATIONS = (
    extension.ANNOTATION_RESOURCE_SPEC,
    extension.ANNOTATION_NUMA_TOPOLOGY_SPEC,
)
_ALONE = (
    extension.ANNOTATION_SCHEDULING_HINT,
    extension.DEPRECATED_ANNOTATION_SCHEDULING_HINT,
    extension.ANNOTATION_RESERVATION_AFFINITY,
)


class NodeNUMAResource(
    Plugin,
    PreFilter,
    Filter,
    PreScore,
    Score,
    Reserve,
    PreBind,
    ReservationRestore,
    ReservationPreAllocationRestore,
    ReservationFilter,
    ReservationPreBind,
    NUMATopologyHintProvider,
    SignPlugin,
    EnqueueExtensions,
    APIService,
):
    """Allocates CPUs and NUMA resources."""

    name = pod_state.NAME
    args: NodeNUMAResourceArgs
    node_local = True
    known_reasons: ClassVar[tuple[str, ...]] = REASONS

    def __init__(self, args: NodeNUMAResourceArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._default_policy = args.default_cpu_bind_policy
        self.ledger = handle.cluster.shared(CPULedger)
        self._cases = Cases(self.ledger, args.numa_allocate_strategy)
        scorer = Scorer.of(args.scoring_strategy.type, args.scoring_strategy)
        numa_scorer = Scorer.of(args.numa_scoring_strategy.type, args.scoring_strategy)
        columns = handle.cluster.shared(CPUColumns)
        self._arrays = Arrays(columns, self.ledger, numa_scorer, scorer)
        self._all_nodes = AllNodes(handle, self, self._arrays, PlainNodes(columns, scorer))
        self._admission = Admission(handle, self._cases, numa_scorer)
        self._commit = Commit(handle, self.ledger, self._admission)
        self._restored = RememberedNodes(
            "numa_of_reservations",
            self.ledger.version,
            partial(of_reservations_on, self.ledger),
            size=NodeReusable.size,
            own=NodeReusable.own,
        )
        self._filter = NodeFilter(self._admission, self._commit)
        self._score = NodeScore(handle, scorer)
        handle.on_forget(lambda pod, node_name: self.ledger.release(node_name, pod.metadata.uid))

    def _case(self, state: PodState, pod: Pod, node: NodeInfo) -> Case:
        return self._cases.of(pod, state, node.node)

    def _node(self, name: str) -> NodeInfo | None:
        nodes, missing = self.handle.nodes.select([name])
        return None if missing else NodeInfo(nodes, 0)

    # --- filter ----------------------------------------------------------------------------------

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Sign pods with what is read of them besides their spec; none with a hint or a reservation."""
        labels, annotations = pod.metadata.labels, pod.metadata.annotations
        if is_reserve_pod(pod) or any(name in annotations for name in _ALONE):
            return None
        if labels.get(extension.LABEL_RESERVATION_IGNORED) == "true":
            return None
        return (
            tuple(labels.get(name) for name in _READ_LABELS),
            tuple(annotations.get(name) for name in _READ_ANNOTATIONS),
            pod.status.qos_class,
        )

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Read what the pod asks for."""
        hint = state.read(SCHEDULING_HINT)
        is_designated = hint is not None and self.name in hint.extensions
        if is_designated and self.handle.gates.enabled(INLINE_BATCH_SCHEDULE):
            # Pods of a job that is planned as a whole get what is free, as in Koordinator.
            is_designated = state.read(PLAN) is None and state.read(PLANNED_NODE) is None
        parsed, status = pod_state.parse(pod, self._default_policy, is_designated=is_designated)
        if status.is_success or status.is_skip:
            state.write(POD_STATE, parsed)
        if status.is_success:
            init_store(state)
        return None, status

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Count the CPUs and amounts of a pod in a preemption dry run."""
        return self._move(state, added, node, removed=False)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Give back the CPUs and amounts of a pod in a preemption dry run."""
        return self._move(state, removed, node, removed=True)

    def _move(self, state: CycleState, moved: Pod, node: NodeInfo, *, removed: bool) -> Status:
        found, status = pod_state.read(state)
        if status.is_success and not found.is_skipped:
            move(found, moved, node.name, self.handle, self.ledger, removed=removed)
        return status

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Refuse nodes that cannot serve what the pod asks for."""
        found, status = pod_state.read(state)
        if not status.is_success:
            return Verdict.of([status] * len(nodes))
        if found.is_skipped:
            return PASS
        if found.designated is not None:
            return Verdict.of([self._filter_one(state, found, pod, node) for node in each(nodes)])
        return self._all_nodes.filter(state, found, pod, nodes, partial(self._filter_one, state, found, pod))

    def _filter_one(self, state: CycleState, found: PodState, pod: Pod, node: NodeInfo) -> Status:
        return self._filter.filter(state, self._case(found, pod, node), node)

    # --- reservations ----------------------------------------------------------------------------

    def pre_restore_reservation(self, state: CycleState, pod: Pod) -> Status:
        """Begin without reservations."""
        state.write(RESTORED, RestoredNodes())
        return SUCCESS

    def restore_reservations(
        self, state: CycleState, pod: Pod, matched: ReservationPairs, unmatched: ReservationPairs
    ) -> tuple[Mapping[str, object], Status]:
        """Find what the reservations of nodes hold, once it is asked for."""
        state.write(RESTORED, RestoredNodes.of_pairs(matched, unmatched, self._restored))
        return {}, SUCCESS

    def final_restore_reservation(self, state: CycleState, pod: Pod, states: Mapping[str, object]) -> Status:
        """Nothing is left to do: what is restored is in the state."""
        return SUCCESS

    def pre_restore_reservation_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo
    ) -> Status:
        """Begin without pods to take over; what reservations hold stays."""
        state.write(RESTORED, restored_in(state))
        return SUCCESS

    def restore_reservation_pre_allocation(
        self, state: CycleState, reservation: ReservationInfo, pods: Sequence[Pod], node: NodeInfo
    ) -> tuple[object, Status]:
        """Find what the pods of a node hold that the Reservation may take over."""
        return restore_pods(state, reservation, pods, node.name, self.ledger), SUCCESS

    def filter_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Refuse none: Filter considers all reservations of a node."""
        return PASS

    def filter_nominate_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Do the same for all pairs: by arrays where these know that they are accepted."""
        found, status = pod_state.read(state)
        if not status.is_success or found.is_skipped or found.designated is not None or not len(pairs):
            return super().filter_nominate_reservations(state, pairs)
        others = np.flatnonzero(~self._all_nodes.accepts(state, found, pairs))
        if not len(others):
            return PASS
        left = super().filter_nominate_reservations(state, pairs.pick(others))
        return left.spread(others, len(pairs))

    def filter_nominate_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> Status:
        """Return whether the pod gets its CPUs and NUMA resources of a reservation."""
        found, status = pod_state.read(state)
        if not status.is_success or found.is_skipped:
            return status
        node = self._node(node_name)
        if node is None:
            raise LookupError(f"node {node_name} is gone")
        return self._filter.filter_nominate(state, self._case(found, pod, node), pod, reservation)

    # --- score -----------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Skip pods that request nothing."""
        found, status = pod_state.read(state)
        return Status.skip() if status.is_success and found.is_skipped else status

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Score nodes by utilization, or by that of the NUMA nodes that the pod would get."""
        found, status = pod_state.read(state)
        if not status.is_success:
            raise RuntimeError(status.message)
        if found.is_skipped:
            return np.zeros(len(nodes), np.int64)
        return self._all_nodes.score(state, found, pod, nodes, partial(self._score_one, state, found, pod))

    def _score_one(self, state: CycleState, found: PodState, pod: Pod, node: NodeInfo) -> int:
        return self._score.score(state, self._case(found, pod, node), node)

    # --- the hint provider -----------------------------------------------------------------------

    def pod_topology_hints(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> tuple[Mapping[str, Sequence[NUMATopologyHint] | None], Status]:
        """Return the sets of NUMA nodes that can serve the pod."""
        found, status = pod_state.read(state)
        is_special = reusable_on(state, node.name) is not NOTHING or node.name in found.preemptible
        if status.is_success and found.designated is None and not is_special:
            known = self._arrays.hints(found, node.alone().nodes)
            if known is not None:
                return known, SUCCESS
        return self._admission.pod_topology_hints(state, pod, node)

    def allocate(self, state: CycleState, affinity: NUMATopologyHint, pod: Pod, node: NodeInfo) -> Status:
        """Return whether NUMA nodes can serve the pod."""
        return self._admission.allocate(state, affinity, pod, node)

    # --- commit ----------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Allocate."""
        found, status = pod_state.read(state)
        if not status.is_success or found.is_skipped:
            return status
        node = self._node(node_name)
        if node is None:
            return Status.failed(f'getting node "{node_name}" from Snapshot: not found')
        return self._commit.reserve(state, self._case(found, pod, node), node)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Release."""
        found, _ = pod_state.read(state)
        self._commit.unreserve(found, pod, node_name)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Write what was allocated to the pod."""
        return self._annotate(state, pod, pod.metadata.annotations, node_name, binding)

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        """Write what was allocated to the Reservation."""
        return self._annotate(state, reservation.pod, reservation.meta.annotations, node_name, binding)

    def _annotate(
        self, state: CycleState, pod: Pod, annotations: Mapping[str, str], node_name: str, binding: Binding
    ) -> Status:
        found, status = pod_state.read(state)
        if not status.is_success:
            return status
        if found.is_skipped or found.allocation is None:
            self._commit.disclaim(pod, binding)
            return SUCCESS
        node = self._node(node_name)
        if node is None:
            return Status.failed(f'getting node "{node_name}" from Snapshot: not found')
        return self._commit.annotate(self._case(found, pod, node), annotations, binding)

    # --- outside the cycle -----------------------------------------------------------------------

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """Pods that release CPUs or NUMA resources, and NodeResourceTopologies that change."""
        return EVENTS

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """Return the endpoint of a node."""
        return {"nodes/{node_name}": self._describe}

    def _describe(self, node_name: str) -> dict[str, Any]:
        node = self._node(node_name)
        if node is None:
            raise LookupError(f'node "{node_name}" not found')
        return node_allocations(self.ledger, node.node)
