"""Whatever a node reports, and tenants annotate: no phase fails, and other nodes serve on."""

import json
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib import cpuset
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.node_info import each
from koordpy.scheduling.interface.status import Code
from koordpy_plugins.scheduling.nodenumaresource.attempt import pod_state
from koordpy_plugins.scheduling.nodenumaresource.plugin import NodeNUMAResource
from koordpy_plugins.scheduling.nodenumaresource.state.ledger import CPULedger
from koordpy_plugins.scheduling.nodenumaresource.topology.cpu_topology import MOST_CPUS

from ....scheduling.worlds import node, world
from .numa_world import allocated, bound_pod, cluster_of, filtered, profile, reserved, spec, topology

LAST = (1 << 31) - 1
Document = dict[str, Any]


def cpus(rows: Iterable[tuple[int, int, int, int]]) -> str:
    """The annotation cpu-topology of CPUs as (id, core, NUMA node, socket)."""
    names = ("id", "core", "node", "socket")
    return json.dumps({"detail": [dict(zip(names, row, strict=True)) for row in rows]})


def zone(name: str, **amounts: str) -> Document:
    resources = [{"name": key, "allocatable": amount} for key, amount in amounts.items()]
    return {"name": name, "type": "Node", "resources": resources}


PLAIN = cpus((cpu, cpu // 2 % 4, cpu // 8, cpu // 8) for cpu in range(16))
ZONES = [zone(f"node-{at}", cpu="8", memory="16Gi") for at in range(2)]
RATIO = extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO
KUBELET = extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY
ALLOCS = extension.ANNOTATION_NODE_POD_CPU_ALLOCS
RESERVATION = extension.ANNOTATION_NODE_RESERVATION
SYSTEM = extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE

TOPOLOGIES: dict[str, str] = {
    "largest ids": cpus((LAST - cpu, LAST, LAST, LAST) for cpu in range(16)),
    "negative ids": cpus((-cpu - 1, -cpu, -7, -5) for cpu in range(16)),
    "ids of more than 32 bits": cpus([(1 << 40, 0, 0, 0)]),
    "one CPU on all NUMA nodes": cpus((0, at, at, at) for at in range(2000)),
    "a NUMA node of each CPU": cpus((at, at, at, at) for at in range(4000)),
    "more CPUs than there may be": cpus((cpu, cpu, 0, 0) for cpu in range(MOST_CPUS + 1)),
    "megabytes": '{"detail":[]' + " " * (2 << 20) + "}",
    "nested lists": "[" * 100_000 + "]" * 100_000,
    "nested objects": '{"detail":' * 400 + "1" + "}" * 400,
    "no JSON": '{"detail":[{"id":0,"core":0,"socket":0,"node":0},',
    "texts": '{"detail":[{"id":"0","core":"0","socket":"0","node":"0"}]}',
    "other types": '{"detail":{"id":0}}',
    "empty": "",
}
ANNOTATIONS: dict[str, dict[str, str]] = {
    "ratios without end": {RATIO: '{"cpu":1e308,"memory":1e308}'},
    "negative ratios": {RATIO: '{"cpu":-1e308,"memory":-1}'},
    "ratios that are no numbers": {RATIO: '{"cpu":"NaN"}'},
    "all CPUs reserved": {RESERVATION: '{"reservedCPUs":"0-4096"}'},
    "negative reserved CPUs": {KUBELET: '{"policy":"static","reservedCPUs":"-5-3"}'},
    "reserved CPUs without end": {RESERVATION: json.dumps({"reservedCPUs": ",".join(["0-4096"] * 100)})},
    "CPUs of many pods": {
        ALLOCS: json.dumps([{"uid": "u", "cpuset": "0-4096", "managedByKubelet": True}] * 1000)
    },
    "nested": {ALLOCS: "[" * 50_000, KUBELET: '{"options":' * 400 + "{}" + "}" * 400, SYSTEM: "[[]]"},
    "null": dict.fromkeys((ALLOCS, KUBELET, SYSTEM, RESERVATION, RATIO), "null"),
}
ZONE_LISTS: dict[str, list[Document]] = {
    "none": [],
    "no resources": [{"name": "node-0", "type": "Node"}, zone("node-1")],
    "negative": [zone("node-0", cpu="-8", memory="-1"), zone("node-1", cpu="0", memory="0")],
    "far apart": [zone("node-3", cpu="8", memory="16Gi"), zone("node-63", cpu="8", memory="16Gi")],
    "out of range": [zone(f"node-{at}", cpu="8", memory="16Gi") for at in (-1, 64, LAST, 1 << 63)],
    "a thousand": [zone(f"node-{at}", cpu="8", memory="16Gi") for at in range(1000)],
    "larger than any": [zone("node-0", cpu="9e18", memory="9E"), zone("node-1", cpu="1e40", memory="1e40")],
    "finer than any": [zone("node-0", cpu="1n", memory="1n"), zone("node-1", cpu="1e-40", memory="0.5")],
    "thousands of resources": [
        zone(f"node-{at}", cpu="8", memory="16Gi", **{f"r{number}": "1" for number in range(3000)})
        for at in range(2)
    ],
}
NRTS: dict[str, Document] = {
    **{
        f"cpus: {name}": {"annotations": {extension.ANNOTATION_NODE_CPU_TOPOLOGY: text}, "zones": ZONES}
        for name, text in TOPOLOGIES.items()
    },
    **{
        f"annotations: {name}": {
            "annotations": {extension.ANNOTATION_NODE_CPU_TOPOLOGY: PLAIN, **texts},
            "zones": ZONES,
        }
        for name, texts in ANNOTATIONS.items()
    },
    **{
        f"zones: {name}": {"annotations": {extension.ANNOTATION_NODE_CPU_TOPOLOGY: PLAIN}, "zones": zones}
        for name, zones in ZONE_LISTS.items()
    },
}
LABELS: list[dict[str, str]] = [
    {},
    {extension.LABEL_NODE_CPU_BIND_POLICY: "FullPCPUsOnly"},
    {extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "BestEffort"},
    {extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "Restricted"},
    {extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: "SingleNUMANode"},
]
PODS = [
    bound_pod("shared", "2", qos="LS"),
    bound_pod("bound", "2"),
    bound_pod("spread", "3", annotations=spec(requiredCPUBindPolicy="SpreadByPCPUs")),
    bound_pod("alone", "2", annotations=spec(preferredCPUExclusivePolicy="NUMANodeLevel")),
]


def cluster_with(found: Document, labels: dict[str, str], annotations: dict[str, str]) -> Cluster:
    """A cluster of node a, which reports something, and node b, like any other."""
    cluster = world([node("a", cpu="16", labels=labels, annotations=annotations), node("b", cpu="16")])
    document = {"metadata": {"name": "a", "annotations": found["annotations"]}, "zones": found["zones"]}
    for nrt in (decode(NodeResourceTopology, document), topology("b")):
        cluster.store(NodeResourceTopology).apply(nrt)
    return cluster


def attempt(made: Framework, plugin: NodeNUMAResource, pod: Pod) -> None:
    """Run all phases for a pod on both nodes."""
    nodes, state = made.handle.nodes.all(), made.new_state()
    assert made.run_pre_filter(state, pod, nodes).status.is_success
    result = made.run_filters(state, pod, nodes)
    assert result.error is None, result.error
    statuses = {name: result.status(at) for at, name in enumerate(nodes.names)}
    assert statuses["b"].is_success
    found, _ = pod_state.read(state)
    alone = [plugin._filter.filter(state, plugin._case(found, pod, info), info) for info in each(nodes)]
    assert [each.code for each in alone] == [statuses[name].code for name in nodes.names]
    passed = nodes.subset(np.array([statuses[name].is_success for name in nodes.names]))
    scores = plugin.score_nodes(state, pod, passed)
    assert 0 <= scores.min() <= scores.max() <= 100
    for name in passed.names:
        status = made.run_reserve(state, pod, name)
        assert status.is_success or name == "a"
        assert status.code is not Code.ERROR, status
        if status.is_success and found.allocation is not None:
            options = plugin.ledger.options(name)
            known = frozenset() if options.cpu_topology is None else options.cpu_topology.cpu_ids
            assert cpuset.parse_koordinator(allocated(plugin, state, pod, name).cpuset) <= known
            assert not found.allocation.cpus & options.reserved_cpus
        made.run_unreserve(state, pod, name)


@pytest.mark.parametrize("name", NRTS)
def test_whatever_a_node_reports_no_phase_fails_and_another_node_serves(name: str) -> None:
    is_large = name == "zones: a thousand"
    for labels in LABELS[3:4] if is_large else LABELS:
        made, plugin = profile(cluster_with(NRTS[name], labels, {}))
        for pod in PODS[:1] if is_large else PODS:
            attempt(made, plugin, pod)
        describe = plugin.endpoints()["nodes/{node_name}"]
        if plugin.ledger.options("a").is_valid:
            json.dumps(describe(node_name="a"))
        else:
            with pytest.raises(LookupError, match="invalid topology"):
                describe(node_name="a")


@pytest.mark.parametrize("text", ['{"cpu":1e308,"memory":1e308}', '{"cpu":-1e308}', '{"cpu":1e19}', "[", "1"])
def test_whatever_a_node_is_amplified_by_no_phase_fails_and_another_node_serves(text: str) -> None:
    for labels in LABELS:
        found = {"annotations": {extension.ANNOTATION_NODE_CPU_TOPOLOGY: PLAIN}, "zones": ZONES}
        made, plugin = profile(cluster_with(found, labels, {RATIO: text}))
        for pod in PODS:
            attempt(made, plugin, pod)


@pytest.mark.parametrize("name", ["largest ids", "negative ids", "more CPUs than there may be", "megabytes"])
def test_a_topology_that_no_machine_has_is_none_and_is_logged(
    name: str, caplog: pytest.LogCaptureFixture
) -> None:
    found = {"annotations": {extension.ANNOTATION_NODE_CPU_TOPOLOGY: TOPOLOGIES[name]}, "zones": ZONES}
    cluster = cluster_with(found, {}, {})
    made, _ = profile(cluster)
    assert filtered(made, bound_pod("p"))[1].reasons == ("node(s) invalid CPU Topology",)
    assert not cluster.shared(CPULedger).options("a").is_valid
    [message] = caplog.messages
    assert message.startswith("NodeResourceTopology a: annotation node.koordinator.sh/cpu-topology: ")
    assert "expected " in message


@pytest.mark.parametrize("cpu", ["4611686018427387904", "9223372036854775807"])
@pytest.mark.parametrize("qos", ["LSR", "LS"])
@pytest.mark.parametrize("labels", LABELS)
def test_cpus_whose_thousandths_do_not_fit_64_bits_are_refused(
    labels: dict[str, str], qos: str, cpu: str
) -> None:
    made, _ = profile(cluster_of("a", labels=labels))
    _, status = reserved(made, bound_pod("p", cpu, qos=qos))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.reasons == ("the requested CPUs must be at most 9223372036854775",)
