"""Gangs that evict less important pods: each contest ends, and what is evicted suffices.

With `preemptionJointFit` and `preemptionConsidersPDBs`, as recommended. As in Koordinator pods may be evicted
in vain without them, and a gang that could fit may wait: nothing is promised for that here. Where writes fail
or processes are killed, an evicted pod may get a node again before the gang has its own.

Evicted pods are created again at once, by their controllers, and compete for room too. Pods of less important
gangs are victims like others: a gang that was whole once may lose some of its pods.

`KOORDPY_CONTESTS=100` plays more than `make test`.
"""

import asyncio
import os
from collections import Counter
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.core import Pod, PodDisruptionBudget, PriorityClass
from koordpy.api.extension import LABEL_DISABLE_PREEMPTIBLE, LABEL_QUOTA_PREEMPTIBLE
from koordpy.api.gang.membership import gang_name
from koordpy.api.meta import ObjectMeta
from koordpy.lib.simulated_time import SimulatedLoop
from tests.faults.competing import WORKLOAD, Document, cpus, pod_document
from tests.faults.competing_gangs import LIMIT, Gangs, nodes, play

CONTESTS = int(os.environ.get("KOORDPY_CONTESTS", "0"))
QUIET = 400.0
"""Seconds without a change after which a contest is over: kube-scheduler retries pods after 300."""
PRIORITIES = {"medium": 50, "high": 100}
GUARDED = {"app": "guarded"}
"""Labels of pods that a PodDisruptionBudget covers."""
PROTECTED = ({LABEL_DISABLE_PREEMPTIBLE: "true"}, {LABEL_QUOTA_PREEMPTIBLE: "false"})
KOORDINATOR = {"enablePreemption": True}
RECOMMENDED = {**KOORDINATOR, "preemptionJointFit": True, "preemptionConsidersPDBs": True}


class Preempting(Gangs):
    """A cluster full of unimportant pods, in which important gangs arrive."""

    def __init__(self, loop: SimulatedLoop, folder: Path, seed: int, **options: Any) -> None:
        super().__init__(loop, folder, seed, **options)
        self.victims: list[tuple[str, Pod]] = []
        """Evicted pods of this contest, each with the gang group, or the pod, that evicted it."""
        self.witness.on_evicted = self._evicted
        self._creating: set[asyncio.Task[None]] = set()

    def _evicted(self, pod: Pod) -> None:
        self.victims.append((preemptor_of(pod), pod))
        self.minimum.pop(gang_name(pod), None)  # its gang is not whole any more
        task = asyncio.ensure_future(self._create_again(pod))
        self._creating.add(task)
        task.add_done_callback(self._creating.discard)

    async def _create_again(self, pod: Pod) -> None:
        await asyncio.sleep(2.0 * self.rng.random())
        meta = pod.metadata
        document = pod_document(
            self.name("again"),
            f"{cpus(pod)}m",
            labels=meta.labels,
            annotations=meta.annotations,
            priority_class=pod.spec.priority_class_name,
        )
        await self.add_pod(document)

    async def fill(self) -> None:
        """Create unimportant pods, alone and in gangs, more than there is room for."""
        for name, value in PRIORITIES.items():
            await self.client.create(PriorityClass(metadata=ObjectMeta(name=name), value=value))
        spec = {"selector": {"matchLabels": GUARDED}, "maxUnavailable": 0}
        await self.create(PodDisruptionBudget, "guarded", spec)
        left = 24
        while left > 0:
            extra = self.rng.choice(({}, {}, {}, GUARDED, *PROTECTED))
            size = self.rng.choice((1, 1, 1, 2, 4))
            cpu = self.rng.choice(("500m", "1"))
            left -= size
            name = self.name("low")
            documents = self.members(name, size, cpu, labels=extra) if size > 1 else []
            self.minimum.pop(name, None)  # it is a gang of victims, which may lose pods later
            for document in documents or [pod_document(name, cpu, labels=extra)]:
                document["metadata"]["labels"][WORKLOAD] = document["metadata"]["name"]
                await self.add_pod(document)
        await self.settle(QUIET, LIMIT)
        assert not self.victims

    async def arrive(self, priority_class: str) -> None:
        """Create one important gang, or a group of them, or two at once."""
        rng, documents = self.rng, list[Document]()
        kind = rng.choice(("one", "one", "group", "two"))
        names = [self.name("g") for _ in range(1 if kind == "one" else 2)]
        cpu = rng.choice(("1", "2")) if priority_class == "high" else "1"  # no victim is larger than a member
        for name in names:
            size = rng.randint(2, 6)
            documents += self.members(
                name,
                size,
                cpu,
                group=names if kind == "group" else (),
                priority_class=priority_class,
            )
        rng.shuffle(documents)
        for document in documents:
            document["metadata"]["labels"][WORKLOAD] = document["metadata"]["name"]
            await self.add_pod(document)
            if rng.random() < 0.2:
                await self.pause()

    # --- what must hold --------------------------------------------------------------------------

    def assert_victims_were_allowed(self) -> None:
        """Gangs evicted only preemptible pods.

        kube-scheduler, which preempts for single pods, does not know Koordinator's labels.
        """
        for by, pod in self.victims:
            assert (pod.spec.priority or 0) < max(PRIORITIES.values()), pod
            assert not by or not is_protected(pod), pod

    def assert_nobody_was_evicted_twice(self) -> None:
        """No gang evicted a pod, and then the one that was created in its place."""
        times = Counter((by, pod.metadata.labels[WORKLOAD]) for by, pod in self.victims if by)
        assert set(times.values()) <= {1}, times

    async def assert_nobody_was_evicted_in_vain(self) -> None:
        """Each gang that evicted pods is bound, and no more was evicted than they need."""
        bound, requested = await self.bound(), Counter[str]()
        for pod in await self.pods():
            for name in self.group_of(pod):
                requested[name] += cpus(pod) if pod.spec.node_name else 0
        needed = 0
        groups = {by: [each.partition("/")[2] for each in by.split(",")] for by, _ in self.victims if by}
        for by, names in groups.items():
            if set(names) <= self.minimum.keys():
                assert all(bound.get(name) for name in names), f"{by} evicted pods, and waits"
            needed += sum(requested[name] for name in names)
        taken = sum(cpus(pod) for by, pod in self.victims if by)
        assert taken <= needed, f"{taken} evicted for {needed}"

    async def assert_nobody_is_nominated(self) -> None:
        """No pod waits for a node that it was promised."""
        waiting = [pod for pod in await self.pods() if not pod.spec.node_name]
        promised = {pod.metadata.name: pod.status.nominated_node_name for pod in waiting}
        assert not any(promised.values()), promised

    async def assert_no_gang_waits_that_could_preempt(self) -> None:
        """Try each waiting gang on nodes without the pods that it may evict."""
        pods = await self.pods()
        bound = await self.bound()
        for name, minimum in self.minimum.items():
            waiting = [pod for pod in pods if gang_name(pod) == name and not pod.spec.node_name]
            if not waiting or name in bound or len(self.group_of(waiting[0])) > 1:
                continue
            mine = waiting[0].spec.priority or 0
            free = await self.free()
            for pod in pods:
                if pod.spec.node_name and (pod.spec.priority or 0) < mine and not is_protected(pod):
                    free[pod.spec.node_name] += cpus(pod)
            slots = sum(cpu // cpus(waiting[0]) for cpu in free.values())
            assert slots < minimum, f"{name} waits for {minimum} of {slots} places: {free}"


def is_protected(pod: Pod) -> bool:
    """Return whether no gang may evict a pod."""
    return any(label.items() <= pod.metadata.labels.items() for label in PROTECTED)


def preemptor_of(pod: Pod) -> str:
    """Return the key of the gang group that evicted a pod, from its condition; empty for other reasons."""
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.message.partition("preemptor: ")[2].partition(", triggerPod")[0]
    return ""


async def contests(cluster: Preempting, *, is_recommended: bool = True) -> None:
    """Important gangs arrive one after the other, of either priority; some end."""
    rng = cluster.rng
    await cluster.start(nodes(5, 4))
    await cluster.fill()
    won = 0
    for _ in range(4):
        cluster.victims.clear()
        failing, is_killed = rng.choice((0.0, 0.0, 0.15)), rng.random() < 0.3
        cluster.fail(failing)
        await cluster.arrive(rng.choice(sorted(PRIORITIES)))
        if is_killed:
            await cluster.kill()
        await cluster.settle(QUIET, LIMIT)
        cluster.fail(0.0)
        await cluster.settle(QUIET, LIMIT)
        cluster.assert_victims_were_allowed()
        if is_recommended and not (failing or is_killed):
            cluster.assert_nobody_was_evicted_twice()
            await cluster.assert_nobody_was_evicted_in_vain()
        if is_recommended:
            await cluster.assert_no_gang_waits_that_could_preempt()
            await cluster.assert_nobody_is_nominated()
        won += len((await cluster.bound()).keys() & cluster.minimum.keys())
        if cluster.minimum and rng.random() < 0.5:
            await cluster.remove_gang(rng.choice(sorted(cluster.minimum)))
    assert won
    cluster.assert_waited_no_longer_than_allowed()
    cluster.witness.on_evicted = lambda _: None
    await asyncio.gather(*cluster._creating)
    await cluster.assert_nothing_is_left()


@pytest.mark.parametrize("seed", range(CONTESTS or 3))
def test_gangs_that_preempt_evict_no_more_than_they_need_and_are_bound(seed: int, tmp_path: Path) -> None:
    play(tmp_path, seed, contests, kind=Preempting, **RECOMMENDED)


@pytest.mark.parametrize("seed", range(CONTESTS or 3))
def test_preemption_as_in_koordinator_ends(seed: int, tmp_path: Path) -> None:
    """Members are not checked beside each other there: pods may be evicted in vain, but not for ever."""
    play(tmp_path, seed, partial(contests, is_recommended=False), kind=Preempting, **KOORDINATOR)
