"""CustomPriority by its steps; whole cycles are compared with Koordinator's own in the parity tests."""

from typing import Any

import pytest

from koordpy.api.core import Node
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.embedded.apiserver import ApiServer
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.descheduling.custompriority.plugin import CustomPriority

from ..one_plugin import OnePlugin, node, pod


def levels(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "nodeSelector": {"matchLabels": {"tier": name}}} for name in names]


def profile(
    nodes: list[dict[str, Any]],
    pods: list[dict[str, Any]],
    *,
    more: dict[str, Any] | None = None,
    **fields: Any,
) -> OnePlugin:
    args = {"evictionOrder": levels("gold", "silver", "bronze")} | fields
    return OnePlugin(CustomPriority, nodes, pods, args, **(more or {}))


NODES = [node("gold", tier="gold"), node("silver", tier="silver"), node("bronze", tier="bronze")]


async def test_pods_leave_every_level_but_the_cheapest_smallest_first():
    run = profile(
        NODES, [pod("big", "gold", cpu="2"), pod("small", "gold"), pod("s", "silver"), pod("b", "bronze")]
    )
    await run.cycle()
    assert run.calls == [
        ("small", "evicting from gold priority resource to lower priority resource"),
        ("big", "evicting from gold priority resource to lower priority resource"),
        ("s", "evicting from silver priority resource to lower priority resource"),
    ]


async def test_pods_of_any_phase_are_evicted_without_a_fit_check():
    run = profile(
        NODES, [pod("done", "gold", phase="Succeeded"), pod("huge", "gold", cpu="99")], nodeFit=False
    )
    await run.cycle()
    assert run.evicted == ["done", "huge"]


async def test_five_misses_in_a_row_end_the_check_of_a_node():
    picky = [pod(f"p{index}", "gold", cpu="100m") for index in range(5)]
    for document in picky:
        document["spec"]["nodeSelector"] = {"tier": "gold"}
    run = profile(NODES, [*picky, pod("fits", "gold", cpu="200m")])
    await run.cycle()
    assert run.evicted == []
    run = profile(NODES, [*picky[:4], pod("fits", "gold", cpu="200m")])
    await run.cycle()
    assert run.evicted == ["fits"]


async def test_a_level_without_nodes_is_no_target():
    run = profile([NODES[0], node("other")], [pod("p", "gold")])
    await run.cycle()
    assert run.evicted == []


async def test_a_level_with_an_invalid_selector_has_no_nodes():
    order = levels("gold", "silver", "bronze")
    order[0]["nodeSelector"] = {"matchExpressions": [{"key": "tier", "operator": "Bad"}]}
    run = profile(NODES, [pod("g", "gold"), pod("s", "silver")], evictionOrder=order)
    await run.cycle()
    assert run.evicted == ["s"]


async def test_an_invalid_node_selector_is_the_error_of_the_cycle():
    run = profile(NODES, [], nodeSelector={"matchExpressions": [{"key": "tier", "operator": "Bad"}]})
    assert "Bad" in (await run.cycle()).error


async def test_a_node_is_drained_only_if_all_its_pods_find_room():
    nodes = [node("g1", tier="gold"), node("g2", tier="gold"), node("bronze", cpu="3", tier="bronze")]
    pods = [pod("1a", "g1", cpu="2"), pod("1b", "g1", cpu="2"), pod("2a", "g2"), pod("2b", "g2", cpu="2")]
    run = profile(nodes, pods, mode="DrainNode")
    await run.cycle()
    assert run.calls == [
        ("2a", "drain node g2 (sourcePriority=gold)"),
        ("2b", "drain node g2 (sourcePriority=gold)"),
    ]


async def test_room_of_earlier_drains_is_taken():
    nodes = [node("g1", tier="gold"), node("g2", tier="gold"), node("bronze", cpu="3", tier="bronze")]
    pods = [pod("1", "g1", cpu="2"), pod("2", "g2", cpu="2")]
    run = profile(nodes, pods, mode="DrainNode", more={"failing": ["1"]})
    await run.cycle()
    assert run.evicted == ["1"]  # its room stays taken though it was not evicted


class ApiNodes:
    """An API server with the nodes of a test."""

    def __init__(self) -> None:
        self.client = Client(ServerChannel(ApiServer(crds=[])))

    async def create(self, nodes: list[dict[str, Any]]) -> None:
        for document in nodes:
            await self.client.create_raw(resource_of(Node), "", document)

    async def cordoned(self) -> list[str]:
        nodes = await self.client.list_all(Node)
        return sorted(item.metadata.name for item in nodes if item.spec.unschedulable)


@pytest.mark.parametrize(
    ("failing", "dry_run", "expected"),
    [([], False, ["gold", "silver"]), (["g2"], False, ["silver"]), ([], True, [])],
    ids=[
        "a drained node stays cordoned",
        "a refused eviction undoes it",
        "not in a dry run of the descheduler",
    ],
)
async def test_auto_cordon(failing: list[str], dry_run: bool, expected: list[str]):
    api = ApiNodes()
    await api.create(NODES)
    pods = [pod("g1", "gold"), pod("g2", "gold", cpu="2"), pod("s", "silver", cpu="100m")]
    more = {"client": api.client, "failing": failing, "dry_run": dry_run}
    run = profile(NODES, pods, mode="DrainNode", autoCordon=True, more=more)
    assert (await run.cycle()).is_success
    assert await api.cordoned() == expected


async def test_a_failed_cordon_does_not_stop_the_drain():
    api = ApiNodes()  # has no nodes
    run = profile(NODES, [pod("g", "gold")], mode="DrainNode", autoCordon=True, more={"client": api.client})
    assert (await run.cycle()).is_success
    assert run.evicted == ["g"]


async def test_a_dry_run_of_the_plugin_evicts_nothing():
    run = profile(NODES, [pod("g", "gold")], dryRun=True)
    await run.cycle()
    assert run.evicted == []


@pytest.mark.parametrize("mode", ["BestEffort", "DrainNode"])
async def test_it_objects_to_nodes_that_it_would_empty_again(mode: str):
    run = profile([*NODES, node("gold2", tier="gold"), node("none")], [pod("p", "gold")], mode=mode)
    await run.cycle()
    assert run.objection("p", "gold2") == "its level gold would be emptied towards cheaper nodes again"
    assert run.objection("p", "silver") == "its level silver would be emptied towards cheaper nodes again"
    assert run.objection("p", "bronze") is None
    assert run.objection("p", "none") is None


@pytest.mark.parametrize("mode", ["BestEffort", "DrainNode"])
async def test_it_does_not_object_where_no_cheaper_node_has_room(mode: str):
    run = profile([*NODES[:2], node("bronze", cpu="500m", tier="bronze")], [pod("p", "gold")], mode=mode)
    await run.cycle()
    assert run.objection("p", "silver") is None


async def test_a_node_that_could_not_be_drained_whole_is_no_objection():
    pods = [pod("p", "gold"), pod("q", "silver", cpu="4")]
    draining, best_effort = profile(NODES, pods, mode="DrainNode"), profile(NODES, pods)
    await draining.cycle()
    await best_effort.cycle()
    assert draining.objection("p", "silver") is None
    assert best_effort.objection("p", "silver") is not None
