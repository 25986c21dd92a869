"""RemovePodsViolatingNodeAffinity; whole runs are compared with the descheduler's own in the parity tests."""

from typing import Any

from koordpy_plugins.descheduling.removepodsviolatingnodeaffinity.args import PREFERRED, REQUIRED
from koordpy_plugins.descheduling.removepodsviolatingnodeaffinity.plugin import (
    RemovePodsViolatingNodeAffinity,
)

from ..one_plugin import OnePlugin, node, pod

MISMATCH = "the pod's node selector or required node affinity does not match its node"


def term(zone: str) -> dict[str, Any]:
    return {"matchExpressions": [{"key": "zone", "operator": "In", "values": [zone]}]}


def needing(name: str, node_name: str, zone: str, cpu: str = "1") -> dict[str, Any]:
    document = pod(name, node_name, cpu)
    document["spec"]["affinity"] = {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [term(zone)]}}}
    return document


def preferring(name: str, node_name: str, **weights: int) -> dict[str, Any]:
    document = pod(name, node_name)
    terms = [{"weight": weight, "preference": term(zone)} for zone, weight in weights.items()]
    document["spec"]["affinity"] = {"nodeAffinity": {PREFERRED: terms}}
    return document


def profile(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], *types: str) -> OnePlugin:
    return OnePlugin(
        RemovePodsViolatingNodeAffinity, nodes, pods, {"nodeAffinityType": list(types)}, point="deschedule"
    )


NODES = [node("n1", zone="x"), node("n2", zone="y")]


async def test_pods_leave_a_node_that_their_required_affinity_does_not_match():
    run = profile(NODES, [needing("p", "n1", "y"), needing("q", "n2", "y"), pod("r", "n1")], REQUIRED)
    await run.cycle()
    assert run.calls == [("p", MISMATCH)]


async def test_pods_that_fit_no_node_stay_and_the_reason_is_recorded():
    run = profile(NODES, [needing("p", "n1", "y", cpu="5"), needing("q", "n1", "z")], REQUIRED)
    current = run.decisions.begin(run.clock.now(), dry_run=False)
    await run.cycle()
    assert run.evicted == []
    assert [(item.pod, item.reason) for item in current.runs[0].not_evicted] == [
        ("a/p", f"it fits no node; {MISMATCH}"),
        ("a/q", f"it fits no node; {MISMATCH}"),
    ]


async def test_pods_leave_a_node_that_they_prefer_less_than_another():
    run = profile(NODES, [preferring("p", "n1", x=1, y=2), preferring("q", "n2", x=1, y=2)], PREFERRED)
    await run.cycle()
    assert run.evicted == ["p"]
    assert run.calls[0][1].endswith("its preferred node affinity weighs 2 there and 1 here")


async def test_types_run_in_their_order_and_unknown_ones_are_skipped():
    pods = [needing("p", "n1", "y"), preferring("q", "n1", y=1)]
    run = profile(NODES, pods, PREFERRED, "other", REQUIRED)
    await run.cycle()
    assert run.evicted == ["q", "p"]


async def test_it_objects_to_nodes_that_a_pod_would_leave_again():
    pods = [needing("p", "n1", "y"), preferring("q", "n1", y=1)]
    run = profile(NODES, pods, REQUIRED, PREFERRED)
    assert run.objection("p", "n1") == MISMATCH
    assert run.objection("p", "n2") is None
    assert run.objection("q", "n1") is not None
    assert run.objection("q", "n2") is None
    assert profile(NODES, pods, PREFERRED).objection("p", "n1") is None
