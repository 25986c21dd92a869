"""Preemption by an unschedulable pod."""

import asyncio
from typing import Any

import pytest

from tests.integration.scheduler.extender import Extender
from tests.integration.scheduler.stage import Stage

AT_ONCE: dict[str, Any] = {"terminationGracePeriodSeconds": 0}
"""No kubelet runs here: pods that are given time to end stay until a test ends them."""

LOW: dict[str, Any] = {"priorityClassName": "low", **AT_ONCE}
HIGH: dict[str, Any] = {"priorityClassName": "high"}


@pytest.fixture(autouse=True)
async def priorities(stage: Stage) -> None:
    for name, value in (("low", 10), ("mid", 100), ("high", 1000)):
        await stage.add_priority(name, value)


async def add_full_nodes(stage: Stage, count: int, **spec: Any) -> None:
    """Add nodes n1, n2... of one CPU, each taken by a less important pod (low-n1, low-n2...)."""
    for i in range(1, count + 1):
        await stage.add_node(f"n{i}", cpu="1")
        await stage.add_pod(f"low-n{i}", cpu="1", labels={"on": f"n{i}"}, nodeName=f"n{i}", **{**LOW, **spec})


async def refusal(stage: Stage) -> str:
    """What pod p is told, without what kube-scheduler's DynamicResources adds, which only it has."""
    return (await stage.refusal("p")).replace("no new claims to deallocate, ", "")


async def test_a_more_important_pod_takes_the_place_of_a_less_important_one(stage: Stage) -> None:
    await add_full_nodes(stage, 1)
    await stage.start()
    await stage.add_pod("p", cpu="1", **HIGH)
    assert await stage.node_of("p") == "n1"
    await stage.gone("low-n1")


async def test_as_few_pods_as_possible_are_evicted(stage: Stage) -> None:
    await stage.add_node("n1", cpu="4")
    for i in range(4):
        await stage.add_pod(f"low-{i}", cpu="1", nodeName="n1", **LOW)
    await stage.start()
    await stage.add_pod("p", cpu="2", **HIGH)
    assert await stage.node_of("p") == "n1"
    assert len(await stage.pods()) == 3


async def test_victims_get_a_reason_and_the_preemptor_is_nominated_to_their_node(stage: Stage) -> None:
    await add_full_nodes(stage, 1, terminationGracePeriodSeconds=30)
    await stage.start()
    await stage.add_pod("p", cpu="1", **HIGH)
    preemptor = await stage.nominated("p", "n1")
    events = await stage.all_events("Preempted")
    victim = await stage.pod("low-n1")
    assert victim.metadata.deletion_timestamp is not None
    condition = next(c for c in victim.status.conditions if c.type == "DisruptionTarget")
    assert (condition.status, condition.reason) == ("True", "PreemptionByScheduler")
    assert condition.message == "default-scheduler: preempting to accommodate a higher priority pod"
    assert [(event.regarding.name, event.note) for event in events] == [
        ("low-n1", f"Preempted by pod {preemptor.metadata.uid} on node n1")
    ]
    await stage.delete_pod("low-n1")
    assert await stage.node_of("p") == "n1"


async def test_while_a_victim_ends_no_other_one_is_evicted(stage: Stage) -> None:
    await stage.add_node("n1", cpu="1100m")
    await stage.add_pod("low-n1", cpu="1", nodeName="n1", **{**LOW, "terminationGracePeriodSeconds": 30})
    await stage.add_pod("small", cpu="100m", nodeName="n1", **HIGH)
    await stage.start()
    await stage.add_pod("p", cpu="1", **HIGH)
    await stage.nominated("p", "n1")
    await stage.all_events("Preempted")
    await stage.delete_pod("small")  # another attempt is made, and that is not enough
    await stage.refusal_with("p", "preemption: not eligible due to a terminating pod on the nominated node.")
    assert (await stage.pod("p")).status.nominated_node_name == "n1"


async def test_budgets_are_respected_where_there_is_a_choice(stage: Stage) -> None:
    await add_full_nodes(stage, 3)
    await stage.add_budget("first", {"on": "n1"}, 0)
    await stage.add_budget("second", {"on": "n2"}, 0)
    await stage.add_budget("third", {"on": "n3"}, 1)
    await stage.start()
    await stage.add_pod("p", cpu="1", **HIGH)
    assert await stage.node_of("p") == "n3"
    assert {pod.metadata.name for pod in await stage.pods()} == {"p", "low-n1", "low-n2"}


async def test_budgets_are_violated_where_there_is_none(stage: Stage) -> None:
    await add_full_nodes(stage, 1)
    await stage.add_budget("first", {"on": "n1"}, 0)
    await stage.start()
    await stage.add_pod("p", cpu="1", **HIGH)
    assert await stage.node_of("p") == "n1"


async def test_a_pod_whose_policy_is_never_waits(stage: Stage) -> None:
    await add_full_nodes(stage, 1)
    await stage.add_priority("never", 1000, preemptionPolicy="Never")
    await stage.start()
    await stage.add_pod("p", cpu="1", priorityClassName="never")
    assert await refusal(stage) == (
        "0/1 nodes are available: 1 Insufficient cpu. preemption: not eligible due to preemptionPolicy=Never."
    )
    await stage.pod("low-n1")


async def test_pods_of_equal_priority_are_not_evicted(stage: Stage) -> None:
    await add_full_nodes(stage, 2)
    await stage.start()
    await stage.add_pod("p", cpu="1", **LOW)
    assert await refusal(stage) == (
        "0/2 nodes are available: 2 Insufficient cpu. preemption: 0/2 nodes are available: 2 No preemption "
        "victims found for incoming pod."
    )


async def test_no_pod_is_evicted_where_evictions_would_not_help(stage: Stage) -> None:
    await add_full_nodes(stage, 1)
    await stage.start()
    await stage.add_pod("p", cpu="1", nodeSelector={"disk": "ssd"}, **HIGH)
    assert await refusal(stage) == (
        "0/1 nodes are available: 1 node(s) didn't match Pod's node affinity/selector. preemption: 0/1 nodes "
        "are available: 1 Preemption is not helpful for scheduling."
    )
    await stage.pod("low-n1")


async def test_less_important_pods_lose_the_node_they_were_promised(stage: Stage) -> None:
    await stage.add_node("n1", cpu="2")
    for name in ("low-1", "low-2"):
        spec = {**LOW, "terminationGracePeriodSeconds": 30}
        await stage.add_pod(name, cpu="1", nodeName="n1", **spec)
    await stage.start()
    await stage.add_pod("mid", cpu="1", priorityClassName="mid")
    await stage.nominated("mid", "n1")
    await stage.add_pod("p", cpu="2", **HIGH)
    await stage.nominated("p", "n1")
    await stage.nominated("mid", "")
    while {event.regarding.name for event in await stage.events("Preempted")} != {"low-1", "low-2"}:
        await asyncio.sleep(0.05)
    await stage.delete_pod("low-1")
    await stage.delete_pod("low-2")
    assert await stage.node_of("p") == "n1"


# --- extenders -----------------------------------------------------------------------------------


def keep_only(*names: str) -> Any:
    """A preempt answer that agrees to the victims of some nodes."""

    def answer(args: dict[str, Any]) -> dict[str, Any]:
        proposed = args["NodeNameToMetaVictims"]
        return {"NodeNameToMetaVictims": {name: proposed[name] for name in names if name in proposed}}

    return answer


async def test_an_extender_gets_the_victims_and_drops_nodes(stage: Stage) -> None:
    await add_full_nodes(stage, 3)
    victims = {pod.metadata.name: pod.metadata.uid for pod in await stage.pods()}
    async with Extender(preempt=keep_only("n2")) as extender:
        await stage.start(extender.entry("preempt"))
        await stage.add_pod("p", cpu="1", **HIGH)
        assert await stage.node_of("p") == "n2"
        args = extender.asked("preempt")[0]
    assert args["NodeNameToVictims"] is None
    assert args["NodeNameToMetaVictims"] == {
        node: {"Pods": [{"UID": victims[f"low-{node}"]}], "NumPDBViolations": 0}
        for node in ("n1", "n2", "n3")
    }
    assert args["Pod"]["metadata"]["name"] == "p"
    await stage.gone("low-n2")


async def test_an_extender_without_a_cache_gets_whole_victims(stage: Stage) -> None:
    await add_full_nodes(stage, 1)
    await stage.add_budget("first", {"on": "n1"}, 0)

    def agree(args: dict[str, Any]) -> dict[str, Any]:
        victims = args["NodeNameToVictims"]["n1"]
        uids = [{"UID": pod["metadata"]["uid"]} for pod in victims["Pods"]]
        return {"nodeNameToMetaVictims": {"n1": {"pods": uids, "numPDBViolations": 1}}}

    async with Extender(preempt=agree) as extender:
        await stage.start(extender.entry("preempt", nodeCacheCapable=False))
        await stage.add_pod("p", cpu="1", **HIGH)
        assert await stage.node_of("p") == "n1"
        args = extender.asked("preempt")[0]
    assert args["NodeNameToMetaVictims"] is None
    victims = args["NodeNameToVictims"]["n1"]
    assert victims["NumPDBViolations"] == 1
    assert [pod["metadata"]["name"] for pod in victims["Pods"]] == ["low-n1"]


async def test_no_pod_is_evicted_where_extenders_drop_every_node(stage: Stage) -> None:
    await add_full_nodes(stage, 2)
    async with Extender(preempt=keep_only()) as extender:
        await stage.start(extender.entry("preempt"))
        await stage.add_pod("p", cpu="1", **HIGH)
        assert await refusal(stage) == (
            "0/2 nodes are available: 2 Insufficient cpu. preemption: no candidate node for preemption"
        )
    assert len(await stage.pods()) == 3


async def test_an_extender_that_fails_stops_the_preemption(stage: Stage) -> None:
    await add_full_nodes(stage, 1)
    async with Extender(preempt=lambda _: 500) as extender:
        await stage.start(extender.entry("preempt"))
        await stage.add_pod("p", cpu="1", **HIGH)
        message = await stage.refusal("p")
        assert message == (
            "0/1 nodes are available: 1 Insufficient cpu. preemption: failed preempt with extender at URL "
            f"{extender.server.url}/extender/preempt, code 500"
        )


async def test_an_extender_that_fails_and_can_be_ignored_stops_nothing(stage: Stage) -> None:
    await add_full_nodes(stage, 1)
    async with Extender(preempt=lambda _: 500) as extender:
        await stage.start(extender.entry("preempt", ignorable=True))
        await stage.add_pod("p", cpu="1", **HIGH)
        assert await stage.node_of("p") == "n1"


async def test_an_extender_cannot_invent_victims(stage: Stage) -> None:
    await add_full_nodes(stage, 1)
    invented = {"NodeNameToMetaVictims": {"n1": {"Pods": [{"UID": "nobody"}], "NumPDBViolations": 0}}}
    async with Extender(preempt=lambda _: invented) as extender:
        await stage.start(extender.entry("preempt"))
        await stage.add_pod("p", cpu="1", **HIGH)
        message = await stage.refusal("p")
    assert "on node: n1, but the pod is not found on that node" in message


async def test_an_extender_that_is_not_interested_in_a_pod_is_not_called(stage: Stage) -> None:
    await add_full_nodes(stage, 1)
    async with Extender(preempt=lambda _: 500) as extender:
        managed = [{"name": "example.com/widget"}]
        await stage.start(extender.entry("preempt", managedResources=managed))
        await stage.add_pod("p", cpu="1", **HIGH)
        assert await stage.node_of("p") == "n1"
        assert not extender.asked("preempt")
