import asyncio
from collections import Counter

from tests.eventually import PATIENCE
from tests.integration.scheduler.stage import Stage


async def test_bound_pods_get_a_condition_and_an_event(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.add_pod("p")
    assert await stage.node_of("p") == "n1"
    conditions = {c.type: c.status for c in (await stage.pod("p")).status.conditions}
    assert conditions["PodScheduled"] == "True"


async def test_a_bound_pod_has_an_event(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.start()
    await stage.add_pod("p")
    await stage.node_of("p")
    events = await stage.all_events("Scheduled")
    assert [event.note for event in events] == ["Successfully assigned default/p to n1"]


async def test_pods_of_other_schedulers_are_left_alone(stage: Stage) -> None:
    await stage.add_node("n1")
    await stage.add_pod("theirs", schedulerName="somebody-else")
    await stage.start()
    await stage.add_pod("ours")
    await stage.node_of("ours")
    assert not (await stage.pod("theirs")).spec.node_name


async def test_no_node_is_over_committed(stage: Stage) -> None:
    """300 pods of a CPU on 20 nodes of 14: 280 fit, 14 on each."""
    await asyncio.gather(*(stage.add_node(f"n{i:02}", cpu="14") for i in range(20)))
    await stage.start()
    await asyncio.gather(*(stage.add_pod(f"p{i:03}", cpu="1") for i in range(300)))

    async def counts() -> Counter[str]:
        return Counter(pod.spec.node_name for pod in await stage.pods())

    async with asyncio.timeout(PATIENCE):
        while (await counts())[""] > 20:
            await asyncio.sleep(0.05)
    assert await counts() == {"": 20, **{f"n{i:02}": 14 for i in range(20)}}


async def test_a_restart_in_the_middle_binds_every_pod_once(stage: Stage) -> None:
    await asyncio.gather(*(stage.add_node(f"n{i:02}", cpu="10") for i in range(20)))
    await asyncio.gather(*(stage.add_pod(f"p{i:03}", cpu="1") for i in range(200)))
    await stage.start()
    while not any(pod.spec.node_name for pod in await stage.pods()):
        await asyncio.sleep(0)
    await stage.stop()
    before = {pod.metadata.name: pod.spec.node_name for pod in await stage.pods() if pod.spec.node_name}
    await stage.start()
    after = {pod.metadata.name: pod.spec.node_name for pod in await stage.all_bound(200)}
    assert before.items() <= after.items()
    assert Counter(after.values()) == {f"n{i:02}": 10 for i in range(20)}
