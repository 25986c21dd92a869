"""HighNodeUtilization; whole runs are compared with the descheduler's own in the parity tests."""

from typing import Any

from koordpy_plugins.descheduling.highnodeutilization.plugin import HighNodeUtilization

from ..one_plugin import OnePlugin, node, pod


def profile(
    nodes: list[dict[str, Any]],
    pods: list[dict[str, Any]],
    *,
    more: dict[str, Any] | None = None,
    **args: Any,
) -> OnePlugin:
    return OnePlugin(HighNodeUtilization, nodes, pods, {"thresholds": {"cpu": 30}} | args, **(more or {}))


NODES = [node("n1"), node("n2")]
PODS = [pod("p0", "n1", "500m"), pod("p1", "n1", "500m"), pod("q", "n2", "2")]


async def test_an_underutilized_node_is_emptied():
    run = profile(NODES, PODS)
    await run.cycle()
    assert sorted(run.evicted) == ["p0", "p1"]
    assert run.calls[0][1] == "node is underutilized: cpu 25 %, memory 25 %, pods 2 %"


async def test_it_stops_when_the_others_have_no_room_and_records_who_stays():
    run = profile([node("n1"), node("n2", cpu="2500m")], PODS)
    current = run.decisions.begin(run.clock.now(), dry_run=False)
    await run.cycle()
    assert len(run.evicted) == 1
    (skipped,) = current.runs[0].not_evicted
    assert skipped.reason == "no room is left on other nodes"


async def test_nothing_leaves_without_enough_underutilized_or_any_other_nodes():
    for args in ({"numberOfNodes": 1}, {"thresholds": {"cpu": 20}}, {"thresholds": {"cpu": 60}}):
        run = profile(NODES, PODS, **args)
        await run.cycle()
        assert run.evicted == []
    cordoned = node("n2") | {"spec": {"unschedulable": True}}
    run = profile([node("n1"), cordoned], PODS)
    await run.cycle()
    assert run.evicted == []


async def test_only_pods_that_request_a_resource_with_a_threshold_leave_in_that_mode():
    pods = [*PODS, pod("gpu", "n1", "100m")]
    pods[-1]["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "1"
    nodes = [node("n1"), node("n2")]
    for document in nodes:
        document["status"]["allocatable"]["example.com/gpu"] = "8"
    pods[2]["spec"]["containers"][0]["resources"]["requests"]["example.com/gpu"] = "6"
    run = profile(
        nodes, pods, thresholds={"example.com/gpu": 20}, evictionModes=["OnlyThresholdingResources"]
    )
    await run.cycle()
    assert run.evicted == ["gpu"]


async def test_excluded_namespaces_and_untolerated_taints_keep_pods():
    run = profile(NODES, PODS, evictableNamespaces={"exclude": ["a"]})
    await run.cycle()
    assert run.evicted == []
    tainted = node("n2") | {"spec": {"taints": [{"key": "k", "effect": "PreferNoSchedule"}]}}
    run = profile([node("n1"), tainted], PODS)
    await run.cycle()
    assert run.evicted == []


async def test_a_failed_eviction_frees_nothing():
    run = profile([node("n1"), node("n2", cpu="2500m")], PODS, more={"failing": ["p0", "p1"]})
    await run.cycle()
    assert len(run.evicted) == 2


async def test_it_objects_to_nodes_that_would_still_be_underutilized():
    run = profile([*NODES, node("n3")], PODS)
    assert run.objection("p0", "n3") == "the node would be underutilized with it"
    assert run.objection("p0", "n2") is None
