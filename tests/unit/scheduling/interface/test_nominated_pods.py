"""Nominated pods count on their node against less important ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Pod
from koordpy.api.extension import ANNOTATION_RESERVE_POD
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Filter, Plugin, PreFilter
from koordpy.scheduling.interface.cycle_state import NOMINATED_PODS_TO_IGNORE, CycleState
from koordpy.scheduling.interface.gates import scheduling_gates
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.nominator import Nominator
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.interface.waiting_pods import WaitingPods
from tests.unit.scheduling.worlds import framework, node, pod, world


class Fits(Plugin, Filter):
    """Pods of 1 CPU need 1 CPU."""

    name = "Fits"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        free = node.allocatable("cpu") - node.requested("cpu")
        return SUCCESS if free >= 1000 else Status.unschedulable("full")


class NeedsCompany(Plugin, Filter):
    name = "NeedsCompany"

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        return SUCCESS if node.pods else Status.unschedulable("lonely")


def nominated(name: str, to: str, cpu: str = "1", priority: int = 5, **spec: str) -> Pod:
    return pod(name, cpu=cpu, priority=priority, status={"nominatedNodeName": to}, **spec)


def looked_at(fw: Framework, incoming: Pod, ignored: frozenset[str] = frozenset()) -> FilterOutcome:
    state = fw.new_state()
    state.write(NOMINATED_PODS_TO_IGNORE, ignored)
    return fw.find_feasible(state, incoming, fw.handle.nodes.all())


@pytest.mark.parametrize(
    ("now", "is_nominated"),
    [
        (None, False),
        (pod("p", uid="uid-of-another"), False),
        (pod("p", status={"phase": "Failed"}), False),
        (pod("p", node_name="a"), False),
        (pod("p"), True),
    ],
    ids=["deleted", "replaced", "ended", "bound", "pending"],
)
def test_a_pod_is_not_nominated_after_a_wait_in_which_it_has_gone(
    now: Pod | None, is_nominated: bool
) -> None:
    cluster = world([node("a")], [pod("p")])
    nominator = cluster.shared(Nominator)
    if now is None:
        cluster.store(Pod).discard("default/p")
    else:
        cluster.store(Pod).apply(now)
    nominator.add_if_pending(pod("p"), "a")
    assert bool(nominator) is is_nominated


def test_a_reserve_pod_is_nominated_though_it_is_no_pod_of_the_cluster() -> None:
    nominator = world([node("a")]).shared(Nominator)
    reserve_pod = pod("r")
    reserve_pod.metadata.annotations[ANNOTATION_RESERVE_POD] = "true"
    nominator.add_if_pending(reserve_pod, "a")
    assert nominator.node_of("uid-r") == "a"


def test_pods_of_the_same_job_do_not_count() -> None:
    cluster = world([node("a", cpu="1")])
    fw = framework(cluster, Fits)
    cluster.store(Pod).apply(nominated("n", "a"))
    assert not looked_at(fw, pod("p", priority=5)).feasible.any()
    assert looked_at(fw, pod("p", priority=5), frozenset(("uid-n",))).feasible.all()


def test_only_their_own_node_is_concerned_and_the_reasons_are_those_with_them() -> None:
    cluster = world([node(name, cpu="2") for name in "abc"])
    fw = framework(cluster, Fits)
    cluster.store(Pod).apply(nominated("one", "a", cpu="2"))
    cluster.store(Pod).apply(nominated("two", "c", cpu="2"))
    cluster.store(Pod).apply(nominated("three", "nowhere", cpu="2"))
    outcome = looked_at(fw, pod("p", priority=5))
    assert outcome.kept.names == ["b"]
    assert [outcome.status(index).message for index in (0, 2)] == ["full", "full"]


@pytest.mark.parametrize(("gate", "fits"), [(False, False), (True, True)])
def test_with_a_gate_nodes_that_fit_with_them_are_not_filtered_without(gate: bool, fits: bool) -> None:
    gates = scheduling_gates()
    gates.set({"SkipFilterWithNominatedPods": gate})
    cluster = world([node("a")])
    handle = Handle(cluster)
    plugin = NeedsCompany(NeedsCompany.args_type(), handle)
    fw = Framework("default-scheduler", [plugin], {"filter": [plugin]}, {}, handle, gates=gates)
    cluster.store(Pod).apply(nominated("n", "a"))
    assert looked_at(fw, pod("p")).feasible.all() == fits


def test_a_plugin_that_fails_to_add_them_fails_the_attempt() -> None:
    class Confused(Plugin, PreFilter):
        name = "Confused"

        def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[None, Status]:
            return None, SUCCESS

        def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
            return Status.failed(f"who is {added.metadata.name}?")

    cluster = world([node("a")])
    fw = framework(cluster, Confused)
    cluster.store(Pod).apply(nominated("n", "a"))
    error = looked_at(fw, pod("p")).error
    assert error is not None
    assert (error.code, error.plugin) == (Code.ERROR, "Confused")
    assert error.message == 'running AddPod on PreFilter plugin "Confused": who is n?'


promises = st.lists(
    st.tuples(
        st.sampled_from("abcd"), st.integers(1, 3), st.integers(3, 7), st.sampled_from(["", "elsewhere"])
    ),
    max_size=8,
)


@given(promises, st.booleans(), st.lists(st.integers(0, 4), min_size=4, max_size=4))
def test_a_node_passes_when_it_passes_with_those_that_count(
    given_promises: list[tuple[str, int, int, str]], gate: bool, used: list[int]
) -> None:
    gates = scheduling_gates()
    gates.set({"CrossSchedulerNomination": gate})
    cluster = world(
        [node(name, cpu="4") for name in "abcd"],
        [pod(f"on-{name}", cpu=str(cpu), node_name=name) for name, cpu in zip("abcd", used, strict=True)],
    )
    handle = Handle(cluster)
    plugin = Fits(Fits.args_type(), handle)
    fw = Framework("default-scheduler", [plugin], {"filter": [plugin]}, {}, handle, gates=gates)
    taken = dict(zip("abcd", used, strict=True))
    for index, (name, cpu, priority, scheduler) in enumerate(given_promises):
        cluster.store(Pod).apply(nominated(f"n{index}", name, str(cpu), priority, schedulerName=scheduler))
        if priority > 5 if scheduler else priority >= 5:
            taken[name] += cpu if gate or not scheduler else 0
    outcome = looked_at(fw, pod("p", priority=5))
    expected = np.array([taken[name] < 4 for name in outcome.nodes.names])
    assert np.array_equal(outcome.feasible, expected)


# --- the nominator -------------------------------------------------------------------------------


def names_on(nominator: Nominator, node_name: str) -> list[str]:
    return [pod.metadata.name for pod in nominator.pods_on(node_name)]


def test_nominations_follow_the_api_server() -> None:
    cluster = world([])
    nominator = cluster.shared(Nominator)
    pods = cluster.store(Pod)
    pods.apply(nominated("p", "a"))
    assert names_on(nominator, "a") == ["p"]
    pods.apply(nominated("p", "b"))
    assert (names_on(nominator, "a"), names_on(nominator, "b")) == ([], ["p"])
    pods.apply(pod("p"))
    assert not nominator
    pods.apply(nominated("p", "b"))
    pods.apply(pod("p", node_name="b", status={"nominatedNodeName": "b"}))
    assert not nominator
    pods.apply(nominated("q", "b"))
    pods.discard("default/q")
    assert not nominator


def test_a_local_nomination_stands_until_the_api_server_has_it() -> None:
    cluster = world([], [pod("p")])
    nominator = cluster.shared(Nominator)
    nominator.add(pod("p"), "a")
    cluster.store(Pod).apply(pod("p", cpu="2"))
    assert [each.spec.containers[0].resources.requests["cpu"] for each in nominator.pods_on("a")] == ["2"]
    cluster.store(Pod).apply(nominated("p", "b"))
    assert (names_on(nominator, "a"), names_on(nominator, "b")) == ([], ["p"])
    cluster.store(Pod).apply(pod("p"))
    assert not nominator


def test_a_bound_pod_loses_a_local_nomination() -> None:
    cluster = world([], [pod("p")])
    nominator = cluster.shared(Nominator)
    nominator.add(pod("p"), "a")
    cluster.store(Pod).apply(pod("p", node_name="b"))
    assert not nominator


def test_the_handles_of_a_process_share_nominations_and_waiting_pods() -> None:
    cluster = world([])
    nominator, waiting_pods = cluster.shared(Nominator), WaitingPods()
    handle = Handle(cluster, waiting_pods=waiting_pods)
    for each in (handle, handle.sibling()):
        assert each.nominator is nominator
        assert each.waiting_pods is waiting_pods
