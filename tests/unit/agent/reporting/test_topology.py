"""NodeResourceTopologies: what they say, and when they are written."""

from datetime import UTC, datetime
from typing import Any

import msgspec
import pytest

from koordpy.agent.engine.agent import NodeAgent
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.settings import AgentSettings
from koordpy.agent.interface.facts import (
    NODE_CPU_INFO,
    NODE_NUMA_INFO,
    CPUBasicInfo,
    HugePages,
    NodeCPUInfo,
    NodeNUMAInfo,
    NUMANodeMemory,
    Processor,
)
from koordpy.agent.interface.states import PodMeta
from koordpy.agent.reporting.cpu_reservation import take_by_topology
from koordpy.agent.reporting.kubelet_cpu_state import KubeletCPUs, StateFileError
from koordpy.agent.reporting.node_topology import topology_of
from koordpy.agent.reporting.topology_reporter import TopologyReporter, is_changed
from koordpy.agent.reporting.topology_zones import merged
from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates

EIGHT = tuple(Processor(cpu, cpu // 2, cpu // 4, cpu // 4) for cpu in range(8))
CPUS = NodeCPUInfo(EIGHT, CPUBasicInfo("Xeon", True, False, "", "GenuineIntel"))
GIB = 1 << 30
NUMA = NodeNUMAInfo((NUMANodeMemory(0, 8 * GIB, GIB), NUMANodeMemory(1, 8 * GIB, GIB)))


def node(annotations=None, labels=None, **status) -> Node:
    metadata = {"name": "n1", "uid": "n", "annotations": annotations or {}, "labels": labels or {}}
    return decode(Node, {"metadata": metadata, "status": status})


def pod(uid, qos="", cpus="") -> PodMeta:
    annotations = {"scheduling.koordinator.sh/resource-status": f'{{"cpuset": "{cpus}"}}'} if cpus else {}
    labels = {"koordinator.sh/qosClass": qos} if qos else {}
    metadata = {
        "name": f"p-{uid}",
        "namespace": "d",
        "uid": uid,
        "annotations": annotations,
        "labels": labels,
    }
    return PodMeta(decode(Pod, {"metadata": metadata}), "")


def reported(name: str, *pods: PodMeta, of: Node | None = None, kubelet: KubeletCPUs | None = None) -> Any:
    topology = topology_of(of or node(), CPUS, NUMA, pods, kubelet or KubeletCPUs())
    return msgspec.json.decode(topology.annotations[name])


LS, BE = "node.koordinator.sh/cpu-shared-pools", "node.koordinator.sh/be-cpu-shared-pools"
POLICY = "kubelet.koordinator.sh/cpu-manager-policy"


def pools(first: str, second: str) -> list[dict[str, Any]]:
    return [
        {"socket": 0, "node": 0, **({"cpuset": first} if first else {})},
        {"socket": 1, "node": 1, **({"cpuset": second} if second else {})},
    ]


def test_pools_are_the_cpus_that_no_pod_has_alone():
    pods = [pod("a", "LSR", "0-1"), pod("b", "LSE", "4"), pod("c", "LS")]
    assert reported(LS, *pods) == pools("2-3", "5-7")
    assert reported(BE, *pods) == pools("0-3", "5-7")


def test_a_numa_node_without_shared_cpus_has_no_pool():
    assert reported(LS, pod("a", "LSR", "0-3")) == pools("", "4-7")[1:]
    assert reported(LS, pod("a", "LSR", "0-7")) is None


def test_reserved_cpus_and_those_of_system_pods_are_in_no_pool():
    annotations = {
        "node.koordinator.sh/reservation": '{"reservedCPUs": "0,1"}',
        "node.koordinator.sh/system-qos-resource": '{"cpuset": "7"}',
    }
    assert reported(LS, of=node(annotations)) == pools("2-3", "4-6")
    assert reported(BE, of=node(annotations)) == pools("2-3", "4-6")
    annotations["node.koordinator.sh/system-qos-resource"] = '{"cpuset": "7", "cpusetExclusive": false}'
    assert reported(LS, of=node(annotations)) == pools("2-3", "4-7")


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ('{"resources": {"cpu": "1500m"}}', {"resources": {"cpu": "1500m"}, "reservedCPUs": "0-1"}),
        (
            '{"reservedCPUs": "3,2", "applyPolicy": "Default"}',
            {"reservedCPUs": "2-3", "applyPolicy": "Default"},
        ),
        ('{"resources": {"memory": "1Gi"}}', {"resources": {"memory": "1Gi"}}),
        ("not JSON", {}),
        ("", {}),
    ],
)
def test_a_reserved_amount_becomes_concrete_cpus(annotation, expected):
    name = "node.koordinator.sh/reservation"
    assert reported(name, of=node({name: annotation})) == expected


def test_topology_and_features_of_the_processors():
    detail = reported("node.koordinator.sh/cpu-topology")["detail"]
    assert detail[5] == {"id": 5, "core": 2, "socket": 1, "node": 1}
    assert reported("node.koordinator.sh/cpu-basic-info") == {
        "cpuModel": "Xeon",
        "hyperThreadEnabled": True,
        "vendorID": "GenuineIntel",
    }


def test_without_kubelet_there_is_no_policy_and_no_allocation():
    assert reported(POLICY) == {}
    assert reported("node.koordinator.sh/pod-cpu-allocs") is None
    assert reported("node.koordinator.sh/system-qos-resource") == {}


def test_cpus_of_kubelets_static_policy():
    config = {
        "cpuManagerPolicy": "static",
        "cpuManagerPolicyOptions": {"full-pcpus-only": "true"},
        "kubeReserved": {"cpu": "500m"},
        "systemReserved": {"cpu": "600m"},
        "topologyManagerPolicy": "restricted",
        "topologyManagerScope": "pod",
    }
    entries = {"g": {"c": "2", "d": "3"}, "unknown": {"c": "7"}, "ls": {"c": "4"}, "empty": {"c": ""}}
    kubelet = KubeletCPUs(config, msgspec.json.encode({"entries": entries}).decode())
    pods = [pod("g"), pod("ls", "LS"), pod("empty")]
    assert reported(POLICY, kubelet=kubelet) == {
        "policy": "static",
        "options": {"full-pcpus-only": "true"},
        "reservedCPUs": "0-1",
    }
    assert reported("node.koordinator.sh/pod-cpu-allocs", *pods, kubelet=kubelet) == [
        {"namespace": "d", "name": "p-g", "uid": "g", "cpuset": "2-3", "managedByKubelet": True},
        {"uid": "unknown", "cpuset": "7", "managedByKubelet": True},
    ]
    assert reported(LS, *pods, kubelet=kubelet) == pools("0-1", "4-6")
    assert topology_of(node(), CPUS, NUMA, pods, kubelet).policy == "RestrictedPodLevel"


def test_without_a_configuration_the_state_file_names_the_policy():
    state = '{"policyName": "static", "entries": {"g": {"c": "2-3"}}}'
    kubelet = KubeletCPUs({}, state)
    assert reported(POLICY, kubelet=kubelet) == {"policy": "static"}
    assert reported(LS, pod("g"), kubelet=kubelet) == pools("0-1", "4-7")
    assert reported(POLICY, kubelet=KubeletCPUs({"cpuManagerPolicy": "none"}, state)) == {"policy": "none"}


def test_cpus_that_the_node_does_not_have_are_not_reserved():
    static = {"cpuManagerPolicy": "static", "reservedSystemCPUs": "0,9"}
    assert reported(POLICY, kubelet=KubeletCPUs(static)) == {"policy": "static"}


def test_a_broken_state_file_is_an_error():
    kubelet = KubeletCPUs({"cpuManagerPolicy": "static"}, "[]")
    with pytest.raises(StateFileError, match="state of kubelet's CPU manager"):
        topology_of(node(), CPUS, NUMA, [], kubelet)


@pytest.mark.parametrize(
    ("count", "expected"),
    [(0, set()), (1, {0}), (3, {0, 1, 2}), (4, {0, 1, 2, 3}), (5, {0, 1, 2, 3, 4}), (9, set())],
)
def test_reserved_cpus_are_whole_sockets_then_cores_then_threads(count, expected):
    assert take_by_topology(EIGHT, count) == expected


def test_with_hyper_threads_far_apart_a_core_is_taken_whole():
    assert take_by_topology([Processor(cpu, cpu % 4, 0, 0) for cpu in range(8)], 2) == {0, 4}


def amounts(topology, zone=0):
    return {each.name: (each.capacity, each.allocatable) for each in topology.zones[zone].resources}


def test_zones_are_the_numa_nodes():
    topology = topology_of(node(), CPUS, NUMA, [], KubeletCPUs())
    assert [zone.name for zone in topology.zones] == ["node-0", "node-1"]
    assert amounts(topology) == {
        "cpu": ("4", "4"),
        "hugepages-1Gi": ("0", "0"),
        "hugepages-2Mi": ("0", "0"),
        "memory": ("8Gi", "8Gi"),
    }


def test_huge_pages_are_not_memory():
    pages = (HugePages(2048, 512), HugePages(1048576, 2))
    numa = NodeNUMAInfo((NUMANodeMemory(0, 8 * GIB, 0, pages), NUMANodeMemory(1, 8 * GIB, 0)))
    found = amounts(topology_of(node(), CPUS, numa, [], KubeletCPUs()))
    assert (found["memory"][0], found["hugepages-2Mi"][0], found["hugepages-1Gi"][0]) == ("5Gi", "1Gi", "2Gi")


def test_kubelets_reservation_is_taken_from_all_zones_alike_if_wanted():
    label = {"node.koordinator.sh/enable-numa-reservation": "true"}
    status = {
        "capacity": {"cpu": "8", "memory": "16Gi"},
        "allocatable": {"cpu": "7001m", "memory": "14Gi"},
    }
    topology = topology_of(node(labels=label, **status), CPUS, NUMA, [], KubeletCPUs())
    assert amounts(topology, 1)["cpu"] == ("4", "3500m")
    assert amounts(topology, 1)["memory"] == ("8Gi", "7Gi")
    assert topology.labels == label


def test_processors_and_memory_must_fit_together():
    with pytest.raises(ValueError, match="2 NUMA nodes have processors, but 1 have memory"):
        topology_of(node(), CPUS, NodeNUMAInfo(NUMA.nodes[:1]), [], KubeletCPUs())


def document(topology) -> dict[str, Any]:
    return {
        "metadata": {"name": "n1", "annotations": dict(topology.annotations), "labels": {}},
        "topologyPolicies": ["None"],
        "zones": merged([], topology.zones),
    }


def test_an_object_is_changed_only_by_what_the_agent_manages():
    topology = topology_of(node(), CPUS, NUMA, [], KubeletCPUs())
    same = document(topology)
    same["metadata"]["annotations"]["other"] = "x"
    pool = same["metadata"]["annotations"][LS]
    same["metadata"]["annotations"][LS] = pool.replace(",", ", ")
    batch = {"name": "kubernetes.io/batch-cpu", "capacity": "5", "allocatable": "5", "available": "5"}
    same["zones"][0]["resources"].append(batch)
    assert not is_changed(same, topology)
    assert merged(same["zones"], topology.zones)[0]["resources"][-2]["name"] == "kubernetes.io/batch-cpu"
    assert is_changed({**same, "topologyPolicies": ["Restricted"]}, topology)
    assert is_changed({**same, "zones": same["zones"][:1]}, topology)
    same["zones"][0]["resources"][0]["available"] = "3"
    assert is_changed(same, topology)
    other = document(topology)
    other["metadata"]["annotations"][LS] = "null"
    assert is_changed(other, topology)


@pytest.mark.parametrize("ignored", [False, True])
async def test_cpus_that_kubelet_gave_to_pods_are_known_without_asking_it(tmp_path, ignored):
    (tmp_path / "config.yaml").write_text("cpuManagerPolicy: static\nreservedSystemCPUs: '0'\n")
    (tmp_path / "cpu_manager_state").write_text('{"policyName": "static", "entries": {"g": {"c": "2-3"}}}')
    cluster = Cluster(FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))
    settings = AgentSettings(
        node_name="n1",
        cgroup_root=str(tmp_path / "cgroup"),
        proc_root=str(tmp_path / "proc"),
        sys_root=str(tmp_path / "sys"),
        flags={
            "var-lib-kubelet-dir": str(tmp_path),
            "disable-query-kubelet-config": ignored,
            "changes-dir": "",
        },
    )
    installed = Installed.of()
    gates = FeatureGates(installed.gate_specs())
    agent = NodeAgent(settings, installed, cluster=cluster, gates=gates, clock=cluster.clock)
    agent.metrics.set_fact(NODE_CPU_INFO, CPUS)
    agent.metrics.set_fact(NODE_NUMA_INFO, NUMA)
    cluster.store(Node).apply(node())
    [reporter] = (service for service in agent.services if isinstance(service, TopologyReporter))
    await reporter.sync()
    topology = agent.states.topology()
    assert topology is not None
    policy = {} if ignored else {"policy": "static", "reservedCPUs": "0"}
    assert msgspec.json.decode(topology.metadata.annotations[POLICY]) == policy
    shared = msgspec.json.decode(topology.metadata.annotations[LS])
    assert shared == pools("0-3" if ignored else "0-1", "4-7")
