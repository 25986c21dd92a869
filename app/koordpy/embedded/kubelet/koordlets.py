"""The koordlets: NodeMetrics with the usage of nodes and their pods.

All nodes report at the same times, every `interval`; a node without changes may skip reports for `refresh`.
Percentiles are over the reports of a window.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.typing import NDArray

from koordpy.api import qos
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import format_time
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.errors import AlreadyExists, NotFound
from koordpy.cluster.store import Store
from koordpy.lib import duration
from koordpy.lib.clock import Clock

from .usage import MEASURED, Float64, Usage

Document = dict[str, Any]

_PERCENTILES = (50, 90, 95, 99)
_BREATH = 50
"""The number of reports after which other work gets its turn."""


class Koordlets:
    """Reports usage to the API server, every `interval` seconds; `reported` counts the reports.

    A node without changes may be silent for `refresh` seconds (default: the interval). `aggregate` are
    windows over which percentiles are reported.
    """

    def __init__(
        self,
        usage: Usage,
        pods: Store[Pod],
        client: Client,
        clock: Clock,
        *,
        interval: float = 60.0,
        refresh: float | None = None,
        aggregate: Sequence[float] = (),
    ) -> None:
        self._usage, self._pods, self._client, self._clock = usage, pods, client, clock
        self._interval, self._refresh, self._aggregate = interval, refresh or interval, tuple(aggregate)
        self._last: Float64 = np.full_like(usage.capacity, -1.0)
        self._told: NDArray[np.float64] = np.full(len(usage.names), -np.inf)
        self._there: set[str] = set()
        longest = max(aggregate, default=0.0)
        self._history: deque[Float64] = deque(maxlen=max(1, round(longest / interval)))
        self._changes = -1
        self._reporting = asyncio.Lock()
        self.reported = 0

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            now = self._clock.monotonic()
            if self._is_due(now):
                await self.report(now)
            rounds = now // self._interval + 1
            await asyncio.sleep(max(rounds * self._interval - self._clock.monotonic(), 0.0))

    def gone(self, node: str) -> None:
        """Forget a node that has left; call it before its usage is dropped."""
        self._there.discard(node)
        self._grow()
        self._told[self._usage.row_of[node]] = -np.inf

    async def report(self, now: float) -> None:
        """Report all nodes with changes."""
        async with self._reporting:
            await self._report(now)

    async def _report(self, now: float) -> None:
        usage = self._usage
        self._changes = usage.changes
        pods = usage.of_pods(now)
        nodes = usage.of_nodes(pods)
        self._history.append(nodes)
        self._grow()
        due = (nodes != self._last).any(axis=1) | (now - self._told >= self._refresh - 1e-6)
        if self._aggregate:  # percentiles change with time alone
            due[:] = True
        rows = np.flatnonzero(due & usage.joined).tolist()
        percentiles = self._percentiles()
        for count, row in enumerate(rows, 1):
            if not usage.joined[row]:
                continue  # it has left meanwhile
            await self._write(row, nodes[row], pods, percentiles)
            if count % _BREATH == 0:
                await asyncio.sleep(0)
        self._last[rows] = nodes[rows]
        self._told[rows] = now
        self.reported += len(rows)

    def _is_due(self, now: float) -> bool:
        """Return whether any node may have changes."""
        usage = self._usage
        if usage.varies or usage.changes != self._changes or self._aggregate:
            return True
        self._grow()
        joined = self._told[usage.joined]
        return bool(len(joined)) and now - float(joined.min()) >= self._refresh - 1e-6

    async def _write(
        self, row: int, node: Float64, pods: Float64, percentiles: dict[float, dict[str, Float64]]
    ) -> None:
        usage, name = self._usage, self._usage.names[row]
        status: Document = {
            "updateTime": format_time(self._clock.now()),
            "nodeMetric": {
                "nodeUsage": _resources(node),
                "systemUsage": _resources(usage.system[row]),
            },
            "podsMetric": [
                _pod_metric(pod, pods[slot])
                for slot, _, key in usage.on(row)
                if slot < len(pods) and (pod := self._pods.get(*key)) is not None
            ],
        }
        if percentiles:
            status["nodeMetric"]["aggregatedNodeUsages"] = [
                {
                    "duration": duration.format(int(window * duration.SECOND)),
                    "usage": {kind: _resources(values[row]) for kind, values in kinds.items()},
                }
                for window, kinds in percentiles.items()
            ]
        if name not in self._there:
            await self._create(name)
            self._there.add(name)
        try:
            await self._client.patch_status(NodeMetric, "", name, {"status": status})
        except NotFound:
            await self._create(name)

    async def _create(self, name: str) -> None:
        policy = {"reportIntervalSeconds": max(int(self._interval), 1)}
        if self._aggregate:
            policy["aggregateDurationSeconds"] = int(max(self._aggregate))
        document = {
            "apiVersion": "slo.koordinator.sh/v1alpha1",
            "kind": "NodeMetric",
            "metadata": {"name": name},
            "spec": {"metricCollectPolicy": policy},
        }
        with suppress(AlreadyExists):
            await self._client.create_raw(resource_of(NodeMetric), "", document)

    def _grow(self) -> None:
        """Make place for nodes that were added since."""
        more = len(self._usage.names) - len(self._told)
        if more > 0:
            self._told = np.append(self._told, np.full(more, -np.inf))
            self._last = np.vstack([self._last, np.full((more, len(MEASURED)), -1.0)])

    def _percentiles(self) -> dict[float, dict[str, Float64]]:
        found: dict[float, dict[str, Float64]] = {}
        for window in self._aggregate:
            count = max(1, round(window / self._interval))
            recent = self._recent(count)
            kinds: dict[str, Float64] = {"avg": recent.mean(axis=0)}
            for percentile in _PERCENTILES:
                kinds[f"p{percentile}"] = np.percentile(recent, percentile, axis=0)
            found[window] = kinds
        return found

    def _recent(self, count: int) -> Float64:
        """Return the last reports as (reports, nodes, resources); before a node was added it used nothing."""
        reports = list(self._history)[-count:]
        rows = len(reports[-1])
        return np.stack([np.pad(report, ((0, rows - len(report)), (0, 0))) for report in reports])


def _pod_metric(pod: Pod, used: Float64) -> Document:
    return {
        "namespace": pod.metadata.namespace,
        "name": pod.metadata.name,
        "priority": str(qos.priority_class(pod)),
        "qos": str(qos.qos_class(pod)),
        "podUsage": _resources(used),
    }


def _resources(values: Float64) -> Document:
    cpu, memory = (int(value) for value in values)
    return {"resources": dict(zip(MEASURED, (f"{cpu}m", str(memory)), strict=True))}
