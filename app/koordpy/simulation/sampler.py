"""Samples the cluster at intervals, and aggregates the samples."""

import asyncio
from collections.abc import Iterable

import numpy as np

from koordpy.api.extension import BATCH_CPU
from koordpy.api.koordinator import ElasticQuota
from koordpy.cluster.nodes import NodeTable
from koordpy.embedded.kubelet.usage import MEASURED, Usage
from koordpy.lib.clock import Clock

from .enforcement import Enforcement
from .gangs import State
from .journal import Journal
from .quotas import QuotaSampler
from .result import Colocation, Hot, ResourceUse, Series, Spread

_AFTERWARDS = 1e-3
"""Seconds after round times, so that pods created at those are scheduled by then."""

_NOT_SHOWN = frozenset(("pods", "ephemeral-storage"))


class Sampler:
    """Measures every `interval` seconds. `hot` are thresholds in percent of allocatable."""

    def __init__(
        self,
        interval: float,
        hot: dict[str, float],
        table: NodeTable,
        usage: Usage,
        journal: Journal,
        enforcement: Enforcement,
        quotas: Iterable[ElasticQuota],
        clock: Clock,
    ) -> None:
        self._interval, self._hot, self._table = interval, hot, table
        self._usage, self._journal, self._clock = usage, journal, clock
        self._enforcement = enforcement
        self._offered = 0.0
        self.series = Series()
        self.quotas = QuotaSampler(quotas, self.series)
        self._times_hot = np.zeros(len(usage.names), np.int64)
        self._times_there = np.zeros(len(usage.names), np.int64)

    async def run(self) -> None:
        """Measure until cancelled."""
        rounds = 0
        while True:
            rounds += 1
            await asyncio.sleep(rounds * self._interval + _AFTERWARDS - self._clock.monotonic())
            self.sample()

    def sample(self) -> None:
        """Measure once."""
        series, usage, now = self.series, self._usage, self._clock.monotonic()
        if series.times and series.times[-1] == now:
            return
        there = usage.joined
        elapsed = now - (series.times[-1] if series.times else 0.0)
        series.times.append(now)
        series.nodes.append(int(there.sum()))
        series.pending.append(self._journal.pending)
        series.running.append(self._journal.running)
        series.evicted.append(self._journal.evictions)
        self._sample_requests()
        self._sample_colocation(elapsed)
        gangs = self._journal.gangs.counts()
        series.gangs_whole.append(gangs[State.WHOLE])
        series.gangs_partly_bound.append(gangs[State.PARTLY_BOUND])
        series.gangs_waiting.append(gangs[State.WAITING])
        self.quotas.sample()
        nodes = usage.of_nodes(usage.of_pods(now))
        with np.errstate(divide="ignore", invalid="ignore"):
            shares = np.where(usage.capacity > 0, 100.0 * nodes / usage.capacity, 0.0)
        is_hot = np.zeros(len(there), np.bool_)
        for column, resource in enumerate(MEASURED):
            total = float(usage.capacity[there, column].sum())
            share = 100.0 * float(nodes[there, column].sum()) / total if total else 0.0
            series.used.setdefault(resource, []).append(share)
            of_nodes = shares[there, column]
            p95 = float(np.percentile(of_nodes, 95)) if of_nodes.size else 0.0
            series.used_p95.setdefault(resource, []).append(p95)
            if resource in self._hot:
                is_hot |= there & (shares[:, column] >= self._hot[resource])
        series.hot.append(int(is_hot.sum()))
        self._times_hot += is_hot
        self._times_there += there

    def _sample_requests(self) -> None:
        table, series = self._table, self.series
        rows = table.all().rows
        for column, resource in enumerate(table.resources.names):
            offered = int(table.allocatable[rows, column].sum())
            if resource in _NOT_SHOWN or not offered:
                continue
            share = 100.0 * int(table.requested[rows, column].sum()) / offered
            values = series.requested.setdefault(resource, [])
            values += [0.0] * (len(series.times) - 1 - len(values))  # not offered before
            values.append(share)

    def _sample_colocation(self, elapsed: float) -> None:
        table, series = self._table, self.series
        self._enforcement.account(elapsed)
        names = table.resources.names
        offered = 0.0
        if BATCH_CPU in names:
            offered = int(table.allocatable[table.all().rows, names.index(BATCH_CPU)].sum()) / 1000
        series.batch_cores.append(offered)
        series.best_effort_cores.append(self._enforcement.best_effort_cores())
        self._offered += offered * elapsed / 3600.0

    def colocation(self) -> Colocation | None:
        """Return what sharing nodes gave and cost; None if nothing was offered or used."""
        costs, series = self._enforcement.interference, self.series
        if not any(series.batch_cores) and not costs.wanted and not costs.throttled:
            return None
        return Colocation(
            offered=Spread.of(series.batch_cores),
            offered_core_hours=self._offered,
            wanted_core_hours=costs.wanted,
            used_core_hours=costs.used,
            suppressed_core_hours=costs.suppressed,
            evicted=costs.evicted,
            evicted_core_hours=costs.evicted_work,
            throttled_core_hours=costs.throttled,
        )

    def resources(self) -> dict[str, ResourceUse]:
        """Return how each resource was used over time."""
        series = self.series
        return {
            resource: ResourceUse(
                Spread.of(requested),
                Spread.of(series.used[resource]) if resource in series.used else None,
                Spread.of(series.used_p95[resource]) if resource in series.used_p95 else None,
            )
            for resource, requested in series.requested.items()
        }

    def hot(self) -> Hot:
        """Return how much of the nodes was hot."""
        there = int(self._times_there.sum())
        return Hot(
            dict(self._hot),
            100.0 * int(self._times_hot.sum()) / there if there else 0.0,
            int(self._times_hot.sum()) * self._interval / 3600.0,
            max(self.series.hot, default=0),
            int((self._times_hot > 0).sum()),
        )
