"""A worker that is killed at any write of a migration, and what the next one makes of it."""

import random
from functools import partial

import pytest

from koordpy.api.core import PodDisruptionBudget
from koordpy.api.scheme import resource_of
from koordpy.embedded.apiserver import Fault
from koordpy.lib.simulated_time import SimulatedLoop, run
from koordpy_plugins.descheduling.migrationcontroller.evictions import Policy
from tests.faults.migrating import Worker, World

LONGEST = 400.0


async def writes(loop: SimulatedLoop, pods: int, mode: str, policy: Policy) -> list[str]:
    """Return the writes of migrations that nothing disturbs."""
    world = World(loop, policy)
    await world.begin(pods, mode=mode)
    worker = Worker(world)
    assert await world.live(worker, LONGEST)
    return worker.wire.writes


@pytest.mark.parametrize("policy", [Policy.EVICTION, Policy.DELETE, Policy.SOFT_EVICTION])
@pytest.mark.parametrize("mode", ["ReservationFirst", "EvictDirectly"])
def test_a_kill_at_any_write_neither_repeats_an_eviction_nor_leaves_anything(
    mode: str, policy: Policy
) -> None:
    undisturbed = run(lambda loop: writes(loop, 2, mode, policy))

    async def story(loop: SimulatedLoop, number: int, after: bool) -> None:
        world = World(loop, policy)
        await world.begin(2, mode=mode)
        first = Worker(world)
        first.wire.dies_at, first.wire.dies_after = number, after
        await world.live(first, LONGEST)
        assert first.wire.dead.is_set()
        assert await world.live(Worker(world), LONGEST)
        phases = {job.metadata.name: job.status.phase for job in await world.jobs()}
        assert phases == {"job-0": "Succeeded", "job-1": "Succeeded"}, undisturbed[number - 1]
        if policy is not Policy.DELETE:
            assert world.evictions == dict.fromkeys(world.uids.values(), 1), undisturbed[number - 1]

    for number in range(1, len(undisturbed) + 1):
        for after in (False, True):
            run(partial(story, number=number, after=after))


def test_a_budget_lets_one_pod_go_at_a_time_though_the_worker_is_killed() -> None:
    async def story(loop: SimulatedLoop) -> None:
        world = World(loop)
        await world.begin(4)
        budget = {
            "apiVersion": "policy/v1",
            "kind": "PodDisruptionBudget",
            "metadata": {"name": "b"},
            "spec": {"minAvailable": 3, "selector": {"matchLabels": {"app": "web"}}},
        }
        await world.client.create_raw(resource_of(PodDisruptionBudget), "default", budget)
        for number in (9, 17, 25):
            worker = Worker(world)
            worker.wire.dies_at = number
            await world.live(worker, 20.0)
        assert await world.live(Worker(world), LONGEST)
        assert world.evictions == dict.fromkeys(world.uids.values(), 1)

    run(story)


REFUSED = (Fault(status=409), Fault(status=500), Fault(status=503), Fault(status=429), Fault(cut=True))
UNANSWERED = (Fault(status=500, after=True), Fault(status=504, after=True), Fault(cut=True, after=True))


@pytest.mark.parametrize(
    "faults", [REFUSED, UNANSWERED, REFUSED + UNANSWERED], ids=["refused", "unanswered", "both"]
)
def test_failing_writes_neither_repeat_an_eviction_nor_leave_anything(faults: tuple[Fault, ...]) -> None:
    async def story(loop: SimulatedLoop, seed: int) -> None:
        world, rng = World(loop), random.Random(seed)
        await world.begin(5, ttl="1h")
        worker = Worker(world)
        worker.wire.troubles = lambda method, path: rng.choice(faults) if rng.random() < 0.4 else None
        assert await world.live(worker, 1000.0)
        assert world.evictions == dict.fromkeys(world.uids.values(), 1)
        assert {job.status.phase for job in await world.jobs()} == {"Succeeded"}

    for seed in range(10):
        run(partial(story, seed=seed))


def test_a_job_that_never_passes_arbitration_ends_with_its_ttl() -> None:
    async def story(loop: SimulatedLoop) -> None:
        world = World(loop)
        await world.begin(2, ttl="1m")
        worker = Worker(world, may_start=lambda job: False)
        assert not await world.live(worker, 59.0)
        assert [job.status.phase for job in await world.jobs()] == ["", ""]
        assert await world.live(Worker(world, may_start=lambda job: False), 3.0)
        assert {(job.status.phase, job.status.reason) for job in await world.jobs()} == {
            ("Failed", "Timeout")
        }
        assert not world.evictions

    run(story)
