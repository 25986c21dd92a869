"""Eviction tasks, and how the tasks of one round are worked off.

Amounts of resources are in thousandths of the resource's unit (milli-cores, thousandths of a byte), so that
all are integers.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from koordpy.agent.interface.eviction import EvictionExecutor
from koordpy.api.core import Pod

Amounts = dict[str, int]
"""Resource name to thousandths of its unit."""

EVICTED: Final = "evicted"
"""The reason of every eviction in events and metrics; the feature is in the message."""


class ReleaseTarget(StrEnum):
    """What is to be released. Tasks with the same target share what evictions release."""

    USED = "podUsed"
    REQUESTED = "podResourceRequest"


@dataclass(frozen=True)
class Candidate:
    """A pod that a task may evict, with what it uses and requests: milli-CPU or bytes."""

    pod: Pod
    used: int = 0
    requested: int = 0


@dataclass(frozen=True)
class EvictionTask:
    """An amount to release, the pods that may be evicted for it in order, and what each one releases."""

    feature: str
    target: ReleaseTarget
    release: Mapping[str, int]
    candidates: Sequence[Candidate]
    released_by: Callable[[Candidate], Mapping[str, int]]

    @property
    def reason(self) -> str:
        """Which feature wants it, for messages."""
        return f"trigger by koordlet feature {self.feature}"


@dataclass(frozen=True)
class Outcome:
    """The released amounts by target, and whether a pod was evicted that was not before."""

    released: Mapping[ReleaseTarget, Mapping[str, int]]
    newly_evicted: bool

    def missing(self, task: EvictionTask) -> Amounts:
        """Return what a task wanted and did not get."""
        return _missing(task.release, self.released.get(task.target, {}))


async def work_off(tasks: Sequence[EvictionTask], executor: EvictionExecutor) -> Outcome:
    """Evict pods for tasks, in order.

    Each evicted pod counts for all tasks, once per target. A pod that was evicted before and is still there
    counts too; one that cannot be evicted does not, and the next is tried.
    """
    released: dict[ReleaseTarget, Amounts] = {}
    counting: list[EvictionTask] = []
    for task in tasks:
        if any(amount > 0 for amount in task.release.values()):
            released.setdefault(task.target, {})
        if task.release and task.target in released:
            counting.append(task)
    done: set[str] = set()
    newly_evicted = False
    for task in tasks:
        pool = released.get(task.target, {})
        for candidate in task.candidates:
            if not _missing(task.release, pool):
                break
            pod = candidate.pod
            if pod.metadata.key in done:
                continue
            if not executor.is_evicted(pod):
                message = f"{task.reason}, kill pod: {pod.metadata.name}"
                if not await executor.evict(pod, EVICTED, message):
                    continue
                newly_evicted = True
            done.add(pod.metadata.key)
            _count(released, counting, candidate)
    return Outcome(released, newly_evicted)


def _count(
    released: dict[ReleaseTarget, Amounts], tasks: Sequence[EvictionTask], candidate: Candidate
) -> None:
    """Add what a pod releases: per target, the largest amount that a task counts for it."""
    largest: dict[ReleaseTarget, Amounts] = {}
    for task in tasks:
        amounts = largest.setdefault(task.target, {})
        for resource, amount in task.released_by(candidate).items():
            if amount > amounts.get(resource, 0):
                amounts[resource] = amount
    for target, amounts in largest.items():
        pool = released[target]
        for resource, amount in amounts.items():
            pool[resource] = pool.get(resource, 0) + amount


def _missing(wanted: Mapping[str, int], released: Mapping[str, int]) -> Amounts:
    return {
        resource: amount - released.get(resource, 0)
        for resource, amount in wanted.items()
        if amount > released.get(resource, 0)
    }
