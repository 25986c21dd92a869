"""Pods on a node whose NUMA topology policy is set by a label, beside a stock scheduler.

A NUMA node has half of the node: shares below are of the whole node.
"""

import json
from collections.abc import Mapping

import pytest

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.quantity import ZERO, Quantity, parse
from tests.integration.devices.stage import CPUS, MEMORY, PROD, DeviceStage, cpus, status

LSR = {extension.LABEL_POD_QOS: "LSR"}
LS = {extension.LABEL_POD_QOS: "LS"}
SINGLE = {extension.ANNOTATION_NUMA_TOPOLOGY_SPEC: json.dumps({"numaTopologyPolicy": "SingleNUMANode"})}
PROD_LSR = {"labels": LSR, "priorityClassName": PROD}
PROD_LS = {"labels": LS, "priorityClassName": PROD}
REFUSED = "NUMA Topology affinity"
POLICIES_THAT_SPAN = ("Restricted", "BestEffort")


def cpu(percent: int, *, whole: bool = False) -> dict[str, str]:
    milli = CPUS * 1000 * percent // 100
    return {"cpu": f"{milli - milli % 1000 if whole else milli}m"}


def memory(percent: int) -> dict[str, str]:
    return {"memory": str(MEMORY * percent // 100)}


def amounts(requests: Mapping[str, str]) -> dict[str, Quantity]:
    return {name: parse(amount) for name, amount in requests.items()}


def only_numa_node(pod: Pod, requests: Mapping[str, str]) -> int:
    """Return the NUMA node that gave a pod all that it requests."""
    [share] = status(pod).numa_nodes
    assert share.resources == amounts(requests)
    return share.node


def assert_spans_both(pod: Pod, requests: Mapping[str, str]) -> None:
    """Each NUMA node gave a part, and both together what the pod requests."""
    first, second = status(pod).numa_nodes
    assert {first.node, second.node} == {0, 1}
    assert first.resources
    assert second.resources
    names = first.resources.keys() | second.resources.keys()
    assert {
        name: first.resources.get(name, ZERO) + second.resources.get(name, ZERO) for name in names
    } == amounts(requests)


async def fill(stage: DeviceStage, requests: Mapping[str, str], **pod: object) -> list[Pod]:
    """Run a pod on each NUMA node that leaves too little there for another one."""
    pods = [await stage.run(f"filling-{number}", requests, **pod) for number in range(2)]  # type: ignore[arg-type]
    assert {only_numa_node(each, requests) for each in pods} == {0, 1}
    return pods


async def cross(stage: DeviceStage) -> None:
    """Leave memory on one NUMA node only, and CPUs on the other only."""
    for number in range(2):
        await stage.run(f"memory-{number}", memory(40))
    for number in range(2):
        await stage.run(f"cpu-{number}", cpu(40))
    await stage.delete_pod("memory-0")
    await stage.delete_pod("cpu-1")


async def test_the_policy_of_pods_holds_on_a_node_without_one(stage: DeviceStage) -> None:
    await fill(stage, {**cpu(28), **memory(28)}, annotations=SINGLE)
    await stage.create("third", {**cpu(30), **memory(30)}, annotations=SINGLE)
    assert REFUSED in await stage.refusal("third")
    free = await stage.run("free", {**cpu(30), **memory(30)})
    assert status(free).numa_nodes == ()


@pytest.mark.parametrize(
    ("first", "second", "whole"),
    [
        pytest.param({}, {}, False, id="pods"),
        pytest.param(PROD_LSR, PROD_LS, False, id="LS pod after LSR pods"),
        pytest.param({}, PROD_LSR, True, id="LSR pod after LS pods"),
    ],
)
async def test_a_single_numa_node_has_to_have_it_all(
    stage: DeviceStage, first: dict[str, object], second: dict[str, object], whole: bool
) -> None:
    await stage.label_node("SingleNUMANode")
    pods = await fill(stage, {**cpu(28, whole=first is PROD_LSR), **memory(28)}, **first)
    assert all(bool(cpus(pod)) == (first is PROD_LSR) for pod in pods)
    await stage.create("third", {**cpu(30, whole=whole), **memory(30)}, **second)  # type: ignore[arg-type]
    assert REFUSED in await stage.refusal("third")


async def test_a_single_numa_node_has_to_have_all_resources(stage: DeviceStage) -> None:
    await stage.label_node("SingleNUMANode")
    await cross(stage)
    await stage.create("third", {**cpu(40), **memory(40)})
    assert REFUSED in await stage.refusal("third")


@pytest.mark.parametrize("policy", POLICIES_THAT_SPAN)
async def test_a_pod_that_no_numa_node_has_room_for_spans_both(stage: DeviceStage, policy: str) -> None:
    await stage.label_node(policy)
    await fill(stage, {**cpu(28), **memory(28)})
    requests = {**cpu(30), **memory(30)}
    assert_spans_both(await stage.run("third", requests), requests)


@pytest.mark.parametrize("policy", POLICIES_THAT_SPAN)
async def test_a_pod_whose_resources_are_on_different_numa_nodes_spans_both(
    stage: DeviceStage, policy: str
) -> None:
    await stage.label_node(policy)
    await cross(stage)
    requests = {**cpu(40), **memory(40)}
    assert_spans_both(await stage.run("third", requests), requests)
