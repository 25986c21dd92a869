"""Clusters in which gangs compete for room."""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_name
from koordpy.lib import simulated_time
from koordpy.lib.simulated_time import SimulatedLoop
from tests.audited import assert_clean
from tests.faults.competing import NAMESPACE, Competing, Document, cpus, pod_document, profile

GANG = "gang.scheduling.koordinator.sh/"
WAIT = 60.0
"""The longest time in seconds that members of these gangs wait for each other."""
QUIET = 120.0
"""Seconds without a change after which a contest is over; the longest backoff is 10 seconds."""
LIMIT = 3600.0


class Gangs(Competing):
    """A cluster in which gangs compete."""

    def __init__(
        self, loop: SimulatedLoop, folder: Path, seed: int, *, replicas: int = 1, **args: Any
    ) -> None:
        """`args` are those of Coscheduling."""
        super().__init__(
            loop, folder, seed, profile(Coscheduling={"defaultTimeout": "60s", **args}), replicas=replicas
        )
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
        self,
        name: str,
        members: int,
        cpu: str = "1",
        *,
        group: Sequence[str] = (),
        minimum: int = 0,
        labels: Mapping[str, str] | None = None,
        priority_class: str = "",
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
        return [
            pod_document(
                f"{name}-{n}", cpu, labels=labels, annotations=annotations, priority_class=priority_class
            )
            for n in range(members)
        ]

    async def remove_gang(self, name: str) -> None:
        """Delete the pods of a gang."""
        self.minimum.pop(name, None)
        for pod in await self.pods():
            if gang_name(pod) == name:
                await self.remove(pod)

    async def remove_what_waits_in_vain(self) -> None:
        """Delete the pods that wait for a gang of their group that does not exist, as they do without end."""
        pods = await self.pods()
        existing = {gang_name(pod) for pod in pods}
        for pod in pods:
            if not pod.spec.node_name and not existing.issuperset(self.group_of(pod)):
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
        """Try what waits on the free CPUs of nodes: whole groups, and single pods of gangs that are bound.

        A gang of annotations without pods does not exist, and pods wait in vain for one of their group that
        does not, as in Koordinator: at Permit, even if the group was complete before.
        """
        bound, free = await self.bound(), await self.free()
        waiting: dict[tuple[str, ...], list[Pod]] = defaultdict(list)
        existing = set()
        for pod in await self.pods():
            existing.add(gang_name(pod))
            if not pod.spec.node_name:
                waiting[self.group_of(pod)].append(pod)
        for group, pods in waiting.items():
            if not existing.issuperset(group):
                continue
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
    """Return the resources of so many nodes with so many CPUs each."""
    return {f"n{n:03d}": {"cpu": str(cpu), "memory": "64Gi", "pods": "110"} for n in range(count)}


def play(folder: Path, seed: int, story: Any, *, kind: type[Gangs] = Gangs, **options: Any) -> None:
    """Play a story on a new cluster; in the end no node has too many pods, and nothing was wrong."""

    async def played(cluster: Gangs) -> None:
        try:
            await story(cluster)
            await cluster.assert_no_node_is_over_committed()
            assert_clean(cluster.server)
            assert cluster.witness.problems == []
        finally:
            await cluster.stop()

    simulated_time.run(lambda loop: played(kind(loop, folder, seed, **options)))
