"""Filter and Score over arrays give what evaluating nodes one by one gives."""

import json
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.node_info import each
from koordpy.scheduling.interface.status import Status
from koordpy_plugins.scheduling.nodenumaresource.attempt import pod_state

from ....scheduling.worlds import node, world
from .numa_world import bound_pod, profile, reserved, spec, topology

NODES = st.fixed_dictionaries(
    {
        "bind": st.sampled_from(["", "", "FullPCPUsOnly", "SpreadByPCPUs"]),
        "numa": st.sampled_from(["", "", "BestEffort", "Restricted", "SingleNUMANode", "Odd"]),
        "ratio": st.sampled_from(["", "", '{"cpu":1.5}', '{"cpu":1}', "{"]),
        "topology": st.sampled_from(["yes", "yes", "no", "empty"]),
        "held": st.integers(0, 6),
    }
)
PODS = st.fixed_dictionaries(
    {
        "cpu": st.sampled_from(["0", "500m", "1", "2", "3", "4", "8", "14"]),
        "qos": st.sampled_from(["LSR", "LS"]),
        "required": st.sampled_from(["", "", "FullPCPUs", "SpreadByPCPUs", "ConstrainedBurst"]),
        "numa": st.sampled_from(["", "", "BestEffort", "SingleNUMANode", "Odd"]),
    }
)


def cluster_of(nodes: list[dict[str, Any]]) -> Cluster:
    made: list[Node] = []
    topologies = []
    for at, shape in enumerate(nodes):
        labels = {
            extension.LABEL_NODE_CPU_BIND_POLICY: shape["bind"],
            extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY: shape["numa"],
        }
        annotations = {extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: shape["ratio"]}
        made.append(
            node(
                f"n{at}",
                cpu="16",
                labels={key: value for key, value in labels.items() if value},
                annotations={key: value for key, value in annotations.items() if value},
            )
        )
        if shape["topology"] != "no":
            empty: dict[str, Any] = (
                {extension.ANNOTATION_NODE_CPU_TOPOLOGY: "{}"} if shape["topology"] == "empty" else {}
            )
            topologies.append(topology(f"n{at}", **empty))
    cluster = world(made)
    for each_topology in topologies:
        cluster.store(NodeResourceTopology).apply(each_topology)
    for at, shape in enumerate(nodes):
        for cpu in range(shape["held"]):
            status = json.dumps({"cpuset": str(3 * cpu)})
            holder = bound_pod(
                f"held-{at}-{cpu}",
                "1",
                annotations={extension.ANNOTATION_RESOURCE_STATUS: status},
                node_name=f"n{at}",
            )
            cluster.store(type(holder)).apply(holder)
    return cluster


@settings(max_examples=60)
@given(st.lists(NODES, min_size=1, max_size=4), PODS)
def test_filter_and_score_agree_with_single_nodes(nodes: list[dict[str, Any]], asks: dict[str, Any]) -> None:
    cluster = cluster_of(nodes)
    made, plugin = profile(cluster)
    annotations = spec(requiredCPUBindPolicy=asks["required"])
    if asks["numa"]:
        numa = json.dumps({"numaTopologyPolicy": asks["numa"]})
        annotations[extension.ANNOTATION_NUMA_TOPOLOGY_SPEC] = numa
    pod = bound_pod("p", asks["cpu"], qos=asks["qos"], annotations=annotations)
    everything, state = cluster.nodes.all(), made.new_state()
    if not made.run_pre_filter(state, pod, everything).status.is_success:
        return
    found, _ = pod_state.read(state)

    def alone(info: Any) -> Status:
        return plugin._filter.filter(state, plugin._case(found, pod, info), info)

    verdict = plugin.filter_nodes(state, pod, everything)
    expected = [alone(info) for info in each(everything)]
    assert [verdict.status(at) for at in range(len(everything))] == expected
    passed = everything.subset(np.array([status.is_success for status in expected]))
    scores = plugin.score_nodes(state, pod, passed)
    assert scores.tolist() == [
        plugin._score.score(state, plugin._case(found, pod, info), info) for info in each(passed)
    ]


def test_a_reserved_pod_counts_in_arrays_too() -> None:
    cluster = cluster_of([{"bind": "FullPCPUsOnly", "numa": "", "ratio": "", "topology": "yes", "held": 0}])
    made, _ = profile(cluster)
    assert reserved(made, bound_pod("p", "12"), "n0")[1].is_success
    assert reserved(made, bound_pod("q", "6"), "n0")[1].reasons == (
        "not enough cpus available to satisfy request",
    )
