"""What the doctor finds wrong with CPUs of NUMA nodes and devices, one thing at a time."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.device import Device
from koordpy.api.device_class import DeviceClass
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.doctor.devices import left, reported, shared, topologies, unmatched
from koordpy.doctor.finding import Finding, State
from koordpy.testing.objects import node, pod

CPUS = json.dumps({"detail": [{"id": 0, "core": 0, "socket": 0, "node": 0}]})
PROVIDER = extension.LABEL_GPU_ISOLATION_PROVIDER


def topology(name: str, **annotations: str) -> NodeResourceTopology:
    found = {"node.koordinator.sh/cpu-topology": CPUS, **annotations}
    return decode(NodeResourceTopology, {"metadata": {"name": name, "annotations": found}})


def device(name: str, *health: bool, type_: str = "gpu") -> Device:
    devices = [{"type": type_, "minor": minor, "health": is_well} for minor, is_well in enumerate(health)]
    return decode(Device, {"metadata": {"name": name}, "spec": {"devices": devices}})


def told(findings: Iterator[Finding]) -> list[tuple[State, str]]:
    return [(finding.state, finding.subject) for finding in findings]


def test_nodes_with_their_topology_have_no_findings() -> None:
    labels = {extension.LABEL_NODE_CPU_BIND_POLICY: "FullPCPUsOnly"}
    assert told(topologies([node("a", labels=labels)], [topology("a")])) == []


@pytest.mark.parametrize(
    "annotations",
    [None, *({"node.koordinator.sh/cpu-topology": text} for text in ("", "{", "[" * 5000, '{"detail":[]}'))],
)
def test_a_policy_without_cpus_is_a_problem(annotations: dict[str, str] | None) -> None:
    labels = {extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "SingleNUMANode"}
    known = [] if annotations is None else [topology("a", **annotations)]
    nodes = [node("a", labels=labels), node("b")]
    assert told(topologies(nodes, known)) == [(State.PROBLEM, "a")]


def test_no_topology_at_all_is_a_warning() -> None:
    assert told(topologies([node("a"), node("b")], [])) == [(State.WARNING, "NodeNUMAResource")]
    assert told(topologies([node("a"), node("b")], [topology("b")])) == []


@pytest.mark.parametrize(
    ("text", "is_static"),
    [('{"policy":"static"}', True), ('{"policy":"none"}', False), ("[", False), ("1", False)],
)
def test_kubelets_static_policy_is_named(text: str, is_static: bool) -> None:
    known = [topology("a", **{extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY: text})]
    assert told(topologies([node("a")], known)) == ([(State.WARNING, "a")] if is_static else [])


def test_devices_without_a_node_are_noted_and_ill_ones_are_warned_of() -> None:
    found = told(reported([node("a")], [device("gone", True), device("a", True, False)]))
    assert found == [(State.NOTE, "gone"), (State.WARNING, "a (gpu 1)")]


def test_a_device_that_lists_more_than_a_machine_has_is_a_problem() -> None:
    crowded = device("a", *(True,) * 1025)
    assert told(reported([node("a")], [crowded])) == [(State.PROBLEM, "a")]
    assert told(reported([node("a")], [device("a", *(True,) * 1024)])) == []


def test_a_device_plugin_on_a_node_without_a_device_is_warned_of() -> None:
    nodes = [node("a", resources={"nvidia.com/gpu": 8}), node("b", resources={"nvidia.com/gpu": 0})]
    assert told(reported(nodes, [])) == [(State.WARNING, "a")]
    assert told(reported(nodes, [device("a", True)])) == []


def half(name: str, provider: str = "") -> Pod:
    amounts = {extension.GPU_SHARED: 1, extension.GPU_CORE: 50, extension.GPU_MEMORY_RATIO: 50}
    return pod(name, resources=amounts, labels={PROVIDER: provider} if provider else {})


def test_sharing_without_isolation_is_warned_of_and_an_absent_provider_is_a_problem() -> None:
    pods = [half("apart"), half("lost", "HAMi-core")]
    expected = [(State.PROBLEM, "default/lost (HAMi-core)"), (State.WARNING, "default/apart")]
    assert told(shared([node("a")], pods)) == expected
    provided = [node("a", labels={PROVIDER: "HAMi-core"})]
    assert told(shared(provided, pods[1:])) == []


@pytest.mark.parametrize(
    "amounts",
    [
        {extension.GPU: 100},
        {extension.GPU_CORE: 200, extension.GPU_MEMORY_RATIO: 200, extension.GPU_SHARED: 2},
        {"nvidia.com/gpu": 1},
        {extension.RDMA: 50},
    ],
)
def test_whole_gpus_need_no_isolation(amounts: dict[str, int]) -> None:
    assert told(shared([], [pod("p", resources=amounts)])) == []


def test_what_a_pod_was_given_counts_more_than_what_it_requests() -> None:
    given = {"gpu": [{"minor": 0, "resources": {extension.GPU_MEMORY_RATIO: "20"}}]}
    notes = {extension.ANNOTATION_DEVICE_ALLOCATED: json.dumps(given)}
    memory = pod("p", resources={extension.GPU_MEMORY: "8Gi"}, annotations=notes)
    assert told(shared([], [memory])) == [(State.WARNING, "default/p")]


def class_(resource: str) -> DeviceClass:
    document: dict[str, Any] = {"metadata": {"name": "c"}, "spec": {"extendedResourceName": resource}}
    return decode(DeviceClass, document)


def test_resources_of_device_classes_are_noted_and_warned_of_beside_devices() -> None:
    assert told(left([class_("nvidia.com/gpu")], [])) == [(State.NOTE, "nvidia.com/gpu")]
    assert told(left([class_("nvidia.com/gpu")], [device("a", True)])) == [(State.WARNING, "nvidia.com/gpu")]
    assert told(left([class_("example.com/nic")], [device("a", True)])) == []


def test_templates_that_request_gpus_as_no_admitted_pod_does_are_warned_of() -> None:
    def reservation(name: str, request: str, phase: str = "Available") -> Reservation:
        container = {"name": "main", "resources": {"requests": {request: "100"}}}
        template = {"spec": {"containers": [container]}}
        document = {"metadata": {"name": name}, "spec": {"template": template}, "status": {"phase": phase}}
        return decode(Reservation, document)

    percent, admitted = extension.GPU, extension.GPU_CORE
    known = [reservation("b", percent), reservation("a", percent), reservation("c", admitted)]
    ended = reservation("d", percent, phase="Succeeded")
    assert told(unmatched([*known, ended])) == [(State.WARNING, "a, b")]
    assert told(unmatched([known[2], ended])) == []
