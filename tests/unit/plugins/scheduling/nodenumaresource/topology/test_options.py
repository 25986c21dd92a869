import pytest

from koordpy.api import extension
from koordpy.api.quantity import Format, Quantity, parse
from koordpy_plugins.scheduling.nodenumaresource.topology.options import (
    MOST_RESOURCES,
    KubeletPolicy,
    amplified,
    of,
)

from ..machines import detail, nrt

CPUS = detail(1, 2, 4, 2)
"""CPUs 0-7 on NUMA node 0 and 8-15 on NUMA node 1."""


def test_cpus_are_reserved_by_four_annotations():
    options = of(
        nrt(
            cpus=CPUS,
            pod_cpu_allocs=[
                {"uid": "a", "cpuset": "0-1", "managedByKubelet": True},
                {"uid": "b", "cpuset": "x", "managedByKubelet": True},
                {"uid": "c", "cpuset": "12", "managedByKubelet": False},
                {"uid": "", "cpuset": "13", "managedByKubelet": True},
            ],
            cpu_manager_policy={"policy": "static", "reservedCPUs": "2"},
            reservation={"reservedCPUs": "3-4", "resources": {"cpu": "1"}},
            system_qos_resource={"cpuset": "5"},
        )
    )
    assert options.reserved_cpus == {0, 1, 2, 3, 4, 5}


@pytest.mark.parametrize(("exclusive", "reserved"), [(None, {5}), (True, {5}), (False, set())])
def test_cpus_of_system_pods_are_reserved_unless_others_may_use_them(exclusive, reserved):
    options = of(nrt(cpus=CPUS, system_qos_resource={"cpuset": "5", "cpusetExclusive": exclusive}))
    assert options.reserved_cpus == reserved


def test_what_cannot_be_read_is_reported_and_the_rest_counts():
    found = []
    options = of(
        nrt(
            cpus="{",
            pod_cpu_allocs="x",
            cpu_manager_policy={"policy": "static", "reservedCPUs": "0 1"},
            reservation={"reservedCPUs": "3", "resources": {"cpu": "much"}},
            system_qos_resource={"cpuset": "7"},
            resource_amplification_ratio={"cpu": "2"},
            zones={"node-0": {"cpu": "8"}, "node-x": {"cpu": "1"}, "node-1": {"cpu": "y"}},
        ),
        lambda name, error: found.append((name, str(error))),
    )
    assert len(found) == 7
    assert {name for name, _ in found} == {"n0"}
    assert options.cpu_topology is not None
    assert not options.is_valid
    assert options.reserved_cpus == {7}
    assert options.amplification_ratios is None
    assert options.numa_nodes == (0,)
    assert options.kubelet_policy == KubeletPolicy("static", None, "0 1")


def test_reserved_cpus_are_taken_from_their_numa_node_and_may_make_it_negative():
    options = of(
        nrt(
            cpus=CPUS,
            reservation={"reservedCPUs": "0-7,8,99"},
            zones={"node-1": {"cpu": "0.5", "memory": "1Gi"}, "node-0": {"cpu": "8"}},
        )
    )
    assert list(options.numa_resources) == [0, 1]
    assert options.numa_resources[0] == {"cpu": parse("0")}
    assert options.numa_resources[1] == {"cpu": parse("-500m"), "memory": parse("1Gi")}


def test_a_zone_without_cpu_has_nothing_taken_from_it():
    options = of(nrt(cpus=CPUS, reservation={"reservedCPUs": "0"}, zones={"node-0": {"cpu": "0"}}))
    assert options.numa_resources[0]["cpu"].is_zero


@pytest.mark.parametrize(
    ("name", "node"),
    [("node-3", 3), ("x-node-4", 4), ("node-+5", 5), ("node-63", 63),
     ("node--1", None), ("node-64", None), ("node-", None), ("node-1node-2", None),
     ("numa-1", None), ("node-1 ", None), ("node-1_0", None)],
)  # fmt: skip
def test_numa_nodes_are_numbered_by_the_names_of_zones(name, node):
    options = of(nrt(zones={name: {"cpu": "1"}}), lambda *_: None)
    assert options.numa_nodes == (() if node is None else (node,))


def test_other_types_of_zones_are_ignored_and_of_one_node_the_last_counts():
    topology = nrt(zones={"node-0": {"cpu": "1"}, "x-node-0": {"cpu": "2"}, "node-1": {"cpu": "3"}})
    topology.zones[2].type = "Core"
    options = of(topology)
    assert options.numa_resources == {0: {"cpu": parse("2")}}


@pytest.mark.parametrize(
    ("policies", "policy"),
    [
        ((), ""),
        (("SingleNUMANodePodLevel",), "SingleNUMANode"),
        (("SingleNUMANodeContainerLevel", "Restricted", "BestEffort"), "Restricted"),
        (("BestEffortPodLevel", "BestEffort"), "BestEffort"),
        (("SingleNUMANode",), ""),
    ],
)
def test_the_first_known_policy_counts(policies, policy):
    assert of(nrt(policies=policies)).policy == policy


@pytest.mark.parametrize(
    ("policy", "only"),
    [
        ({"policy": "static", "options": {"full-pcpus-only": "true"}}, True),
        ({"policy": "static", "options": {"full-pcpus-only": "True"}}, False),
        ({"policy": "none", "options": {"full-pcpus-only": "true"}}, False),
        ({"policy": "static"}, False),
    ],
)
def test_kubelet_may_give_whole_cores_only(policy, only):
    kubelet = of(nrt(cpu_manager_policy=policy)).kubelet_policy
    assert kubelet is not None
    assert kubelet.is_full_pcpus_only is only


RATIO = {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: '{"cpu":1.5,"memory":2,"x":0.5}'}


def test_zones_are_amplified_by_the_ratios_of_the_node():
    options = of(nrt(zones={"node-0": {"cpu": "3", "memory": "1Gi", "x": "2", "y": "7"}}))
    more = amplified(options, RATIO)
    assert more.numa_resources[0] == {
        "cpu": Quantity.of_milli(4500),
        "memory": Quantity.of(2 << 30, Format.BINARY_SI),
        "x": parse("2"),
        "y": parse("7"),
    }
    assert str(more.numa_resources[0]["memory"]) == "2Gi"
    assert more.amplification_ratios == {"cpu": 1.5, "memory": 2.0, "x": 0.5}
    assert options.numa_resources[0]["cpu"] == parse("3")


@pytest.mark.parametrize(("text", "is_amplified"), [("{}", False), ('{"cpu":1}', False), ("null", True)])
def test_zones_whose_object_has_ratios_are_amplified_already(text, is_amplified):
    options = of(nrt(zones={"node-0": {"cpu": "3"}}, resource_amplification_ratio=text))
    more = amplified(options, RATIO)
    assert (more.numa_resources[0]["cpu"] == Quantity.of_milli(4500)) is is_amplified


def test_ratios_of_the_node_that_cannot_be_read_are_an_error():
    with pytest.raises(ValueError, match="failed to unmarshal node resource amplification ratio: "):
        amplified(of(nrt()), {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: "{"})


def test_a_zone_with_more_resources_than_it_may_have_is_left_out():
    allowed = {f"r{at}": "1" for at in range(MOST_RESOURCES)}
    problems = []
    options = of(
        nrt(zones={"node-0": allowed, "node-1": {**allowed, "cpu": "1"}}), lambda *said: problems.append(said)
    )
    assert options.numa_nodes == (0,)
    assert [str(error) for _, error in problems] == ["zone node-1: 129 resources: expected at most 128"]


def test_kubelets_cpus_of_pods_count_unless_they_name_more_than_a_machine_can_have():
    def reserved(cpus, count):
        allocs = [{"uid": "u", "cpuset": cpus, "managedByKubelet": True}] * count
        return of(nrt(cpus=CPUS, pod_cpu_allocs=allocs), lambda *_: None).reserved_cpus

    assert reserved("0-4095", 16) == frozenset(range(4096))
    assert reserved("0-4095", 17) == frozenset()
