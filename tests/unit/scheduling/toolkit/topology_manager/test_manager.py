"""Admitting pods to nodes with a NUMA topology policy."""

from collections.abc import Mapping, Sequence

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface import NUMATopologyHint, NUMATopologyHintProvider
from koordpy.scheduling.interface.cycle_state import SCHEDULING_PHASE, CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.toolkit.topology_manager.manager import TopologyManager, affinity_of, init_store
from koordpy.scheduling.toolkit.topology_manager.policy import NUMATopologyPolicy

HINTS = [NUMATopologyHint(1, True, score=1), NUMATopologyHint(2, True, score=5)]
RESTRICTED = NUMATopologyPolicy.RESTRICTED


class Provider(NUMATopologyHintProvider):
    """Provides the given hints and records requested allocations."""

    def __init__(
        self,
        hints: Sequence[NUMATopologyHint] | None = HINTS,
        *,
        offers: Status = SUCCESS,
        allocates: Status = SUCCESS,
    ) -> None:
        self.hints, self.offers, self.allocates = hints, offers, allocates
        self.asked = 0
        self.allocated: list[NUMATopologyHint] = []

    def pod_topology_hints(
        self, state: CycleState, pod: Pod, node: NodeInfo
    ) -> tuple[Mapping[str, Sequence[NUMATopologyHint] | None], Status]:
        self.asked += 1
        return {"cpu": self.hints}, self.offers

    def allocate(self, state: CycleState, affinity: NUMATopologyHint, pod: Pod, node: NodeInfo) -> Status:
        self.allocated.append(affinity)
        return self.allocates


POD = decode(Pod, {"metadata": {"name": "p", "namespace": "d", "uid": "uid-p"}})


def node_info() -> NodeInfo:
    cluster = Cluster()
    table = cluster.nodes
    cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n"}}))
    return NodeInfo(table.all(), 0)


def fresh_state() -> CycleState:
    state = CycleState()
    init_store(state)
    return state


def admit(state: CycleState, *providers: Provider) -> Status:
    return TopologyManager(providers).admit(state, POD, node_info(), [0, 1], RESTRICTED)


def test_the_best_hint_is_allocated_and_kept() -> None:
    state, first, second = fresh_state(), Provider(), Provider(None)
    assert admit(state, first, second).is_success
    assert first.allocated == second.allocated == [NUMATopologyHint(2, True, score=5)]
    assert affinity_of(state, "n") == NUMATopologyHint(2, True, score=5)


def test_a_kept_affinity_is_used_again_also_in_a_what_if() -> None:
    state, provider = fresh_state(), Provider()
    admit(state, provider)
    admit(state.clone(), provider)
    assert provider.asked == 1
    assert len(provider.allocated) == 2


def test_during_preemption_the_affinity_is_computed_again() -> None:
    state, provider = fresh_state(), Provider()
    admit(state, provider)
    state.write(SCHEDULING_PHASE, "PostFilter")
    provider.hints = HINTS[:1]
    admit(state, provider)
    assert affinity_of(state, "n") == HINTS[0]


def test_rejections_of_providers_are_unschedulable_with_all_messages() -> None:
    failing = Provider(offers=Status.failed("no topology"))
    lacking = Provider(offers=Status.unresolvable("a", "b"))
    status = admit(fresh_state(), failing, Provider(), lacking)
    assert status == Status.unschedulable("no topology", "a, b")


def test_a_rejection_by_the_policy_is_unschedulable_and_nothing_is_allocated() -> None:
    provider = Provider([])
    status = admit(fresh_state(), provider)
    assert status == Status.unschedulable("Unsatisfied NUMA cpu")
    assert not provider.allocated


def test_the_first_allocation_that_fails_is_the_answer_and_nothing_is_kept() -> None:
    state, last = fresh_state(), Provider()
    status = admit(state, Provider(allocates=Status.unresolvable("taken")), last)
    assert status == Status.unresolvable("taken")
    assert not last.allocated
    assert affinity_of(state, "n") is None


def test_an_attempt_without_a_store_is_an_error() -> None:
    status = admit(CycleState(), Provider())
    assert status.code is Code.ERROR
    assert status.message.endswith("not found")
