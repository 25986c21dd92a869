"""Collect the hints of all NUMA hint providers, merge them, and let each provider allocate.

The affinity of every evaluated node is stored in the CycleState: Filter computes it and Reserve reads it.
Source: Koordinator, `pkg/scheduler/frameworkext/topologymanager/manager.go`.
"""

from collections.abc import Iterable, Sequence

from koordpy.api.core import Pod
from koordpy.scheduling.interface import NUMATopologyHint, NUMATopologyHintProvider
from koordpy.scheduling.interface.cycle_state import SCHEDULING_PHASE, CycleState, StateKey
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from .affinities import AffinityStore
from .policy import NOT_EXCLUSIVE, Exclusive, NUMATopologyPolicy, ProviderHints, merge_hints

AFFINITY_STORE: StateKey[AffinityStore] = StateKey("koordinator.sh/topology-affinity-store")


def init_store(state: CycleState) -> None:
    """Start an attempt without any affinity. What-ifs of the same attempt share the store."""
    state.write(AFFINITY_STORE, AffinityStore())


def affinity_of(state: CycleState, node_name: str) -> NUMATopologyHint | None:
    """Return the affinity chosen on a node in this attempt."""
    store = state.read(AFFINITY_STORE)
    return None if store is None else store.get(node_name)


class TopologyManager:
    """Admits pods to nodes with a NUMA topology policy.

    `providers` are the profile's, in their order; the sequence may be filled later.
    """

    def __init__(self, providers: Sequence[NUMATopologyHintProvider]) -> None:
        self._providers = providers

    def admit(
        self,
        state: CycleState,
        pod: Pod,
        node: NodeInfo,
        numa_nodes: Iterable[int],
        policy: NUMATopologyPolicy,
        exclusive: Exclusive = NOT_EXCLUSIVE,
    ) -> Status:
        """Find the affinity of the pod on a node and let every provider allocate within it.

        A stored affinity is reused, but during preemption it is computed again. The
        attempt must have a store (`init_store`), else the status is Error.
        """
        store = state.read(AFFINITY_STORE)
        if store is None:
            return Status.failed(f"reading {AFFINITY_STORE.name!r} of pod {pod.metadata.key}: not found")
        known = store.get(node.name)
        if known is not None and state.read(SCHEDULING_PHASE) != "PostFilter":
            return self._allocate(state, known, pod, node)
        hints, reasons = self._hints(state, pod, node)
        if reasons:
            return Status.unschedulable(*reasons)
        merged = merge_hints(policy, numa_nodes, hints, exclusive, for_admission=True)
        if not merged.admit and merged.reasons:
            return Status.unschedulable(*merged.reasons)
        status = self._allocate(state, merged.hint, pod, node)
        if status.is_success:
            store[node.name] = merged.hint
        return status

    def _hints(self, state: CycleState, pod: Pod, node: NodeInfo) -> tuple[list[ProviderHints], list[str]]:
        hints: list[ProviderHints] = []
        reasons: list[str] = []
        for provider in self._providers:
            offered, status = provider.pod_topology_hints(state, pod, node)
            if status.is_success:
                hints.append(offered)
            else:
                reasons.append(status.message)
        return hints, reasons

    def _allocate(self, state: CycleState, affinity: NUMATopologyHint, pod: Pod, node: NodeInfo) -> Status:
        for provider in self._providers:
            status = provider.allocate(state, affinity, pod, node)
            if not status.is_success:
                return status
        return SUCCESS
