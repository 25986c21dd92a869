"""The NUMA nodes that a pod gets on a node with a NUMA policy.

All plugins that provide NUMA hints take part. The affinity is found when the node is filtered (with
BestEffort: in Reserve) and kept for the attempt. Source: Koordinator,
`pkg/scheduler/plugins/nodenumaresource/topology_hint.go`.
"""

from collections.abc import Mapping, Sequence
from typing import Final

from koordpy.api.core import Pod
from koordpy.scheduling.interface import NUMATopologyHint, NUMATopologyHintProvider
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager.manager import AFFINITY_STORE, TopologyManager, affinity_of
from koordpy.scheduling.toolkit.topology_manager.policy import Exclusive, NUMATopologyPolicy

from .allocation.allocate import allocate_from_node
from .attempt import node_policies, pod_state
from .cases import Case, Cases
from .hints import NoHints, topology_hints
from .reservations.allocate import allocate_reusable
from .reservations.reusable import reusable_on
from .scorer import Scorer
from .state.node_allocation import NodeAllocation
from .topology.cpu_topology import InvalidTopology

MISSING_NUMA_RESOURCES: Final = "node(s) missing NUMA resources"
INSUFFICIENT_NUMA_RESOURCES: Final = "node(s) Insufficient NUMA Node resources"
_NONE_HELD: Final = NodeAllocation()


class Admission(NUMATopologyHintProvider):
    """Admits pods to NUMA nodes, and is the hint provider for cpu, memory and other amounts of NUMA nodes."""

    def __init__(self, handle: Handle, cases: Cases, scorer: Scorer) -> None:
        self._handle, self._cases, self._scorer = handle, cases, scorer

    def admit(self, state: CycleState, case: Case, node: NodeInfo) -> Status:
        """Find the NUMA nodes for a pod, by the NUMA policy that holds."""
        numa_nodes = case.options.numa_nodes
        if not numa_nodes:
            return Status.unresolvable(MISSING_NUMA_RESOURCES)
        policy = node_policies.known_policy(case.numa)
        if policy is None:
            return Status.unresolvable(f"unknown NUMA Topology policy {case.numa!r}")
        held = _NONE_HELD if case.held is None else case.held
        exclusive = Exclusive(node_policies.exclusive_of(case.state), held.numa_status(len(numa_nodes)))
        manager = TopologyManager(self._handle.framework.numa_hint_providers)
        try:
            return manager.admit(state, case.pod, node, numa_nodes, policy, exclusive)
        except ValueError as error:  # the id of a NUMA node is out of range
            return Status.unresolvable(str(error))

    def admit_filtered(self, state: CycleState, case: Case, node: NodeInfo) -> Status:
        """Do so in Filter: an affinity is found again once pods of the node, or the node, have changed.

        Pods of a job share an attempt's state, and a later one is placed on what an earlier one has left.
        """
        here = node.alone().nodes
        store = state.read(AFFINITY_STORE)
        if store is not None and not case.state.admitted_at.hold(here).all():
            store.pop(node.name, None)
        status = self.admit(state, case, node)
        if status.is_success:
            case.state.admitted_at.mark(here)
        return status

    def admit_reserved(self, state: CycleState, case: Case, node: NodeInfo) -> Status:
        """Do so in Reserve, if the policy leaves it to Reserve or no filter has found an affinity."""
        policy = case.numa
        if policy == NUMATopologyPolicy.NONE:
            return SUCCESS
        if policy != NUMATopologyPolicy.BEST_EFFORT and affinity_of(state, node.name) is not None:
            return SUCCESS
        return self.admit(state, case, node)

    # --- the hint provider -----------------------------------------------------------------------

    def pod_topology_hints(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> tuple[Mapping[str, Sequence[NUMATopologyHint] | None], Status]:
        """Return the sets of NUMA nodes that can serve what the pod requests."""
        found, status = pod_state.read(state)
        if not status.is_success:
            return {}, status
        case = self._cases.of(pod, found, node.node)
        bind, status = case.binds()
        if not status.is_success:
            return {}, status
        try:
            request = case.request(bind=bind)
        except ValueError as error:
            return {}, Status.failed(error)
        try:
            reusable = reusable_on(state, node.name)
            return topology_hints(request, reusable, case.numa, self._scorer, pod), SUCCESS
        except (NoHints, InvalidTopology):
            return {}, Status.unschedulable(INSUFFICIENT_NUMA_RESOURCES)

    def allocate(self, state: CycleState, affinity: NUMATopologyHint, pod: Pod, node: NodeInfo) -> Status:
        """Return whether the pod can be served by these NUMA nodes."""
        found, status = pod_state.read(state)
        if not status.is_success:
            return status
        case = self._cases.of(pod, found, node.node)
        bind, status = case.binds()
        if not status.is_success:
            return status
        return try_out(state, case, bind=bind, affinity=affinity)


def try_out(state: CycleState, case: Case, *, bind: bool, affinity: NUMATopologyHint | None = None) -> Status:
    """Return whether a pod can get what it requests from any matched reservation, or else from the node."""
    try:
        request = case.request(bind=bind, affinity=affinity)
    except ValueError as error:
        return Status.unresolvable(str(error))
    reusable = reusable_on(state, case.node.metadata.name)
    found, status = allocate_reusable(request, reusable, reusable.matched, case.pod)
    if status.is_success and found is None:
        _, status = allocate_from_node(request, reusable.owners_use)
    return status
