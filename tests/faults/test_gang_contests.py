"""Gangs that compete for room: each contest ends, no gang is left partly bound, and none waits that fits.

`KOORDPY_CONTESTS=100` plays more than `make test`.
"""

import asyncio
import os
from pathlib import Path

import pytest

from koordpy.api.koordinator import PodGroup
from tests.faults.competing import FORGOTTEN, pod_document, take_turns
from tests.faults.competing_gangs import GANG, LIMIT, QUIET, WAIT, Gangs, nodes, play

CONTESTS = int(os.environ.get("KOORDPY_CONTESTS", "0"))

# --- stories -----------------------------------------------------------------------------------------


async def interleaved_groups(cluster: Gangs) -> None:
    """Two groups, {A, B} and {C, D}, arrive as A C B D, and there is room for one of them."""
    await cluster.start(nodes(4, 4))
    gangs = {
        "a": cluster.members("a", 5, group=("a", "b")),
        "c": cluster.members("c", 5, group=("c", "d")),
        "b": cluster.members("b", 5, group=("a", "b")),
        "d": cluster.members("d", 5, group=("c", "d")),
    }
    if cluster.rng.random() < 0.5:  # pod by pod
        documents = [document for each in zip(*gangs.values(), strict=True) for document in each]
    else:
        documents = [document for each in gangs.values() for document in each]
    cluster.fail(cluster.rng.choice((0.0, 0.2)))
    for document in documents:
        await cluster.add_pod(document)
        if cluster.rng.random() < 0.3:
            await cluster.pause()
    await cluster.settle(QUIET, LIMIT)
    cluster.fail(0.0)
    await cluster.settle(QUIET, LIMIT)
    won = await cluster.whole()
    assert won in ({"a", "b"}, {"c", "d"}), won
    for name in won:
        await cluster.remove_gang(name)
    await cluster.settle(QUIET, LIMIT)
    assert await cluster.whole() == {"a", "b", "c", "d"} - won
    cluster.assert_waited_no_longer_than_allowed()
    await cluster.assert_nothing_is_left()


async def room_for_half(cluster: Gangs) -> None:
    """255 pods in gangs of all sizes; there is room for half of them at a time."""
    await cluster.start(nodes(32, 4))
    left, documents = 255, []
    while left:
        size = min(left, cluster.rng.randint(1, 16))
        left -= size
        documents += cluster.members(cluster.name("g"), size)
    cluster.rng.shuffle(documents)
    cluster.fail(cluster.rng.choice((0.0, 0.1)))
    for document in documents:
        await cluster.add_pod(document)
    done: set[str] = set()
    while cluster.minimum:
        await cluster.settle(QUIET, LIMIT)
        bound = await cluster.whole()
        await cluster.assert_no_gang_waits_that_fits()
        assert bound, "no gang is bound"
        for name in cluster.rng.sample(sorted(bound), (len(bound) + 1) // 2):
            await cluster.remove_gang(name)
            done.add(name)
    assert not await cluster.pods()
    cluster.assert_waited_no_longer_than_allowed()
    await cluster.assert_nothing_is_left()


async def anything(cluster: Gangs) -> None:
    """Gangs of all kinds come and go, nodes too, while binds fail and processes are killed."""
    rng, amounts = cluster.rng, nodes(8, 4)
    await cluster.start(amounts)

    async def add() -> None:
        names = [cluster.name("g") for _ in range(rng.choice((1, 1, 1, 2, 3)))]
        cpu, group = rng.choice(("500m", "1", "2")), names if len(names) > 1 else ()
        documents = []
        for name in names:
            members = rng.randint(1, 8)
            least = rng.choice((members, members, max(members - 2, 1)))
            made = cluster.members(name, members, cpu, group=group, minimum=least)
            for document in made:
                document["metadata"]["annotations"] |= kind
            documents += made
        rng.shuffle(documents)
        for document in documents:
            await cluster.add_pod(document)

    async def add_pod_group() -> None:
        name, members = cluster.name("g"), rng.randint(1, 8)
        cluster.minimum[name] = members
        documents = [
            pod_document(f"{name}-{n}", "1", labels={"pod-group.scheduling.sigs.k8s.io": name})
            for n in range(members)
        ]
        steps = [cluster.create(PodGroup, name, {"minMember": members, "scheduleTimeoutSeconds": int(WAIT)})]
        steps += [cluster.add_pod(document) for document in documents]
        rng.shuffle(steps)
        for step in steps:
            await step

    async def remove_gang() -> None:
        if cluster.minimum:
            await cluster.remove_gang(rng.choice(sorted(cluster.minimum)))

    async def remove_pod() -> None:
        pods = await cluster.pods()
        if pods:
            await cluster.remove(rng.choice(pods))

    async def renew_node() -> None:
        name = rng.choice(sorted(amounts))
        await cluster.remove_node(name)
        await cluster.pause()
        await cluster.add_node(name, amounts[name])

    kind = {f"{GANG}match-policy": rng.choice(("once-satisfied", "waiting-and-running", "only-waiting"))}
    if rng.random() < 0.3:
        kind[f"{GANG}mode"] = "NonStrict"
    cluster.fail(rng.choice((0.0, 0.15)))
    await take_turns(
        rng,
        40,
        [
            (add, 6),
            (add_pod_group, 3),
            (remove_gang, 4),
            (remove_pod, 3),
            (renew_node, 1),
            (cluster.kill, 1),
            (cluster.fail_over, 1),
        ],
    )
    cluster.fail(0.0)
    await cluster.settle(QUIET + 300, LIMIT)
    assert cluster.witness.binds > 10
    if kind[f"{GANG}match-policy"] == "once-satisfied":
        await cluster.assert_no_gang_waits_that_fits()
    await cluster.remove_what_waits_in_vain()
    await asyncio.sleep(FORGOTTEN)
    await cluster.assert_memory_equals_a_rebuild()
    await cluster.assert_nothing_is_left()


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("seed", range(CONTESTS or 3))
def test_whatever_happens_no_gang_waits_that_fits_and_nothing_is_left_over(
    seed: int, replicas: int, tmp_path: Path
) -> None:
    play(tmp_path, seed, anything, replicas=replicas)


@pytest.mark.parametrize("seed", range(CONTESTS or 6))
def test_of_two_groups_that_arrive_interleaved_one_is_bound_whole(seed: int, tmp_path: Path) -> None:
    play(tmp_path, seed, interleaved_groups)


@pytest.mark.parametrize("seed", range(CONTESTS or 3))
def test_gangs_that_compete_for_half_the_room_are_bound_whole_one_after_the_other(
    seed: int, tmp_path: Path
) -> None:
    play(tmp_path, seed, room_for_half)
