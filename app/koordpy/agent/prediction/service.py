"""The predict server: trains the models, drops those of gone pods, and keeps checkpoints of them."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Final

from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.metrics import Aggregation, MetricError, Metrics
from koordpy.agent.interface.states import States
from koordpy.api.core import Node

from .checkpoints import Checkpoints
from .histogram import time_of
from .models import CLASSES, NODE, SYSTEM, HalfLives, Models, Usage, key_of_part
from .predictors import ProdPredictor

log = logging.getLogger(__name__)

_UPKEEP_SECONDS: Final = 60.0

_FLAGS: Final = (
    ("prediction-checkpoint-filepath", "/prediction-checkpoints", "The folder of the models' checkpoints."),
    (
        "prediction-cold-start-duration",
        timedelta(hours=24),
        "Pods that are not older count with their requests.",
    ),
    ("prediction-safety-margin-percent", 10, "What is added to every predicted peak, in percent."),
    (
        "prediction-memory-histogram-decay-halflife",
        timedelta(hours=24),
        "The time in which the weight of a memory sample is halved.",
    ),
    (
        "prediction-cpu-histogram-decay-halflife",
        timedelta(hours=12),
        "The time in which the weight of a CPU sample is halved.",
    ),
    ("prediction-training-interval", timedelta(minutes=1), "The interval at which models are trained."),
    (
        "prediction-model-expiration-duration",
        timedelta(minutes=30),
        "Models that were not trained for longer are dropped.",
    ),
    (
        "prediction-model-checkpoint-interval",
        timedelta(minutes=10),
        "The least time between two checkpoints of a model.",
    ),
    ("prediction-model-checkpoint-max-per-step", 12, "The number of checkpoints written in a minute."),
)


class PredictServer:
    """The models of the node, as a service of the node agent."""

    name = "prediction"

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare koordlet's flags."""
        for name, default, description in _FLAGS:
            flags.declare(name, default, description)

    def __init__(
        self,
        states: States,
        metrics: Metrics,
        flags: FlagSet,
        now: Callable[[], int],
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Read the flags. `now` returns nanoseconds since the year 1 (`histogram.nanoseconds`).

        Raises ValueError for a duration that must be above 0.
        """
        self._states, self._metrics, self._now, self._sleep = states, metrics, now, sleep
        half_lives = HalfLives(
            _positive(flags, "prediction-cpu-histogram-decay-halflife"),
            _positive(flags, "prediction-memory-histogram-decay-halflife"),
        )
        self.models = Models(half_lives)
        self.checkpoints = Checkpoints(Path(flags.text("prediction-checkpoint-filepath")))
        self._interval = _positive(flags, "prediction-training-interval")
        self._cold_start = flags.duration("prediction-cold-start-duration")
        self._margin_percent = flags.integer("prediction-safety-margin-percent")
        self._expiration = flags.duration("prediction-model-expiration-duration")
        self._checkpoint_interval = flags.duration("prediction-model-checkpoint-interval")
        self._checkpoints_per_step = flags.integer("prediction-model-checkpoint-max-per-step")
        self._failed = False

    async def run(self) -> None:
        """Restore the models, then train them, drop expired ones and save some, until cancelled."""
        self.restore()
        async with asyncio.TaskGroup() as loops:
            loops.create_task(self._repeat(self.train, self._interval.total_seconds()))
            loops.create_task(self._repeat(self.expire, _UPKEEP_SECONDS))
            loops.create_task(self._repeat(self.save, _UPKEEP_SECONDS))

    def not_ready(self) -> str | None:
        """Return why nothing can be predicted yet; None once the models were trained."""
        return None if self.models.trained else "the models are not trained yet"

    def prod_predictor(self, node: Node | None) -> ProdPredictor:
        """Return a predictor of prod pods; `node` has the resources that can be allocated."""
        return ProdPredictor(self.models, node, time_of(self._now()), self._cold_start, self._margin_percent)

    # --- steps -----------------------------------------------------------------------------------

    def restore(self) -> list[str]:
        """Load the checkpoints; remove those of pods that are gone, and return their names."""
        if self.models.trained:
            return []
        known = {meta.pod.metadata.uid for meta in self._states.pods()}
        known |= {SYSTEM, *map(key_of_part, CLASSES)}
        if self._states.node() is not None:
            known.add(NODE)
        try:
            unknown = self.checkpoints.restore(self.models, known)
        except OSError as error:
            log.warning("checkpoints of models are not restored: %s", error)
            return []
        for name in unknown:
            self._remove(name)
        log.info("restored %d models; removed %d files of others", len(self.models.by_key), len(unknown))
        return unknown

    def train(self) -> None:
        """Learn from the usage since the last training."""
        end = time_of(self._now())
        start = end - self._interval
        pods = sorted(
            (meta.pod for meta in self._states.pods()),
            key=lambda pod: (pod.metadata.namespace, pod.metadata.name),
        )
        self.models.train(
            pods,
            lambda uid: self._pod_usage(uid, start, end),
            (
                self._usage("node_cpu_usage", start, end, None),
                self._usage("node_memory_usage", start, end, None),
            ),
            self._now(),
        )

    def expire(self) -> None:
        """Drop the models that were not trained for long, with their files."""
        if self.models.trained:
            for key in self.models.expire(self._now(), self._expiration):
                self._remove(key)

    def save(self) -> list[str]:
        """Write the checkpoints that are due, a bounded number; return the keys of the models."""
        if not self.models.trained:
            return []
        now = self._now()
        due = self.models.due(now, self._checkpoint_interval, self._checkpoints_per_step)
        for key in due:
            model = self.models.by_key[key]
            try:
                self.checkpoints.save(key, model, time_of(now))
                self._failed = False
            except OSError as error:
                log.log(
                    logging.DEBUG if self._failed else logging.WARNING,
                    "models are not kept over a restart: checkpoint of %s: %s",
                    key,
                    error,
                )
                self._failed = True
            model.last_checkpointed = now
        return due

    # --- usage -----------------------------------------------------------------------------------

    def _pod_usage(self, uid: str, start: datetime, end: datetime) -> Usage | None:
        cpu = self._usage("pod_cpu_usage", start, end, {"pod_uid": uid})
        memory = self._usage("pod_memory_usage", start, end, {"pod_uid": uid}) if cpu is not None else None
        return None if cpu is None or memory is None else (cpu, memory)

    def _usage(
        self, kind: str, start: datetime, end: datetime, properties: dict[str, str] | None
    ) -> float | None:
        try:
            return self._metrics.query(kind, Aggregation.P90, start, end, properties)
        except MetricError:
            return None

    def _remove(self, key: str) -> None:
        try:
            self.checkpoints.remove(key)
        except OSError as error:
            log.warning("a checkpoint is not removed: %s", error)

    async def _repeat(self, step: Callable[[], object], seconds: float) -> None:
        while True:
            step()
            await self._sleep(seconds)


def _positive(flags: FlagSet, name: str) -> timedelta:
    value = flags.duration(name)
    if value <= timedelta():
        raise ValueError(f"flag {name}: got {value}, expected a duration above 0")
    return value
