"""Gangs that compete for room: each contest ends, no gang is left partly bound, and none waits that fits.

`KOORDPY_CONTESTS=100` plays more than `make test`.
"""

import asyncio
import json
import os
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_name
from koordpy.api.koordinator import PodGroup
from koordpy.lib import simulated_time
from koordpy.lib.simulated_time import SimulatedLoop
from tests.faults.competing import (
    FORGOTTEN,
    NAMESPACE,
    Competing,
    Document,
    cpus,
    pod_document,
    take_turns,
)

CONTESTS = int(os.environ.get("KOORDPY_CONTESTS", "0"))
GANG = "gang.scheduling.koordinator.sh/"
WAIT = 60.0
"""The longest time in seconds that members of these gangs wait for each other."""
QUIET = 120.0
"""Seconds without a change after which a contest is over; the longest backoff is 10 seconds."""
LIMIT = 3600.0


def profile(**args: Any) -> Document:
    """Return a scheduler configuration with Coscheduling."""
    chain = {"filter": {"enabled": [{"name": "NodeResourcesFit"}]}}
    return {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [
            {
                "schedulerName": "default-scheduler",
                "plugins": {"multiPoint": {"enabled": [{"name": "Coscheduling"}]}, **chain},
                "pluginConfig": [{"name": "Coscheduling", "args": {"defaultTimeout": "60s", **args}}],
            }
        ],
    }


class Gangs(Competing):
    """A cluster in which gangs compete."""

    def __init__(self, loop: SimulatedLoop, folder: Path, seed: int, *, replicas: int = 1) -> None:
        super().__init__(loop, folder, seed, profile(), replicas=replicas)
        self.minimum: dict[str, int] = {}
        self.partly_since: dict[str, float] = {}
        self.partly_for: dict[str, float] = {}
        """For how many seconds at most a gang was partly bound, by its name."""
        self.witness.checks.append(self._partly)

    def _partly(self, now: float) -> Iterable[str]:
        bound: dict[str, int] = defaultdict(int)
        for pod in self.witness.bound.values():
            bound[gang_name(pod)] += 1
        for name, minimum in self.minimum.items():
            if 0 < bound[name] < minimum:
                self.partly_since.setdefault(name, now)
            elif name in self.partly_since:
                self._ends(name, now)
        return ()

    def _ends(self, name: str, now: float) -> None:
        seconds = now - self.partly_since.pop(name)
        self.partly_for[name] = max(seconds, self.partly_for.get(name, 0.0))

    async def add_gang(
        self, name: str, members: int, cpu: str = "1", *, group: Sequence[str] = (), minimum: int = 0
    ) -> None:
        """Create the pods of a gang."""
        for document in self.members(name, members, cpu, group=group, minimum=minimum):
            await self.add_pod(document)

    def members(
        self, name: str, members: int, cpu: str = "1", *, group: Sequence[str] = (), minimum: int = 0
    ) -> list[Document]:
        """Return the pods of a gang of annotations."""
        self.minimum[name] = minimum or members
        annotations = {
            f"{GANG}name": name,
            f"{GANG}min-available": str(minimum or members),
            f"{GANG}waiting-time": f"{WAIT:g}s",
        }
        if group:
            annotations[f"{GANG}groups"] = json.dumps([f"{NAMESPACE}/{each}" for each in group])
        return [pod_document(f"{name}-{n}", cpu, annotations=annotations) for n in range(members)]

    async def remove_gang(self, name: str) -> None:
        """Delete the pods of a gang."""
        self.minimum.pop(name, None)
        for pod in await self.pods():
            if gang_name(pod) == name:
                await self.remove(pod)

    async def bound(self) -> dict[str, int]:
        """Return how many pods of each gang are bound; gangs without one are missing."""
        found: dict[str, int] = defaultdict(int)
        for pod in await self.pods():
            if pod.spec.node_name:
                found[gang_name(pod)] += 1
        return dict(found)

    async def whole(self) -> set[str]:
        """Return the gangs that are bound; fails for one that is partly bound."""
        bound = await self.bound()
        partly = {name: n for name, n in bound.items() if name in self.minimum and n < self.minimum[name]}
        assert not partly, f"partly bound: {partly}"
        return set(bound)

    async def assert_no_gang_waits_that_fits(self) -> None:
        """Try what waits on the free CPUs of nodes: whole groups, and single pods of gangs that are bound."""
        bound, free = await self.bound(), await self.free()
        waiting: dict[tuple[str, ...], list[Pod]] = defaultdict(list)
        for pod in await self.pods():
            if not pod.spec.node_name:
                waiting[self.group_of(pod)].append(pod)
        for group, pods in waiting.items():
            amount = cpus(pods[0])
            slots = sum(cpu // amount for cpu in free.values())
            if any(name in bound for name in group):
                assert not slots, f"{pods[0].metadata.name} of a gang that is bound fits: {free}"
                continue
            there = Counter(gang_name(pod) for pod in pods)
            if all(there[name] >= self.minimum.get(name, 1 << 30) for name in group):
                needed = sum(self.minimum[name] for name in group)
                assert slots < needed, f"gangs {group} fit: {free}"

    @staticmethod
    def group_of(pod: Pod) -> tuple[str, ...]:
        """Return the gangs of the group of a pod; all pods of a group request the same."""
        group = pod.metadata.annotations.get(f"{GANG}groups")
        if group is None:
            return (gang_name(pod),)
        return tuple(each.partition("/")[2] for each in json.loads(group))

    def assert_waited_no_longer_than_allowed(self) -> None:
        """No gang was partly bound for longer than its members may wait."""
        now = self.clock.monotonic()
        for name in list(self.partly_since):
            self._ends(name, now)
        late = {name: seconds for name, seconds in self.partly_for.items() if seconds > WAIT}
        assert not late, late


def nodes(count: int, cpu: int) -> dict[str, dict[str, str]]:
    return {f"n{n:03d}": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"} for n in range(count)}


def play(folder: Path, seed: int, story: Any, **options: Any) -> None:
    async def played(cluster: Gangs) -> None:
        try:
            await story(cluster)
            await cluster.assert_no_node_is_over_committed()
            assert cluster.witness.problems == []
        finally:
            await cluster.stop()

    simulated_time.run(lambda loop: played(Gangs(loop, folder, seed, **options)))


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
