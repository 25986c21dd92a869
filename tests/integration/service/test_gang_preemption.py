"""Gangs that preempt, beside a scheduler that knows nothing of gangs."""

import json
from pathlib import Path

from .preempting import cluster

ONE_BLOCK = json.dumps({"gatherStrategy": [{"layer": "BlockLayer", "strategy": "MustGather"}]})


JOINT = {"enablePreemption": True, "preemptionJointFit": True}


async def test_a_gang_takes_the_places_of_as_many_less_important_pods_as_it_has_members(
    tmp_path: Path,
) -> None:
    async with cluster(tmp_path, JOINT, nodes=4) as stage:
        await stage.add_gang("high", 3)
        await stage.until(lambda: stage.bound("high", 3), "the gang is not bound")
        left = [name for name in await stage.pods() if name.startswith("low-")]
        assert len(left) == 1


async def test_nobody_is_evicted_for_a_gang_that_would_not_fit_even_then(tmp_path: Path) -> None:
    async with cluster(tmp_path, JOINT, nodes=2) as stage:
        await stage.add_gang("high", 3)

        async def told() -> bool:
            pods = await stage.pods()
            return any(
                condition.type == "PodScheduled" and condition.status == "False"
                for name, pod in pods.items()
                if name.startswith("high-")
                for condition in pod.status.conditions
            )

        await stage.until(told, "no member is told anything")
        # What comes later is scheduled, so the gang has been tried by then.
        await stage.end("low-n1")
        await stage.add_pod("small-1", "100m", "low")
        await stage.until(lambda: stage.bound("small", 1), "the small pod is not bound")
        assert "low-n2" in await stage.pods()


async def test_while_victims_take_their_time_no_others_are_evicted(tmp_path: Path) -> None:
    async with cluster(tmp_path, JOINT, nodes=4, terminationGracePeriodSeconds=600) as stage:
        await stage.add_gang("high", 2)

        async def two_terminate() -> list[str]:
            names = await stage.terminating()
            return names if len(names) == 2 else []

        victims = await stage.until(two_terminate, "no two pods are evicted")
        await stage.end(victims[0])  # another attempt is made, and that is not enough

        async def nominated() -> bool:
            pods = await stage.pods()
            return all(pods[f"high-{number}"].status.nominated_node_name for number in range(2))

        await stage.until(nominated, "the members are not nominated")
        assert await stage.terminating() == victims[1:]
        await stage.end(victims[1])
        await stage.until(lambda: stage.bound("high", 2), "the gang is not bound")
        left = [name for name in await stage.pods() if name.startswith("low-")]
        assert len(left) == 2
        assert await stage.terminating() == []


async def test_two_gangs_that_compete_for_the_same_victims_evict_each_pod_once(tmp_path: Path) -> None:
    async with cluster(tmp_path, JOINT, nodes=4) as stage:
        await stage.add_gang("one", 2)
        await stage.add_gang("two", 2)
        await stage.until(lambda: stage.bound("one", 2), "the first gang is not bound")
        await stage.until(lambda: stage.bound("two", 2), "the second gang is not bound")
        assert not [name for name in await stage.pods() if name.startswith("low-")]


async def test_a_gang_that_wants_one_block_evicts_pods_of_one_block(tmp_path: Path) -> None:
    async with cluster(tmp_path, {**JOINT, "awareNetworkTopology": True}, nodes=6) as stage:
        await stage.end("low-n2")
        await stage.end("low-n5")
        await stage.add_gang("high", 2, wanted=ONE_BLOCK)
        await stage.until(lambda: stage.bound("high", 2), "the gang is not bound")
        pods = await stage.pods()
        nodes = {pods[f"high-{number}"].spec.node_name for number in range(2)}
        assert nodes in ({"n1", "n2"}, {"n3", "n4"}, {"n5", "n6"})
        left = {name.removeprefix("low-") for name in pods if name.startswith("low-")}
        assert left == {"n1", "n3", "n4", "n6"} - nodes
