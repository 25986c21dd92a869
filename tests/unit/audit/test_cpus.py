"""Whether the audit finds CPUs that are handed out twice, reserved, or not there."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import extension
from koordpy.lib import cpuset
from tests.unit.audit.books import findings, held, names, node, only, pod, report, reservation, topology


def test_disjoint_sets_are_clean() -> None:
    assert findings(node(), topology(), pod("a", cpuset="0-3"), pod("b", cpuset="4-7")) == []


def test_a_cpu_of_two_pods_names_both() -> None:
    found = only(node(), topology(), pod("a", cpuset="0-3"), pod("b", cpuset="3-5"))
    assert (found.check, found.node, found.what, found.held) == ("cpus", "n1", "CPU 3", "1 CPU")
    assert [str(owner) for owner in found.owners] == ["Pod default/a (CPUs 0-3)", "Pod default/b (CPUs 3-5)"]


def test_three_pods_on_one_cpu_are_three_pairs() -> None:
    found = findings(node(), topology(), *(pod(name, cpuset="1") for name in "abc"))
    assert len(found) == 3


def test_the_same_cpu_of_two_nodes_is_no_clash() -> None:
    nodes = [node("n1"), node("n2"), topology("n1"), topology("n2")]
    assert findings(*nodes, pod("a", cpuset="0"), pod("b", "n2", cpuset="0")) == []


def test_pods_that_have_ended_hold_no_cpus() -> None:
    assert findings(node(), topology(), pod("a", cpuset="0"), pod("b", cpuset="0", phase="Failed")) == []


def test_owners_have_cpus_of_their_reservation_and_others_do_not() -> None:
    kept = reservation("r", owners=("a",), annotations=held("0-3"))
    owner = pod("a", cpuset="0-1", reservation="r")
    assert findings(node(), topology(), kept, owner) == []
    found = only(node(), topology(), kept, owner, pod("b", cpuset="2"))
    assert names(found) == ["Pod default/b", "Reservation r"]
    twice = reservation("r", owners=("a", "b"), annotations=held("0-3"))
    found = only(node(), topology(), twice, owner, pod("b", cpuset="1", reservation="r"))
    assert names(found) == ["Pod default/a", "Pod default/b"]


def test_annotations_of_the_template_of_a_reservation_count() -> None:
    kept = reservation("r", template={"metadata": {"annotations": held("4")}, "spec": {}})
    assert names(only(node(), topology(), kept, pod("b", cpuset="4"))) == ["Pod default/b", "Reservation r"]


def test_two_reservations_never_have_one_cpu() -> None:
    kept = [reservation(name, annotations=held("0")) for name in ("r", "s")]
    assert names(only(node(), topology(), *kept)) == ["Reservation r", "Reservation s"]


def test_pods_that_ignore_reservations_may_have_reserved_cpus() -> None:
    labels = {extension.LABEL_RESERVATION_IGNORED: "true"}
    kept = reservation("r", annotations=held("0-3"))
    assert findings(node(), topology(), kept, pod("a", cpuset="0", labels=labels)) == []


@pytest.mark.parametrize(
    ("annotation", "by"),
    [
        (
            {extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY: {"policy": "static", "reservedCPUs": "0-1"}},
            "the kubelet's reserved CPUs",
        ),
        ({extension.ANNOTATION_NODE_RESERVATION: {"reservedCPUs": "0"}}, "the node's reservation"),
        ({extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE: {"cpuset": "0"}}, "QoS class SYSTEM"),
        (
            {
                "node.koordinator.sh/pod-cpu-allocs": [
                    {"namespace": "x", "name": "k", "uid": "u", "cpuset": "0", "managedByKubelet": True}
                ]
            },
            "x/k (by the kubelet)",
        ),
    ],
)
def test_reserved_cpus_are_not_handed_out(annotation: dict[str, Any], by: str) -> None:
    found = only(node(), topology(annotations=annotation), pod("a", cpuset="0,5"))
    assert (found.what, found.problem) == ("CPU 0", "handed out, and reserved")
    assert names(found) == ["Pod default/a", f"Reserved {by}"]


@pytest.mark.parametrize(
    "annotation",
    [
        {extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE: {"cpuset": "0", "cpusetExclusive": False}},
        {"node.koordinator.sh/pod-cpu-allocs": [{"uid": "uid-a", "cpuset": "0", "managedByKubelet": True}]},
        {"node.koordinator.sh/pod-cpu-allocs": [{"uid": "uid-b", "cpuset": "0"}]},
        {extension.ANNOTATION_NODE_RESERVATION: {"reservedCPUs": "x"}},
    ],
)
def test_cpus_that_are_not_reserved_from_the_pod(annotation: dict[str, Any]) -> None:
    assert findings(node(), topology(annotations=annotation), pod("a", cpuset="0")) == []


def test_cpus_that_do_not_exist() -> None:
    found = only(node(), topology(cpus=8), pod("a", cpuset="6-9"))
    assert (found.what, found.held) == ("CPU 8-9", "2 CPUs")


def test_without_a_topology_sets_are_compared_with_each_other_only() -> None:
    assert len(findings(node(), pod("a", cpuset="0"), pod("b", cpuset="0"))) == 1
    found = report(node(), pod("a", cpuset="99"), NodeResourceTopology="no such resource")
    checked = next(item for item in found.checks if item.check == "cpus")
    assert found.findings == []
    assert checked.counts["nodes without a CPU topology"] == 1
    assert checked.reason == "NodeResourceTopology: no such resource"


def test_an_annotation_that_cannot_be_read_is_a_warning() -> None:
    found = only(node(), pod("a", annotations={extension.ANNOTATION_RESOURCE_STATUS: '{"cpuset": 3}'}))
    assert (found.check, found.severity) == ("annotations", "warning")
    assert "resource-status" in found.problem


def test_devices_in_an_unusual_form_are_read_as_go_would() -> None:
    text = '{"rdma": [{"Minor": 1, "resources": {}, "extension": {"VFs": [{"busID": "0:1"}]}}]}'
    unusual = {extension.ANNOTATION_DEVICE_ALLOCATED: text}
    found = findings(node(), *(pod(name, annotations=unusual) for name in "ab"), check="devices")
    assert "rdma 1 virtual function 0:1" in [item.what for item in found]


def test_an_annotation_in_an_unusual_form_is_read_as_go_would() -> None:
    unusual = {extension.ANNOTATION_RESOURCE_STATUS: '{"CPUSet": "0-1", "more": 1}'}
    assert only(node(), topology(), pod("a", annotations=unusual), pod("b", cpuset="1")).what == "CPU 1"


@given(st.lists(st.integers(0, 5), min_size=16, max_size=16), st.integers(0, 15), st.integers(0, 5))
def test_any_cpu_that_is_handed_out_again_is_found(owners: list[int], cpu: int, thief: int) -> None:
    sets = {pod: {at for at, owner in enumerate(owners) if owner == pod} for pod in range(6)}
    cluster = [node(), topology()]

    def pods() -> list[Any]:
        return [pod(f"p{number}", cpuset=cpuset.render(cpus)) for number, cpus in sets.items() if cpus]

    assert findings(*cluster, *pods()) == []
    if owners[cpu] != thief:
        sets[thief].add(cpu)
        found = only(*cluster, *pods())
        assert found.what == f"CPU {cpu}"
        assert set(names(found)) == {f"Pod default/p{owners[cpu]}", f"Pod default/p{thief}"}
