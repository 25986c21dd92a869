"""Nodes on which kube-scheduler may help by evictions, and others."""

import numpy as np
import pytest

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.scheduling.extender.rejections import NO_AFFINITY, failures, node_awaited
from koordpy.scheduling.interface.outcome import FilterOutcome, Refusals
from koordpy.scheduling.interface.status import Status, Verdict
from koordpy.scheduling.toolkit.topology_manager.policy import UNALIGNED

from ..worlds import node, pod, pod_document, world

PREEMPTED = {"type": "DisruptionTarget", "status": "True", "reason": "PreemptionByScheduler"}
GOES = "2026-03-01T12:00:00Z"


def victim(priority: int = 1, deleted: str | None = GOES, **condition: str) -> Pod:
    document = pod_document("victim", node_name="a", priority=priority)
    document["metadata"]["deletionTimestamp"] = deleted
    document["status"] = {"conditions": [{**PREEMPTED, **condition}]}
    return decode(Pod, document)


def nominated(name: str = "a") -> Pod:
    return pod("p", priority=5, status={"nominatedNodeName": name})


def test_a_pod_waits_for_the_pods_that_terminate_for_it_on_its_nominated_node() -> None:
    assert node_awaited(nominated(), world([node("a")], [victim()]).nodes) == "a"


@pytest.mark.parametrize(
    ("preemptor", "other"),
    [
        (nominated(""), victim()),
        (nominated("gone"), victim()),
        (nominated("b"), victim()),
        (nominated(), victim(priority=5)),
        (nominated(), victim(deleted=None)),
        (nominated(), victim(reason="TerminationByKubelet")),
        (nominated(), victim(status="False")),
    ],
)
def test_it_waits_for_no_other_pods(preemptor: Pod, other: Pod) -> None:
    assert node_awaited(preemptor, world([node("a"), node("b")], [other]).nodes) == ""


def rejected() -> FilterOutcome:
    nodes = world([node("a"), node("b")]).nodes.all()
    return FilterOutcome(nodes, np.zeros(2, np.bool_), prefilter=Status.unschedulable("over quota"))


def test_evictions_do_not_help_a_pod_that_is_rejected_whatever_the_node_is() -> None:
    assert failures(rejected()) == ({}, {"a": "over quota", "b": "over quota"})


def test_kube_scheduler_is_not_told_to_look_beyond_the_node_where_victims_terminate() -> None:
    """It would clear the nomination if evictions did not help there."""
    assert failures(rejected(), "b") == ({"b": "over quota"}, {"a": "over quota"})
    assert failures(rejected(), "c") == failures(rejected())


@pytest.mark.parametrize(
    "reason",
    ["Unaligned NUMA Hint cause cpu prefer [11] among [11]", "Unsatisfied NUMA cpu"],
)
def test_messages_say_what_reasons_of_the_topology_manager_are_about(reason: str) -> None:
    nodes = world([node("a"), node("b")]).nodes.all()
    refused = np.array([True, False])
    found = FilterOutcome(nodes, ~refused)
    found.refusals.append(Refusals("P", np.array([0]), Verdict.reject(refused, reason)))
    assert failures(found) == ({"a": f"node(s) NUMA Topology affinity error: {reason}"}, {})


def test_hints_of_many_numa_nodes_are_cut() -> None:
    nodes = world([node(f"n{at}") for at in range(200)]).nodes.all()
    lists = [f"{UNALIGNED} cpu prefer [{at:08b}] among [{'11111111 ' * 255}]" for at in range(200)]
    verdict = Verdict.of([Status.unschedulable(text) for text in lists])
    refusals = Refusals("NodeNUMAResource", np.arange(200), verdict)
    failed, _ = failures(FilterOutcome(nodes, np.zeros(200, np.bool_), [refusals]))
    assert len(failed) == 200
    assert all(text.startswith(NO_AFFINITY) for text in failed.values())
    assert sum(map(len, set(failed.values()))) < 40_000
    assert "cpu prefer [00000001] among" in failed["n1"]
