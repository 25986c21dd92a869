"""What simulated node agents do to best-effort pods: CPU suppression, and eviction when memory is short.

Thresholds are those of each node's NodeSLO, the limit of CPU is the formula of the plugin CPUSuppresss.
Between the agents' rounds nothing is simulated: what the other pods leave is known at once. CPU beyond what
a node has goes to the other pods first, as CFS does with best-effort pods' shares.
"""

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np

from koordpy.agent.interface.gates import BE_CPU_SUPPRESS
from koordpy.agent.toolkit.suppression import suppress_milli
from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.slo.node_slo import completed
from koordpy.api.slo.threshold import ResourceThresholdStrategy
from koordpy.cluster.client import Client
from koordpy.cluster.errors import ApiError
from koordpy.cluster.store import Store
from koordpy.embedded.kubelet.usage import Float64, Usage
from koordpy.lib.clock import Clock

BE_MEMORY_EVICT = "BEMemoryEvict"

GATES: Mapping[str, bool] = {BE_CPU_SUPPRESS: True, BE_MEMORY_EVICT: False}
"""The feature gates of node agents that a simulation knows, with the agents' defaults."""

_CPU, _MEMORY = 0, 1
_HOUR_OF_CORE = 3600.0 * 1000.0
"""Milli-core seconds."""

_DEFAULT_ABOVE_LOWER = 2
"""What the lower threshold of memory eviction is below the upper one, if it is not set."""


@dataclass(slots=True)
class Interference:
    """What sharing nodes has cost so far, in hours of one core."""

    wanted: float = 0.0
    """By best-effort pods."""
    used: float = 0.0
    """By best-effort pods."""
    throttled: float = 0.0
    """What the other pods wanted and nodes did not have."""
    evicted: int = 0
    """Best-effort pods that agents evicted."""
    evicted_work: float = 0.0
    """What evicted best-effort pods had used in vain."""
    _spent: dict[tuple[str, str], float] = field(default_factory=dict)

    @property
    def suppressed(self) -> float:
        """What best-effort pods wanted and did not get."""
        return max(self.wanted - self.used, 0.0)


class Enforcement:
    """The agents of all nodes; these are `limits` of a `Usage`.

    `interval` is the time in seconds between two checks of memory.
    """

    def __init__(
        self,
        usage: Usage,
        slos: Store[NodeSLO],
        pods: Store[Pod],
        client: Client,
        clock: Clock,
        gates: Mapping[str, bool],
        *,
        interval: float,
    ) -> None:
        self._usage, self._pods, self._client, self._clock = usage, pods, client, clock
        self._gates = {**GATES, **gates}
        self._interval = interval
        self._thresholds: dict[str, ResourceThresholdStrategy] = {}
        self.interference = Interference()
        slos.subscribe(self._know, lambda _, slo: self._know(slo), self._forget)

    # --- limits of CPU ---------------------------------------------------------------------------

    def apply(self, usage: Usage, wanted: Float64) -> Float64:
        """Return what pods use of what they want: best-effort pods of a node share what is left for them."""
        if not usage.best_effort.any():
            return wanted
        best_effort = np.where(usage.best_effort, wanted[:, _CPU], 0.0)
        demand = usage.summed(np.column_stack([best_effort, wanted[:, _CPU] - best_effort]))
        granted = np.ones(len(usage.names))
        for row in np.flatnonzero(demand[:, 0]).tolist():
            left = self._left(row, float(demand[row, 1]))
            granted[row] = min(max(left, 0.0) / float(demand[row, 0]), 1.0)
        limited = wanted.copy()
        limited[:, _CPU] = np.where(
            usage.best_effort, wanted[:, _CPU] * granted[usage.node_of], wanted[:, _CPU]
        )
        return limited

    def _left(self, row: int, used: float) -> float:
        """Return the milli-cores for best-effort pods of a node whose other pods use so much."""
        usage = self._usage
        capacity, system = float(usage.capacity[row, _CPU]), float(usage.system[row, _CPU])
        idle = capacity - system - used
        threshold = self._thresholds.get(usage.names[row])
        if threshold is None or not threshold.enable or not self._gates[BE_CPU_SUPPRESS]:
            return idle
        percent = threshold.cpu_suppress_threshold_percent
        if percent is None:
            return idle
        allowed = suppress_milli(
            int(capacity), percent, threshold.cpu_suppress_min_percent, used / 1000, 0.0, system / 1000
        )
        return min(idle, float(allowed))

    def account(self, seconds: float) -> None:
        """Count what pods want and use now for some seconds."""
        usage, costs = self._usage, self.interference
        wanted = usage.wanted(self._clock.monotonic())
        limited = self.apply(usage, wanted)
        best_effort = usage.best_effort
        costs.wanted += float(wanted[best_effort, _CPU].sum()) * seconds / _HOUR_OF_CORE
        costs.used += float(limited[best_effort, _CPU].sum()) * seconds / _HOUR_OF_CORE
        others = usage.summed(np.where(best_effort[:, None], 0.0, wanted))[:, _CPU]
        lacking = np.maximum(others + usage.system[:, _CPU] - usage.capacity[:, _CPU], 0.0)[usage.joined]
        costs.throttled += float(lacking.sum()) * seconds / _HOUR_OF_CORE
        for row in sorted(set(usage.node_of[best_effort].tolist())):
            for slot, _, key in usage.on(row):
                if best_effort[slot]:
                    spent = float(limited[slot, _CPU]) * seconds / _HOUR_OF_CORE
                    costs._spent[key] = costs._spent.get(key, 0.0) + spent

    def best_effort_cores(self) -> float:
        """Return the cores that best-effort pods use now."""
        usage = self._usage
        return float(usage.of_pods(self._clock.monotonic())[usage.best_effort, _CPU].sum()) / 1000

    # --- eviction --------------------------------------------------------------------------------

    async def run(self) -> None:
        """Evict best-effort pods of nodes whose memory is short, until cancelled."""
        if not self._gates[BE_MEMORY_EVICT]:
            await asyncio.Event().wait()
        while True:
            await asyncio.sleep(self._interval)
            usage = self._usage
            wanted = usage.wanted(self._clock.monotonic())
            total = usage.system + usage.summed(wanted)
            for row in np.flatnonzero(usage.joined).tolist():
                if (excess := self._excess(row, float(total[row, _MEMORY]))) > 0:
                    await self._relieve(row, excess, wanted)

    def _excess(self, row: int, used: float) -> float:
        """Return the bytes that are to be released on a node, 0 if its usage is below the threshold."""
        threshold = self._thresholds.get(self._usage.names[row])
        capacity = float(self._usage.capacity[row, _MEMORY])
        if threshold is None or not threshold.enable or capacity <= 0:
            return 0.0
        upper = threshold.memory_evict_threshold_percent
        if upper is None or int(used) * 100 // int(capacity) < upper:
            return 0.0
        lower = threshold.memory_evict_lower_percent
        lower = upper - _DEFAULT_ABOVE_LOWER if lower is None else lower
        return used - capacity * lower / 100

    async def _relieve(self, row: int, excess: float, wanted: Float64) -> None:
        """Evict best-effort pods of a node, lowest priority and largest first, until enough is released."""
        candidates = [
            (qos.priority_value(pod), -float(wanted[slot, _MEMORY]), key, pod)
            for slot, _, key in self._usage.on(row)
            if self._usage.best_effort[slot]
            and (pod := self._pods.get(*key)) is not None
            and pod.metadata.deletion_timestamp is None
        ]
        for _, released, key, pod in sorted(candidates, key=lambda each: each[:3]):
            if excess <= 0:
                return
            with suppress(ApiError):  # a budget forbids it, or it is gone: the next one
                await self._client.evict(pod)
                self.interference.evicted += 1
                self.interference.evicted_work += self.interference._spent.pop(key, 0.0)
                excess += released

    # --- policies --------------------------------------------------------------------------------

    def _know(self, slo: NodeSLO) -> None:
        strategy = completed(slo.spec).resource_used_threshold_with_be
        if strategy is not None:
            self._thresholds[slo.metadata.name] = strategy

    def _forget(self, slo: NodeSLO) -> None:
        self._thresholds.pop(slo.metadata.name, None)
