"""The models of a node: the distribution of usage of each pod, of the node, its system and its classes."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Final

from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.qos import PriorityClass
from koordpy.api.quantity import Format, Quantity

from .histogram import CPU_BUCKETS, MEMORY_BUCKETS, DecayingHistogram, duration_nanoseconds

NODE: Final = "__node__"
"""The key of the model of the whole node; a pod's key is its UID."""

Usage = tuple[float, float]
"""CPU in cores and memory in bytes."""


class UnknownModelError(LookupError):
    """Nothing was learned yet about a pod or a part of the node."""


def key_of_part(part: str) -> str:
    """Return the key of a part of the node: `sys`, or a priority class."""
    return f"__node-{part}__"


SYSTEM: Final = key_of_part("sys")
"""The key of what runs beside pods."""
CLASSES: Final = (
    PriorityClass.PROD,
    PriorityClass.MID,
    PriorityClass.BATCH,
    PriorityClass.FREE,
    PriorityClass.NONE,
)
"""The priority classes that have models, also without pods."""


@dataclass(slots=True)
class Model:
    """What was learned about a pod or a part of the node; times are nanoseconds since the year 1."""

    cpu: DecayingHistogram
    memory: DecayingHistogram
    last_updated: int = 0
    last_checkpointed: int = 0


@dataclass(frozen=True)
class HalfLives:
    """After which time the weight of a sample is halved."""

    cpu: timedelta = timedelta(hours=12)
    memory: timedelta = timedelta(hours=24)


@dataclass
class Models:
    """All models by key. Times are given in nanoseconds since the year 1 (`histogram.nanoseconds`)."""

    half_lives: HalfLives = HalfLives()
    by_key: dict[str, Model] = field(default_factory=dict)
    trained: bool = False
    """Whether anything was learned since the start."""

    def train(
        self,
        pods: Iterable[Pod],
        pod_usage: Callable[[str], Usage | None],
        node_usage: tuple[float | None, float | None],
        now: int,
    ) -> None:
        """Add one sample to the models of pods, classes, the node and its system.

        `pod_usage` returns the usage of a pod by UID, None if it is not known; the node's CPU and memory may
        be unknown one by one.
        """
        sums: dict[str, Usage] = {}
        together: Usage = (0.0, 0.0)
        for pod in pods:
            usage = pod_usage(pod.metadata.uid)
            if usage is None:
                continue
            self._update(pod.metadata.uid, usage, now)
            part = key_of_part(qos.priority_class(pod))
            before = sums.get(part, (0.0, 0.0))
            sums[part] = (before[0] + usage[0], before[1] + usage[1])
            together = (together[0] + usage[0], together[1] + usage[1])
        cpu, memory = node_usage
        if cpu is not None and memory is not None:
            self._update(NODE, (cpu, memory), now)
        for priority_class in CLASSES:
            part = key_of_part(priority_class)
            self._update(part, sums.get(part, (0.0, 0.0)), now)
        system = (max((cpu or 0.0) - together[0], 0.0), max((memory or 0.0) - together[1], 0.0))
        self._update(SYSTEM, system, now)
        self.trained = True

    def percentiles(self, key: str, cpu: float, memory: float) -> tuple[Quantity, Quantity]:
        """Return percentiles, given as shares of 1, of CPU in milli-CPU and of memory in bytes.

        Raises UnknownModelError.
        """
        model = self.by_key.get(key)
        if model is None:
            raise UnknownModelError(f"UID {key} not found in predict server")
        return (
            Quantity.of_milli(int(model.cpu.percentile(cpu) * 1000.0)),
            Quantity.of(int(model.memory.percentile(memory)), Format.BINARY_SI),
        )

    def expire(self, now: int, after: timedelta) -> list[str]:
        """Drop the models that were not updated for longer than a time; return their keys."""
        longest = duration_nanoseconds(after)
        expired = [key for key, model in self.by_key.items() if now - model.last_updated > longest]
        for key in expired:
            del self.by_key[key]
        return expired

    def due(self, now: int, interval: timedelta, at_most: int) -> list[str]:
        """Return the keys of the models whose last checkpoint is as old as an interval, oldest first."""
        oldest_first = sorted(self.by_key.items(), key=lambda item: (item[1].last_checkpointed, item[0]))
        latest = now - duration_nanoseconds(interval)
        return [key for key, model in oldest_first[: max(at_most, 0)] if model.last_checkpointed <= latest]

    def new(self) -> Model:
        """Return a model that knows nothing."""
        return Model(
            DecayingHistogram(CPU_BUCKETS, duration_nanoseconds(self.half_lives.cpu)),
            DecayingHistogram(MEMORY_BUCKETS, duration_nanoseconds(self.half_lives.memory)),
        )

    def _update(self, key: str, usage: Usage, now: int) -> None:
        model = self.by_key.get(key)
        if model is None:
            model = self.by_key[key] = self.new()
        model.last_updated = now
        model.cpu.add(usage[0], now)
        model.memory.add(usage[1], now)
