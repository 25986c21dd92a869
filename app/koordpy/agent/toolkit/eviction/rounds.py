"""The rounds of an eviction strategy: several features, one cool time."""

import logging
from collections.abc import Callable, Mapping, Sequence

from koordpy.agent.interface.eviction import EvictionExecutor
from koordpy.agent.interface.gates import is_feature_disabled
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.states import PodMeta
from koordpy.api import quantity
from koordpy.api.core import Node
from koordpy.api.slo.threshold import ResourceThresholdStrategy

from .tasks import EvictionTask, Outcome, work_off
from .thresholds import InvalidThresholdError

log = logging.getLogger(__name__)


MakeTask = Callable[[ResourceThresholdStrategy, Node, Sequence[PodMeta]], EvictionTask | None]
"""Makes a feature's task; None if nothing is to be released. Raises InvalidThresholdError."""


class EvictionRounds:
    """Evicts for the features whose gates are on and which NodeSLO does not disable.

    After a round that evicted a pod, nothing is evicted for the seconds that `cool_seconds` returns. There
    are no rounds on a node without `resource`. `features` are in the order in which they evict.
    """

    def __init__(
        self,
        handle: Handle,
        executor: EvictionExecutor | None,
        features: Mapping[str, MakeTask],
        *,
        resource: str,
        cool_seconds: Callable[[], float],
        cooling_from: float | None = None,
    ) -> None:
        """`cooling_from`: when the cool time began, on the monotonic clock; None if nothing is cooling."""
        self._handle, self._executor, self._features = handle, executor, dict(features)
        self._resource, self._cool_seconds = resource, cool_seconds
        self.last_eviction = cooling_from
        self._problems: dict[str, str] = {}
        self._short: set[str] = set()
        """The features that found too few pods in the round before."""

    @property
    def cooling(self) -> bool:
        """Whether the last eviction is too recent for another one."""
        if self.last_eviction is None:
            return False
        return self._handle.clock.monotonic() - self.last_eviction < self._cool_seconds()

    async def round(self) -> Outcome | None:
        """Evict once if something must be released; None if not."""
        if self._executor is None or self.cooling:
            return None
        tasks = [task for task in self.tasks().values() if isinstance(task, EvictionTask)]
        self._short = self._short & {task.feature for task in tasks}
        if not tasks:
            return None
        outcome = await work_off(tasks, self._executor)
        if outcome.newly_evicted:
            self.last_eviction = self._handle.clock.monotonic()
        self._report_missing(tasks, outcome)
        return outcome

    def tasks(self) -> dict[str, EvictionTask | InvalidThresholdError | None]:
        """Return the tasks of all active features in order, or why a feature's thresholds are invalid."""
        states = self._handle.states
        slo, node = states.node_slo(), states.node()
        if node is None or quantity.milli_value(node.status.capacity.get(self._resource, 0)) <= 0:
            return {}
        thresholds = slo.resource_used_threshold_with_be if slo is not None else None
        found: dict[str, EvictionTask | InvalidThresholdError | None] = {}
        pods: list[PodMeta] | None = None
        for feature, make_task in self._features.items():
            if not self._handle.gates.enabled(feature):
                continue
            try:
                if is_feature_disabled(slo, feature) or thresholds is None:
                    continue
            except ValueError as error:
                log.debug("%s is skipped: %s", feature, error)
                continue
            if pods is None:
                pods = states.pods()
            try:
                found[feature] = make_task(thresholds, node, pods)
            except InvalidThresholdError as error:
                found[feature] = error
                self._report(feature, str(error))
            else:
                self._problems.pop(feature, None)
        return found

    def _report_missing(self, tasks: Sequence[EvictionTask], outcome: Outcome) -> None:
        """Log what could not be released: once, until enough was, or until a pod is evicted again."""
        short = {task.feature: missing for task in tasks if (missing := outcome.missing(task))}
        for task in tasks:
            if task.feature in short and (outcome.newly_evicted or task.feature not in self._short):
                shown = ", ".join(
                    f"{amount / 1000:g} of {name}" for name, amount in short[task.feature].items()
                )
                log.warning("%s: could not release %s", task.reason, shown)
        self._short = set(short)

    def _report(self, feature: str, problem: str) -> None:
        if self._problems.get(feature) != problem:
            self._problems[feature] = problem
            log.warning("%s is off, its thresholds in NodeSLO are invalid: %s", feature, problem)
