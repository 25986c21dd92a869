"""FragmentationAware by its steps; whole cycles are compared with Koordinator's own in the parity tests."""

from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.toolkit.node_fit import NodeFit
from koordpy.descheduling.toolkit.pods import NodePods
from koordpy.lib.clock import SystemClock
from koordpy_plugins.descheduling.fragmentationaware.imbalance import RequestedFractions
from koordpy_plugins.descheduling.fragmentationaware.plugin import FragmentationAware

from ..one_plugin import OnePlugin, node, pod


def profile(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], **fields: Any) -> OnePlugin:
    return OnePlugin(FragmentationAware, nodes, pods, fields)


def fractions(
    pods: list[dict[str, Any]], resources: list[str], memory: str = "4Gi", cpu: str = "4"
) -> RequestedFractions:
    read = [decode(Pod, document) for document in pods]
    fit = NodeFit(NodePods(Cluster(SystemClock())))
    return RequestedFractions(decode(Node, node("n", cpu=cpu, memory=memory)), read, resources, fit)


def test_the_imbalance_is_the_deviation_of_the_requested_fractions():
    found = fractions([pod("p", "n", cpu="3", memory="1Gi")], ["cpu", "memory"])
    assert found.deviation() == 0.25


def test_resources_that_a_node_lacks_are_left_out():
    pods = [pod("p", "n", cpu="3", memory="1Gi")]
    assert fractions(pods, ["cpu", "memory", "example.com/gpu"]).deviation() == 0.25
    assert fractions(pods, ["cpu"], cpu="0").deviation() == 0.0


def test_pods_are_counted_as_a_resource():
    found = fractions([pod("p", "n", cpu="2"), pod("q", "n", cpu="2")], ["cpu", "pods"])
    assert found.deviation() == pytest.approx((1 - 2 / 110) / 2)


def test_pods_without_a_uid_leave_together():
    pods = [pod("p", "n", cpu="2", memory="0"), pod("q", "n", cpu="2", memory="0")]
    one = decode(Pod, pods[0])
    assert fractions(pods, ["cpu", "memory"]).deviation_without(one) == 0.25
    for document in pods:
        del document["metadata"]["uid"]
    one = decode(Pod, pods[0])
    assert fractions(pods, ["cpu", "memory"]).deviation_without(one) == 0.0


NODES = [node("n1"), node("n2")]
CPU_HEAVY = [
    pod("a", "n1", cpu="1", memory="0"),
    pod("b", "n1", cpu="2", memory="0"),
    pod("c", "n1", memory="2Gi"),
]


async def test_the_pod_with_the_largest_gain_is_evicted_and_no_other():
    run = profile(NODES, CPU_HEAVY, imbalanceThreshold=0.1)
    await run.cycle()
    assert run.calls == [("b", "fragmentation reduction: stdBefore=0.3750 stdAfter=0.1250 gain=0.2500")]


async def test_of_equal_gains_the_first_pod_is_evicted():
    run = profile(NODES, [pod("y", "n1", cpu="2", memory="0"), pod("x", "n1", cpu="2", memory="0")])
    await run.cycle()
    assert run.evicted == ["x"]


@pytest.mark.parametrize(
    "fields",
    [
        {"imbalanceThreshold": 0.375},
        {"minImprovementThreshold": 0.25},
        {"paused": True},
        {"dryRun": True},
        {"nodeSelector": {"matchLabels": {"a": "b"}}},
    ],
    ids=str,
)
async def test_nothing_is_evicted(fields: dict[str, Any]):
    run = profile(NODES, CPU_HEAVY, **fields)
    await run.cycle()
    assert run.evicted == []


async def test_a_pod_must_fit_another_of_the_selected_nodes():
    nodes = [node("n1", pool="x"), node("n2")]
    selector = {"matchLabels": {"pool": "x"}}
    run = profile(nodes, CPU_HEAVY, nodeSelector=selector)
    await run.cycle()
    assert run.evicted == []
    run = profile(nodes, CPU_HEAVY, nodeSelector=selector, nodeFit=False)
    await run.cycle()
    assert run.evicted == ["b"]


async def test_pods_that_may_not_be_evicted_still_count():
    run = OnePlugin(FragmentationAware, NODES, CPU_HEAVY, kept=["b"])
    await run.cycle()
    assert run.calls == [("a", "fragmentation reduction: stdBefore=0.3750 stdAfter=0.2500 gain=0.1250")]


def test_it_objects_to_nodes_that_would_be_uneven_with_the_pod():
    nodes = [*NODES, node("n3", cpu="100", memory="200Gi"), node("n4")]
    run = profile(nodes, [*CPU_HEAVY, pod("m", "n4", cpu="0", memory="4Gi")])
    assert run.objection("b", "n2") == (
        "its imbalance would be 0.2500, above imbalanceThreshold 0.15, and 0.0000 without the pod"
    )
    assert run.objection("b", "n3") is None
    assert run.objection("b", "n4") is None  # its memory is requested already: the pod evens it out


def test_it_does_not_object_to_nodes_that_it_does_not_balance():
    nodes = [node("n1", pool="x"), node("n2")]
    run = profile(nodes, CPU_HEAVY, nodeSelector={"matchLabels": {"pool": "x"}})
    assert run.objection("b", "n2") is None
