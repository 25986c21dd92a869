"""NodeNUMAResource in cycles of real profiles: what pods get, when they are refused, and what is released."""

import asyncio
import json
from typing import Any

import pytest

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.reservation import Reservation
from koordpy.api.resource_status import ResourceStatus
from koordpy.api.resource_status import of as status_of
from koordpy.api.scheme import decode, encode
from koordpy.lib import cpuset
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import INLINE_BATCH_SCHEDULE, SPECS
from koordpy.scheduling.interface.plan import PLANNED_NODE
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import Code
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT, SchedulingHintState
from koordpy.scheduling.toolkit.topology_manager.manager import affinity_of
from koordpy_plugins.scheduling.nodenumaresource.attempt import pod_state
from koordpy_plugins.scheduling.nodenumaresource.reservations.reusable import (
    NodeReusable,
    restored_in,
    reusable_on,
)
from koordpy_plugins.scheduling.nodenumaresource.waking import EVENTS

from .numa_world import (
    allocated,
    bound_pod,
    cluster_of,
    filtered,
    profile,
    reserved,
    spec,
    topology,
    written,
)

SINGLE = {extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}
FULL = {extension.LABEL_NODE_CPU_BIND_POLICY: "FullPCPUsOnly"}


def test_a_pod_gets_whole_cores_and_is_told_by_its_annotations() -> None:
    made, plugin = profile(cluster_of("a"))
    pod = bound_pod("p", "4")
    state, status = reserved(made, pod)
    assert status.is_success
    annotations = written(plugin, state, pod)
    assert status_of(annotations).cpuset == "0-3"
    assert annotations[extension.ANNOTATION_RESOURCE_SPEC] == '{"preferredCPUBindPolicy":"FullPCPUs"}'


def test_profiles_share_what_is_allocated_so_that_no_two_pods_get_a_cpu() -> None:
    cluster = cluster_of("a")
    profiles = [profile(cluster), profile(cluster)]
    assert profiles[0][1].ledger is profiles[1][1].ledger
    taken: list[int] = []
    pods = [bound_pod(f"p{at}", "4") for at in range(5)]
    # All are filtered before any is reserved: only Reserve counts.
    states = [filtered(profiles[at % 2][0], pod)[0] for at, pod in enumerate(pods)]
    for at, (pod, state) in enumerate(zip(pods, states, strict=True)):
        made, plugin = profiles[at % 2]
        status = made.run_reserve(state, pod, "a")
        if at == 4:
            assert status.reasons == ("not enough cpus available to satisfy request",)
            break
        taken.extend(cpuset.parse(allocated(plugin, state, pod).cpuset))
    assert sorted(taken) == list(range(16))


def test_what_a_pod_has_is_released_with_unreserve_and_when_it_is_forgotten() -> None:
    cluster = cluster_of("a")
    made, plugin = profile(cluster)
    pod = bound_pod("p", "16")
    state, status = reserved(made, pod)
    assert status.is_success
    other = bound_pod("q", "2")
    assert reserved(made, other)[1].reasons == ("not enough cpus available to satisfy request",)
    made.run_unreserve(state, pod, "a")
    assert plugin.ledger.unconfirmed() == set()
    assert reserved(made, other)[1].is_success
    made.handle.forget_pod(other, "a")
    assert reserved(made, pod)[1].is_success


def test_unreserve_of_a_pod_that_reserved_nothing_releases_nothing_of_others() -> None:
    made, plugin = profile(cluster_of("a"))
    first, second = bound_pod("p", "2"), bound_pod("q", "2")
    state, status = reserved(made, first)
    assert status.is_success
    made.run_unreserve(state, second, "a")
    held = plugin.ledger.node("a")
    assert held is not None
    assert list(held.pods) == [first.metadata.uid]


def test_a_pod_that_the_watch_shows_keeps_its_cpus() -> None:
    cluster = cluster_of("a")
    made, plugin = profile(cluster)
    pod = bound_pod("p", "4")
    state, _ = reserved(made, pod)
    document = json.loads(encode(pod))
    document["spec"]["nodeName"] = "a"
    document["metadata"]["annotations"] = written(plugin, state, pod)
    cluster.store(Pod).apply(decode(Pod, document))
    assert plugin.ledger.unconfirmed() == set()
    made.run_unreserve(state, pod, "a")
    held = plugin.ledger.node("a")
    assert held is not None
    assert sorted(held.allocated_cpus) == [0, 1, 2, 3]


def test_cpus_on_a_node_with_a_numa_policy_come_from_one_numa_node_with_amounts() -> None:
    made, plugin = profile(cluster_of("a", labels=SINGLE))
    results = []
    for pod in (bound_pod("p", "6"), bound_pod("q", "6")):
        state, status = reserved(made, pod)
        assert status.is_success
        results.append(allocated(plugin, state, pod))
    assert [each.cpuset for each in results] == ["0-5", "8-13"]
    assert [each.numa_nodes[0].node for each in results] == [0, 1]
    _, status = reserved(made, bound_pod("r", "6"))
    assert status.reasons == ("Unsatisfied NUMA cpu", "Unsatisfied NUMA memory")


def test_an_affinity_that_was_found_before_another_pod_came_is_found_again() -> None:
    cluster = cluster_of("a", labels=SINGLE)
    made, plugin = profile(cluster)
    waiting, other = bound_pod("p", "6"), bound_pod("q", "6")
    state, status = filtered(made, waiting)
    assert status.is_success
    reserved(made, other)
    cluster.nodes.assume(other, "a")
    nodes, _ = cluster.nodes.select(["a"])
    assert made.run_filters(state, waiting, nodes).status(0).is_success
    assert made.run_reserve(state, waiting, "a").is_success
    assert allocated(plugin, state, waiting).cpuset == "8-13"


def test_a_nodes_bind_policy_binds_pods_of_any_qos() -> None:
    made, plugin = profile(cluster_of("a", labels=FULL))
    pod = bound_pod("p", "2", qos="LS")
    state, status = reserved(made, pod)
    assert status.is_success
    annotations = written(plugin, state, pod)
    assert annotations[extension.ANNOTATION_RESOURCE_SPEC] == '{"requiredCPUBindPolicy":"FullPCPUs"}'
    assert status_of(annotations).cpuset == "0-1"


@pytest.mark.parametrize(
    ("cpu", "fields", "reason"),
    [
        ("1500m", {}, "the requested CPUs must be integer"),
        ("3", {}, "node(s) requested cpus not multiple cpus per core"),
        (
            "2",
            {"requiredCPUBindPolicy": "SpreadByPCPUs"},
            "node(s) cpu bind policy conflicts with pod's required cpu bind policy",
        ),
    ],
)
def test_a_pod_that_a_nodes_bind_policy_cannot_serve_is_refused(
    cpu: str, fields: dict[str, str], reason: str
) -> None:
    made, _ = profile(cluster_of("a", labels=FULL))
    _, status = filtered(made, bound_pod("p", cpu, annotations=spec(**fields)))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == (reason,)


def test_a_node_without_topology_is_refused_for_pods_that_bind_cpus_alone() -> None:
    cluster = cluster_of("a")
    cluster.store(NodeResourceTopology).discard("a")
    made, _ = profile(cluster)
    assert filtered(made, bound_pod("p"))[1].reasons == ("node(s) invalid CPU Topology",)
    assert reserved(made, bound_pod("p", qos="LS"))[1].is_success


@pytest.mark.parametrize(
    "annotation",
    [
        {extension.ANNOTATION_RESOURCE_SPEC: "{"},
        {extension.ANNOTATION_NUMA_TOPOLOGY_SPEC: '{"numaTopologyPolicy":1}'},
    ],
)
def test_a_broken_annotation_is_an_error_of_its_pod(annotation: dict[str, str]) -> None:
    made, _ = profile(cluster_of("a"))
    _, status = filtered(made, bound_pod("p", annotations=annotation))
    assert status.code is Code.ERROR
    assert "annotation scheduling.koordinator.sh" in status.message


def test_an_unknown_numa_policy_refuses_the_node() -> None:
    made, _ = profile(cluster_of("a", labels={extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "Odd"}))
    _, status = filtered(made, bound_pod("p"))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert "Odd" in status.message


def test_a_pod_without_requests_is_skipped() -> None:
    made, plugin = profile(cluster_of("a"))
    pod = bound_pod("p", "0")
    document = json.loads(encode(pod))
    document["spec"]["containers"] = [{"name": "c"}]
    pod = decode(Pod, document)
    state, status = reserved(made, pod)
    assert status.is_success
    assert "NodeNUMAResource" in state.skip_filter
    assert written(plugin, state, pod) == {}


@pytest.mark.parametrize(
    ("fields", "labels", "qos", "written_fields"),
    [
        ({"preferredCPUBindPolicy": "FullPCPUs"}, {}, "LSR", {"preferredCPUBindPolicy": "FullPCPUs"}),
        ({"preferredCPUBindPolicy": "Default"}, {}, "LSR", {"preferredCPUBindPolicy": "FullPCPUs"}),
        (
            {"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "Default"},
            {},
            "LSR",
            {"requiredCPUBindPolicy": "FullPCPUs", "preferredCPUBindPolicy": "FullPCPUs"},
        ),
        ({"requiredCPUBindPolicy": "Default"}, {}, "LSR", {"requiredCPUBindPolicy": "FullPCPUs"}),
        ({}, FULL, "LS", {"requiredCPUBindPolicy": "FullPCPUs"}),
        (
            {"preferredCPUExclusivePolicy": "PCPULevel"},
            {},
            "LSR",
            {"preferredCPUBindPolicy": "FullPCPUs", "preferredCPUExclusivePolicy": "PCPULevel"},
        ),
    ],
)
def test_the_bind_policy_that_was_applied_is_written(
    fields: dict[str, str], labels: dict[str, str], qos: str, written_fields: dict[str, str]
) -> None:
    made, plugin = profile(cluster_of("a", labels=labels))
    pod = bound_pod("p", qos=qos, annotations=spec(**fields))
    state, status = reserved(made, pod)
    assert status.is_success
    annotations = {**pod.metadata.annotations, **written(plugin, state, pod)}
    assert json.loads(annotations[extension.ANNOTATION_RESOURCE_SPEC]) == written_fields


@pytest.mark.parametrize(
    ("strategy", "second"),
    [("MostAllocated", "2-3"), ("LeastAllocated", "8-9"), ("DistributeEvenly", "8-9"), ("", "8-9")],
)
def test_a_nodes_label_says_which_numa_nodes_are_filled_first(strategy: str, second: str) -> None:
    made, plugin = profile(cluster_of("a", labels={extension.LABEL_NODE_NUMA_ALLOCATE_STRATEGY: strategy}))
    for pod, cpus in ((bound_pod("p"), "0-1"), (bound_pod("q"), second)):
        state, status = reserved(made, pod)
        assert status.is_success
        assert allocated(plugin, state, pod).cpuset == cpus


def test_best_effort_aligns_a_pod_when_it_is_reserved() -> None:
    made, plugin = profile(cluster_of("a", labels={extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "BestEffort"}))
    pod = bound_pod("p", "6")
    state, status = filtered(made, pod)
    assert status.is_success
    assert affinity_of(state, "a") is None
    assert made.run_reserve(state, pod, "a").is_success
    assert [each.node for each in allocated(plugin, state, pod).numa_nodes] == [0]


def test_pods_that_wait_for_cpus_are_woken_when_a_pod_gives_its_own_back_before_it_is_bound() -> None:
    assert EVENTS[Pod](bound_pod("p"), None)


@pytest.mark.parametrize("pod", [bound_pod("p", qos="LS"), bound_pod("p", "0", qos="LS"), bound_pod("p")])
def test_what_an_annotation_says_before_the_bind_is_not_kept(pod: Pod) -> None:
    claimed = json.dumps({"cpuset": "0-15", "numaNodeResources": [{"node": 0, "resources": {"cpu": "8"}}]})
    document = json.loads(encode(pod))
    document["metadata"]["annotations"] = {extension.ANNOTATION_RESOURCE_STATUS: claimed}
    claiming = decode(Pod, document)
    made, plugin = profile(cluster_of("a"))
    state, status = reserved(made, claiming)
    assert status.is_success
    is_bound = claiming.metadata.labels[extension.LABEL_POD_QOS] == "LSR"
    assert allocated(plugin, state, claiming) == ResourceStatus("0-1" if is_bound else "")


def test_a_reservation_holds_no_cpus_of_the_pod_that_its_template_copies() -> None:
    claimed = {extension.ANNOTATION_RESOURCE_STATUS: '{"cpuset":"0-15"}'}
    info = ReservationInfo(
        decode(
            Reservation,
            {
                "metadata": {"name": "r", "uid": "uid-r"},
                "spec": {
                    "template": {
                        "metadata": {"annotations": claimed},
                        "spec": json.loads(encode(bound_pod("p", qos="LS")))["spec"],
                    }
                },
            },
        )
    )
    made, plugin = profile(cluster_of("a"))
    state, status = reserved(made, info.pod)
    assert status.is_success
    binding = Binding(info.pod, "a")
    assert asyncio.run(plugin.pre_bind_reservation(state, info, "a", binding)).is_success
    assert binding.annotations == {extension.ANNOTATION_RESOURCE_STATUS: "{}"}


class TestDesignated:
    """A scheduling hint asks for the CPUs that the pod's annotation names."""

    @staticmethod
    def designated(name: str, cpus: str) -> Pod:
        status = json.dumps({"cpuset": cpus})
        return bound_pod(name, "2", annotations={extension.ANNOTATION_RESOURCE_STATUS: status})

    def cycle(self, made, pod):
        nodes, _ = made.handle.nodes.select(["a"])
        state = made.new_state()
        state.write(SCHEDULING_HINT, SchedulingHintState(("a",), (), {"NodeNUMAResource": {}}))
        outcome = made.run_pre_filter(state, pod, nodes)
        if not outcome.status.is_success:
            return state, outcome.status
        return state, made.run_filters(state, pod, nodes).status(0)

    def test_it_gets_them(self) -> None:
        made, plugin = profile(cluster_of("a"))
        pod = self.designated("p", "6-7")
        state, status = self.cycle(made, pod)
        assert status.is_success
        assert made.run_reserve(state, pod, "a").is_success
        assert allocated(plugin, state, pod).cpuset == "6-7"

    def test_two_pods_never_get_the_same_ones(self) -> None:
        made, _ = profile(cluster_of("a"))
        first, second = self.designated("p", "6-7"), self.designated("q", "6-7")
        states = [self.cycle(made, pod)[0] for pod in (first, second)]
        assert made.run_reserve(states[0], first, "a").is_success
        status = made.run_reserve(states[1], second, "a")
        assert status.reasons == ("not enough cpus available to satisfy request",)
        assert self.cycle(made, second)[1].reasons == status.reasons

    @pytest.mark.parametrize(
        ("gate", "planned", "kept"), [(True, True, False), (True, False, True), (False, True, True)]
    )
    def test_the_pods_of_a_batch_get_what_is_free(self, gate: bool, planned: bool, kept: bool) -> None:
        made, _ = profile(cluster_of("a"))
        made.handle.gates = FeatureGates(SPECS, {INLINE_BATCH_SCHEDULE: gate})
        state = made.new_state()
        state.write(SCHEDULING_HINT, SchedulingHintState(("a",), (), {"NodeNUMAResource": {}}))
        if planned:
            state.write(PLANNED_NODE, "a")
        assert made.run_pre_filter(
            state, self.designated("p", "6-7"), made.handle.nodes.all()
        ).status.is_success
        found, _ = pod_state.read(state)
        assert (found.designated is not None) is kept
        assert found.clone().designated is None

    def test_unreadable_cpus_refuse_the_pod(self) -> None:
        made, _ = profile(cluster_of("a"))
        _, status = self.cycle(made, self.designated("p", "six"))
        assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE


def test_pods_are_signed_by_what_is_read_of_them() -> None:
    _, plugin = profile(cluster_of("a"))
    assert plugin.sign_pod(bound_pod("p")) == plugin.sign_pod(bound_pod("q"))
    assert plugin.sign_pod(bound_pod("p")) != plugin.sign_pod(bound_pod("q", qos="LS"))
    full = bound_pod("p", annotations=spec(requiredCPUBindPolicy="FullPCPUs"))
    assert plugin.sign_pod(full) != plugin.sign_pod(bound_pod("q"))
    hinted = bound_pod("p", annotations={extension.ANNOTATION_SCHEDULING_HINT: "{}"})
    assert plugin.sign_pod(hinted) is None


def test_what_reservations_hold_stays_when_a_reservation_takes_over_pods() -> None:
    _, plugin = profile(cluster_of("a"))
    state, held = CycleState(), NodeReusable()
    reservation = ReservationInfo(
        decode(Reservation, {"metadata": {"name": "r"}, "spec": {"preAllocation": True, "template": {}}})
    )
    assert plugin.pre_restore_reservation(state, bound_pod("p", "4")).is_success
    restored_in(state).keep("a", held)
    assert plugin.pre_restore_reservation_pre_allocation(state, reservation).is_success
    assert reusable_on(state, "a") is held


def test_pods_wake_when_cpus_are_released_or_a_topology_changes() -> None:
    pods, topologies = EVENTS[Pod], EVENTS[NodeResourceTopology]
    holder = bound_pod("p", node_name="a", annotations={extension.ANNOTATION_RESOURCE_STATUS: "{}"})
    assert pods(holder, None)
    assert not pods(None, holder)
    assert not pods(bound_pod("q", node_name="a"), None)
    assert pods(bound_pod("q"), None)  # one that was reserved and never bound
    assert topologies(None, topology("a"))
    assert topologies(topology("a"), topology("a", cores=2))
    assert not topologies(topology("a"), topology("a"))


def test_the_service_describes_a_node() -> None:
    made, plugin = profile(cluster_of("a"))
    pod = bound_pod("p", "2")
    reserved(made, pod)
    describe = plugin.endpoints()["nodes/{node_name}"]
    document: Any = describe(node_name="a")
    json.dumps(document)
    assert document["availableCPUs"] == "2-15"
    assert document["cpuTopology"]["numCores"] == 8
    assert document["allocatedCPUs"]["1"] == {
        "cpuID": 1,
        "coreID": 0,
        "nodeID": 0,
        "socketID": 0,
        "refCount": 1,
        "exclusivePolicy": "",
    }
    assert [each["cpuset"] for each in document["allocatedPods"]] == ["0-1"]
    with pytest.raises(LookupError):
        describe(node_name="gone")


@pytest.mark.parametrize("labels", [{}, FULL, SINGLE, FULL | SINGLE])
@pytest.mark.parametrize("cpu", ["2147483648", "9223372036854775"])
def test_more_cpus_than_fit_32_bits_are_too_many(labels: dict[str, str], cpu: str) -> None:
    for annotations in ({}, spec(requiredCPUBindPolicy="FullPCPUs")):
        made, _ = profile(cluster_of("a", labels=labels))
        _, status = reserved(made, bound_pod("p", cpu, annotations=annotations))
        assert status.code in (Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE), status
