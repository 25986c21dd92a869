"""ScaleDownBinPack by its steps; whole cycles are compared with Koordinator's own in the parity tests."""

from typing import Any

from koordpy.api.core import Namespace, Pod
from koordpy.api.meta import ObjectMeta
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.descheduling.scaledownbinpack.plugin import ScaleDownBinPack

from ..one_plugin import OnePlugin, node, pod

COST = "controller.kubernetes.io/pod-deletion-cost"
WEB = [{"name": "web", "selector": {"matchLabels": {"app": "web"}}}]
NODES = [node("n1"), node("n2"), node("n3")]


def profile(pods: list[dict[str, Any]], *, more: dict[str, Any] | None = None, **fields: Any) -> OnePlugin:
    return OnePlugin(ScaleDownBinPack, NODES, pods, {"podSelectors": WEB} | fields, **(more or {}))


def ranking(run: OnePlugin) -> list[tuple[str, list[str]]]:
    assert isinstance(run.plugin, ScaleDownBinPack)
    return [
        (item.node.metadata.name, [pod.metadata.name for pod in item.pods]) for item in run.plugin.ranking
    ]


async def test_nodes_with_the_least_other_work_are_emptied_first():
    pods = [
        pod("a", "n1", app="web"),
        pod("db", "n1", cpu="2"),
        pod("b", "n2", app="web"),
        pod("c", "n3", cpu="0", memory="0", app="web"),
        pod("tax", "n3"),
    ]
    run = profile(pods)
    await run.cycle()
    assert ranking(run) == [("n2", ["b"]), ("n1", ["a"]), ("n3", ["c"])]


async def test_of_equal_nodes_the_one_with_fewer_pods_is_first():
    run = profile([pod("a", "n1", app="web"), pod("b", "n1", app="web"), pod("c", "n2", app="web")])
    await run.cycle()
    assert ranking(run) == [("n2", ["c"]), ("n1", ["a", "b"])]


async def test_on_a_node_the_biggest_pod_leaves_first_then_the_newest():
    pods = [
        pod(name, "n1", cpu=cpu, app="web") for name, cpu in (("a", "1"), ("b", "1"), ("c", "2"), ("d", "1"))
    ]
    pods[0]["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    pods[1]["metadata"]["creationTimestamp"] = "2026-01-02T00:00:00Z"
    run = profile(pods)
    await run.cycle()
    assert ranking(run) == [("n1", ["c", "b", "a", "d"])]


async def test_extra_weights_count():
    pods = [
        pod("a", "n1", cpu="1", memory="4Gi", app="web"),
        pod("b", "n1", cpu="2", memory="1Gi", app="web"),
    ]
    run = profile(pods, resourceWeights={"cpu": 10})
    await run.cycle()
    assert ranking(run) == [("n1", ["b", "a"])]


async def costs(run_of: Any, pods: list[dict[str, Any]]) -> tuple[dict[str, str], str]:
    """The costs on an API server that does not have the pod `gone`, and the error of the cycle."""
    client = Client(ServerChannel(ApiServer(crds=[])))
    await client.create(Namespace(metadata=ObjectMeta(name="a")))
    for document in pods:
        if document["metadata"]["name"] != "gone":
            await client.create_raw(resource_of(Pod), "a", document)
    status = await run_of(client).cycle()
    found = {
        item.metadata.name: item.metadata.annotations.get(COST, "") for item in await client.list_all(Pod)
    }
    return found, status.error


PODS = [
    pod("kept", "n1", app="web"),
    pod("x", "n1", app="web"),
    pod("other", "n1"),
    pod("y", "n2", app="web"),
    pod("alone", "n3"),
]


async def test_the_rank_becomes_the_deletion_cost():
    found, error = await costs(lambda client: profile(PODS, more={"client": client, "kept": ["kept"]}), PODS)
    assert found == {"y": "0", "x": "1", "kept": "2147483647", "other": "", "alone": ""}
    assert error == ""


async def test_the_status_has_the_number_of_failed_patches():
    pods = [*PODS, pod("gone", "n2", app="web")]
    found, error = await costs(lambda client: profile(pods, more={"client": client}), pods)
    assert error == "failed to patch 1 pods"
    assert found["y"] != ""


async def test_a_dry_run_ranks_and_writes_nothing():
    found, _ = await costs(lambda client: profile(PODS, more={"client": client, "dry_run": True}), PODS)
    assert set(found.values()) == {""}
    run = profile(PODS, strategy="EvictDirectly", maxPodsToEvict=5, more={"dry_run": True})
    await run.cycle()
    assert run.evicted == []
    assert ranking(run) == [("n2", ["y"]), ("n1", ["kept", "x"])]


async def test_evictions_stop_at_the_limit_and_refused_ones_do_not_count():
    run = profile(PODS, strategy="EvictDirectly", maxPodsToEvict=1, more={"failing": ["y"]})
    await run.cycle()
    assert run.calls == [("y", "scale-down binpack"), ("kept", "scale-down binpack")]


async def test_without_eligible_pods_the_last_ranking_stays():
    run = profile(PODS, more={"kept": ["kept", "x", "y"]})
    await run.cycle()
    assert ranking(run) == []


async def test_it_objects_to_nodes_that_it_would_empty_earlier():
    run = profile(PODS, strategy="EvictDirectly", maxPodsToEvict=1, more={"kept": ["kept"]})
    await run.cycle()
    assert run.objection("x", "n2") == "it would be emptied before node n1"
    assert run.objection("y", "n1") is None
    assert run.objection("y", "n3") is None


async def test_ranking_alone_is_no_objection():
    run = profile(PODS)
    await run.cycle()
    assert run.objection("x", "n2") is None
