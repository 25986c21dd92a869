"""Many pods, one or more replicas, and what their quotas say afterwards."""

import asyncio
import random
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tests.integration.admission.quotas import CHILD_REQUEST, QUOTAS, World, pod_of, world

EAGER: Any = {"maxRetries": 20, "conflictFreshGet": True}
CONTESTED = "the object has been modified"


@pytest.fixture
async def quotas() -> AsyncIterator[World]:
    async with world() as made:
        yield made


async def test_one_pod_is_charged_and_the_next_refused(quotas: World) -> None:
    await quotas.add_quota("q", "2", admission='{"cpu":"3"}')
    replica = await quotas.replica()
    assert await replica.refusal(pod_of("q", "2500m")) == ""
    assert await quotas.used("q") == "2500m"
    assert await replica.refusal(pod_of("q")) == (
        "exceeded quota: default/q, requested: cpu=1, used: cpu=2500m, limited: cpu=3"
    )
    assert await quotas.used("q") == "2500m"


async def test_quota_keeps_all_that_is_not_its_account(quotas: World) -> None:
    await quotas.add_quota("q", "2", namespaces='["a"]')
    future = {"spec": {"min": {"cpu": "1"}}, "metadata": {"labels": {"a": "b"}, "finalizers": ["x.y/z"]}}
    before = await quotas.client.patch_raw(QUOTAS, "default", "q", future)
    replica = await quotas.replica()
    assert await replica.refusal(pod_of("q")) == ""
    after = await quotas.client.get_raw(QUOTAS, "default", "q")
    assert after["metadata"]["annotations"].pop(CHILD_REQUEST) == '{"cpu":"1"}'
    for own in ("resourceVersion", "managedFields"):
        before["metadata"].pop(own, None)
        after["metadata"].pop(own, None)
    assert after == before


async def test_pods_that_come_together_are_written_together(quotas: World) -> None:
    await quotas.add_quota("q", "60")
    replica = await quotas.replica()
    refusals = await asyncio.gather(*(replica.refusal(pod_of("q", name=f"p{i}")) for i in range(100)))
    assert refusals[:60] == [""] * 60  # first come, first served
    assert all("exceeded quota" in refusal for refusal in refusals[60:])
    assert await quotas.used("q") == "60"
    assert quotas.writes <= 3


async def test_quotas_do_not_wait_for_each_other(quotas: World) -> None:
    for index in range(20):
        await quotas.add_quota(f"q{index}", "2")
    replica = await quotas.replica()
    asked = [replica.refusal(pod_of(f"q{i % 20}", name=f"p{i}")) for i in range(60)]
    refusals = await asyncio.gather(*asked)
    assert [bool(refusal) for refusal in refusals] == [False] * 40 + [True] * 20
    assert [await quotas.used(f"q{index}") for index in range(20)] == ["2"] * 20


@pytest.mark.parametrize("seed", range(3))
async def test_replicas_together_admit_no_more_than_there_is_and_lose_nothing(
    quotas: World, seed: int
) -> None:
    rng = random.Random(seed)
    await quotas.add_quota("q", "50", used="10")
    replicas = [await quotas.replica(**EAGER) for _ in range(3)]

    async def ask(index: int) -> int:
        cpu = rng.randint(1, 4)
        await asyncio.sleep(rng.random() / 20)
        refusal = await rng.choice(replicas).refusal(pod_of("q", str(cpu), f"p{index}"))
        assert refusal == "" or "exceeded quota: default/q, " in refusal or CONTESTED in refusal
        return 0 if refusal else cpu

    admitted = sum(await asyncio.gather(*map(ask, range(60))))
    assert await quotas.used("q") == str(10 + admitted)
    assert 0 < admitted <= 40


async def test_replicas_that_trust_the_watch_lose_nothing_either(quotas: World) -> None:
    """With koord-manager's default flags a conflict may outlast the retries; no charge gets lost by that."""
    await quotas.add_quota("q", "30")
    replicas = [await quotas.replica() for _ in range(2)]
    asked = [replicas[i % 2].refusal(pod_of("q", name=f"p{i}")) for i in range(80)]
    refusals = await asyncio.gather(*asked)
    admitted = sum(not refusal for refusal in refusals)
    assert await quotas.used("q") == str(admitted)
    assert 0 < admitted <= 30
    assert all(not text or "exceeded quota" in text or CONTESTED in text for text in refusals)


async def test_a_new_replica_goes_on_where_the_old_one_ended(quotas: World) -> None:
    await quotas.add_quota("q", "3")
    first = await quotas.replica()
    assert await first.refusal(pod_of("q", "2")) == ""
    second = await quotas.replica()
    assert "used: cpu=2, limited: cpu=3" in await second.refusal(pod_of("q", "2"))
    assert await second.refusal(pod_of("q")) == ""
    assert await quotas.used("q") == "3"


async def test_own_writes_count_before_the_watch_shows_them(quotas: World) -> None:
    await quotas.add_quota("q", "2")
    blind = await quotas.replica(follows=False)
    refusals = [await blind.refusal(pod_of("q", name=f"p{i}")) for i in range(3)]
    assert [bool(refusal) for refusal in refusals] == [False, False, True]
    assert quotas.writes == 2


async def test_only_the_last_hundred_own_writes_are_remembered(quotas: World) -> None:
    for index in range(101):
        await quotas.add_quota(f"q{index}", "9")
    blind = await quotas.replica(follows=False)
    for index in range(101):
        assert await blind.refusal(pod_of(f"q{index}")) == ""
    assert CONTESTED in await blind.refusal(pod_of("q0"))
    assert await blind.refusal(pod_of("q1")) == ""


async def test_dry_runs_are_judged_and_charge_nothing(quotas: World) -> None:
    await quotas.add_quota("q", "1")
    replica = await quotas.replica()
    for _ in range(3):
        assert await replica.refusal(pod_of("q"), dryRun=True) == ""
    assert "exceeded quota" in await replica.refusal(pod_of("q", "2"), dryRun=True)
    assert (await quotas.used("q"), quotas.writes) == (None, 0)


async def test_pods_that_count_nothing_are_not_written(quotas: World) -> None:
    await quotas.add_quota("q", "1")
    replica = await quotas.replica()
    assert await replica.refusal(pod_of("q", "0")) == ""
    ended = pod_of("q", "5") | {"status": {"phase": "Failed"}}
    assert await replica.refusal(ended) == ""
    assert quotas.writes == 0
