"""Pods that compete for quotas: no quota is exceeded at any moment, each contest ends, nothing is left over.

`KOORDPY_CONTESTS=100` plays more than `make test`.
"""

import asyncio
import os
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.core import Pod, PriorityClass
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.meta import ObjectMeta
from koordpy.lib import simulated_time
from koordpy.lib.simulated_time import SimulatedLoop
from tests.audited import Crowded, assert_clean
from tests.faults.competing import (
    FORGOTTEN,
    NAMESPACE,
    WORKLOAD,
    Competing,
    Document,
    cpus,
    pod_document,
    profile,
    take_turns,
)

CONTESTS = int(os.environ.get("KOORDPY_CONTESTS", "0"))
QUOTA = "quota.scheduling.koordinator.sh/"
NAME = f"{QUOTA}name"
QUIET = 400.0
"""Seconds without a change after which a contest is over: kube-scheduler retries pods after 300."""
LIMIT = 7200.0
IMPORTANT = "important"
"""The priority class of pods that preempt others."""


class Quotas(Competing):
    """A cluster with quotas of one level below parents."""

    def __init__(
        self, loop: SimulatedLoop, folder: Path, seed: int, args: Document, *, replicas: int = 1
    ) -> None:
        super().__init__(loop, folder, seed, profile(ElasticQuota=args), replicas=replicas)
        self.maximum: dict[str, int] = {}
        """Thousandths of a CPU by quota; one that was lowered counts when all know of it."""
        self.lowered = Crowded()
        """Quotas whose maximum may be below what their pods used already."""
        self.parent: dict[str, str] = {}
        self.recreates = False
        """Whether an evicted pod is created again, as by its controller."""
        self._before: dict[str, int] = {}
        self.witness.checks.append(self._exceeded)
        self.witness.on_evicted = self._evicted
        self._creating: set[asyncio.Task[None]] = set()

    def used(self) -> dict[str, int]:
        """Return what quotas and parents have in use, in thousandths of a CPU."""
        used: dict[str, int] = defaultdict(int, self.by_label(NAME))
        for name, parent in self.parent.items():
            used[parent] += used[name]
        return used

    def _exceeded(self, now: float) -> Iterable[str]:
        used = self.used()
        for name, amount in used.items():
            if amount > self.maximum.get(name, amount) and amount > self._before.get(name, 0):
                yield f"{name} uses {amount} of {self.maximum[name]}"
        self._before = used

    def _evicted(self, pod: Pod) -> None:
        if self.recreates:
            task = asyncio.ensure_future(self._create_again(pod))
            self._creating.add(task)
            task.add_done_callback(self._creating.discard)

    async def _create_again(self, pod: Pod) -> None:
        await asyncio.sleep(2.0)
        labels = pod.metadata.labels
        await self.add_member(labels[NAME], cpus(pod), workload=labels[WORKLOAD])

    async def add_quota(
        self, name: str, maximum: int, minimum: int = 0, *, parent: str = "", is_parent: bool = False
    ) -> None:
        """Create a quota of so many CPUs."""
        labels = {f"{QUOTA}is-parent": "true"} if is_parent else {}
        if parent:
            labels[f"{QUOTA}parent"] = parent
            self.parent[name] = parent
        self.maximum[name] = 1000 * maximum
        spec = {"max": {"cpu": str(maximum)}, "min": {"cpu": str(minimum)}}
        await self.create(ElasticQuota, name, spec, labels=labels)

    async def add_member(
        self, quota: str, milli: int = 1000, *, workload: str = "", important: bool = False
    ) -> None:
        """Create a pod of a quota."""
        name = self.name("p")
        labels = {NAME: quota, WORKLOAD: workload or name}
        priority = IMPORTANT if important else ""
        await self.add_pod(pod_document(name, f"{milli}m", labels=labels, priority_class=priority))

    async def assert_no_pod_waits_that_fits(self) -> None:
        """Compare waiting pods with what is left of their quotas, of the parents and of nodes."""
        used, free = self.used(), await self.free()
        for pod in await self.pods():
            if pod.spec.node_name:
                continue
            name = pod.metadata.labels[NAME]
            names = [each for each in (name, self.parent.get(name)) if each]
            is_full = any(used[each] + cpus(pod) > self.maximum[each] for each in names)
            assert is_full or max(free.values()) < cpus(pod), f"{pod.metadata.name} of {name} fits"


def nodes(count: int, cpu: int) -> dict[str, dict[str, str]]:
    return {f"n{n:03d}": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"} for n in range(count)}


def play(
    folder: Path, seed: int, story: Callable[[Quotas], Awaitable[None]], args: Document, **options: Any
) -> None:
    async def played(cluster: Quotas) -> None:
        try:
            await story(cluster)
            await cluster.assert_no_node_is_over_committed()
            assert_clean(cluster.server, cluster.lowered)
            assert cluster.witness.problems == []
            cluster.recreates = False
            await cluster.assert_nothing_is_left()
        finally:
            await cluster.stop()

    simulated_time.run(lambda loop: played(Quotas(loop, folder, seed, args, **options)))


# --- stories -----------------------------------------------------------------------------------------


async def race(cluster: Quotas) -> None:
    """Pods come and go in quotas whose maximums change, while binds fail and processes are killed."""
    await cluster.start(nodes(6, 8))
    leaves = []
    for parent in ("a", "b"):
        await cluster.add_quota(parent, 16, is_parent=True)
        for number in range(3):
            leaves.append(f"{parent}{number}")
            await cluster.add_quota(leaves[-1], 8, parent=parent)
    rng = cluster.rng

    async def add() -> None:
        for _ in range(rng.randint(1, 8)):
            await cluster.add_member(rng.choice(leaves), 500 * rng.randint(1, 4))

    async def remove() -> None:
        pods = await cluster.pods()
        for pod in rng.sample(pods, min(len(pods), rng.randint(1, 6))):
            await cluster.remove(pod)

    async def change() -> None:
        name, maximum = rng.choice(leaves), rng.randint(4, 10)
        patch = {"spec": {"max": {"cpu": str(maximum)}}}
        if 1000 * maximum > cluster.maximum[name]:
            cluster.maximum[name] = 1000 * maximum
        else:
            cluster.lowered.add(name)
        await cluster.client.patch(ElasticQuota, NAMESPACE, name, patch)
        await asyncio.sleep(60.0)  # binds that were on their way have arrived
        cluster.maximum[name] = 1000 * maximum

    cluster.fail(rng.choice((0.0, 0.15)))
    await take_turns(
        rng,
        40,
        [(add, 8), (remove, 4), (change, 2), (cluster.kill, 1), (cluster.fail_over, 1)],
    )
    cluster.fail(0.0)
    await cluster.settle(QUIET, LIMIT)
    assert cluster.witness.binds > 20
    await cluster.assert_no_pod_waits_that_fits()
    await asyncio.sleep(FORGOTTEN)
    await cluster.assert_memory_equals_a_rebuild()


async def reclaim(cluster: Quotas) -> None:
    """Each of three quotas borrows what the others do not use, until they want their own, one by one."""
    cluster.recreates = True
    await cluster.start(nodes(3, 4))
    names = ["a", "b", "c"]
    for name in names:
        await cluster.add_quota(name, 12, 4)
    cluster.rng.shuffle(names)
    for number, name in enumerate(names):
        cluster.witness.evictions.clear()
        for _ in range(12):
            await cluster.add_member(name)
        await cluster.settle(QUIET, LIMIT)
        used = cluster.used()
        share = 12000 // (number + 1)
        assert {each: used[each] for each in names[: number + 1]} == dict.fromkeys(names[: number + 1], share)
        assert sum(cluster.witness.evictions.values()) == (share // 1000 if number else 0)
        assert set(cluster.witness.evictions.values()) <= {1}


async def priorities(cluster: Quotas) -> None:
    """Important pods of each quota preempt others of the same quota, on nodes that all quotas fill."""
    cluster.recreates = True
    await cluster.start(nodes(3, 4))
    await cluster.client.create(PriorityClass(metadata=ObjectMeta(name=IMPORTANT), value=100))
    names = ["a", "b", "c"]
    for name in names:
        await cluster.add_quota(name, 8, 4)
    for _ in range(8):
        for name in names:
            await cluster.add_member(name)
    await cluster.settle(QUIET, LIMIT)
    assert sum(cluster.used().values()) == 12000
    assert not cluster.witness.evictions
    for _ in range(3):
        for name in cluster.rng.sample(names, 3):
            await cluster.add_member(name, important=True)
        await cluster.pause()
    await cluster.settle(QUIET, LIMIT)
    important = [pod for pod in await cluster.pods() if pod.spec.priority == 100]
    assert all(pod.spec.node_name for pod in important)
    assert sum(cluster.witness.evictions.values()) <= len(important)


EXACT = {"enableRuntimeQuota": False, "enableCheckParentQuota": True}
REVOKING = {"monitorAllQuotas": True, "delayEvictTime": "20s", "revokePodInterval": "1s"}


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("seed", range(CONTESTS or 3))
def test_no_quota_is_exceeded_whatever_happens(seed: int, replicas: int, tmp_path: Path) -> None:
    play(tmp_path, seed, race, EXACT, replicas=replicas)


@pytest.mark.parametrize("seed", range(CONTESTS or 2))
def test_quotas_that_claim_what_others_borrowed_evict_no_pod_twice(seed: int, tmp_path: Path) -> None:
    play(tmp_path, seed, reclaim, REVOKING)


@pytest.mark.parametrize("seed", range(CONTESTS or 2))
def test_preemption_within_quotas_evicts_one_pod_for_each_that_needs_its_room(
    seed: int, tmp_path: Path
) -> None:
    play(tmp_path, seed, priorities, {})
