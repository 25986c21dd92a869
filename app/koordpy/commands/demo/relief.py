"""The last part of the story: the descheduler moves pods away from the hot nodes.

The worker is a second koordpy beside the one with webhooks and extender, as in a cluster: it talks to the API
server alone. It keeps running after the story.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass

from rich.console import Console

from koordpy import data
from koordpy import settings as process_settings
from koordpy.api.pod_migration_job import ANNOTATION_EVICT_REASON, SUCCEEDED, PodMigrationJob
from koordpy.compose.process import Process
from koordpy.lib.counting import counted

from .access import LOOPBACK
from .cluster import DemoCluster, DemoFailed

_BAR = 24
"""The width of a full node in the chart."""

_PAUSE = 0.3
_EIGHTHS = " ▏▎▍▌▋▊▉"

Usage = Mapping[str, float]
"""Fractions of CPU in use, by node."""


@dataclass(frozen=True)
class Move:
    """A pod that was moved, from where to where, and why."""

    pod: str
    origin: str
    target: str
    reason: str


class Relief:
    """Runs the worker until no node of `hot` is above `threshold`, a fraction of its CPU.

    `usage` measures the nodes. `within` is the time limit in seconds.
    """

    def __init__(
        self,
        cluster: DemoCluster,
        stack: AsyncExitStack,
        usage: Callable[[], Awaitable[Usage]],
        hot: list[str],
        threshold: float,
        within: float,
    ) -> None:
        self._cluster, self._stack, self._measure = cluster, stack, usage
        self._hot, self._threshold, self._within = hot, threshold, within
        self.before: Usage = {}
        self.after: Usage = {}
        self.moves: list[Move] = []

    async def run(self) -> None:
        """Start the worker and wait. Raises DemoFailed if a node stays hot, or a pod did not move."""
        await self._cluster.kubelets.report()
        self.before = await self._measure()
        homes = dict(await self._cluster.homes())
        worker = Process(self._settings(), ["descheduler", "debug"])
        self._stack.push_async_callback(worker.stop)
        await worker.start()
        await worker.wait_ready(self._within)
        self._cluster.worker = worker
        jobs = await self._finish(homes)
        self.moves = [
            Move(
                pod=job.pod_key,
                origin=homes.get(job.pod_uid, ""),
                target=job.status.node_name,
                reason=job.metadata.annotations.get(ANNOTATION_EVICT_REASON, ""),
            )
            for job in jobs
        ]

    async def _finish(self, homes: dict[str, str]) -> list[PodMigrationJob]:
        """Return the jobs, all of which have ended, once no node is hot; keep the nodes of new pods, too."""
        deadline = time.monotonic() + self._within
        while True:
            await self._cluster.kubelets.report()
            self.after = await self._measure()
            homes |= await self._cluster.homes()
            jobs = await self._cluster.client.list_all(PodMigrationJob)
            failed = [job for job in jobs if not job.is_unfinished and job.status.phase != SUCCEEDED]
            if failed:
                raise DemoFailed(
                    f"the migration of pod {failed[0].pod_key} failed: {failed[0].status.message}"
                )
            still = [name for name in self._hot if self.after.get(name, 0.0) > self._threshold]
            if jobs and not still and not any(job.is_unfinished for job in jobs):
                await self._cluster.kubelets.report()  # of the pods that have started meanwhile
                self.after = await self._measure()
                return jobs
            if time.monotonic() > deadline:
                waits = next((job for job in jobs if job.is_unfinished), None)
                told = (
                    f"{len(still)} of {counted(len(self._hot), 'hot node')} stay hot for {self._within:g} s"
                )
                if waits is not None:
                    why = waits.status.message or waits.status.phase or "not begun yet"
                    told += f", and pod {waits.pod_key} is being migrated: {why}"
                elif not jobs:
                    told += ", and the descheduler moves no pod"
                raise DemoFailed(told)
            await asyncio.sleep(_PAUSE)

    def _settings(self) -> process_settings.Settings:
        return process_settings.load(
            None,
            {
                "client": {"server": self._cluster.api.url},
                "worker": {
                    "descheduler": {"config": str(data.deploy("demo", "descheduler.yaml"))},
                },
                "debug": {"bindAddress": LOOPBACK, "port": self._cluster.worker_port},
                "shutdownDelay": 0,
            },
        )


def show(to: Console, relief: Relief, most: int = 4) -> None:
    """Print the first moves, and the nodes' usage before and after as bars."""
    moves = sorted(relief.moves, key=lambda move: (move.origin, move.pod))
    title = "[bold]What the descheduler did about the hot nodes[/bold]"
    to.print(f"\n{title}: {counted(len(moves), 'pod')} moved, each to a place that was reserved for it first")
    for move in moves[:most]:
        to.print(f"  {move.pod}: {move.origin} → {move.target}", highlight=False)
    if len(moves) > most:
        to.print(f"  and {len(moves) - most} more")
    if moves:
        to.print(f"  because {moves[0].reason}", highlight=False, markup=False, soft_wrap=True)
    origins = [move.origin for move in moves]
    nodes = list(dict.fromkeys([*origins[:most], *(move.target for move in moves[:most])]))
    to.print(f"\n  {'CPU':<10}{'before':<{_BAR + 8}}after", highlight=False)
    for name in nodes:
        before, after = relief.before.get(name, 0.0), relief.after.get(name, 0.0)
        to.print(
            f"  {name:<10}{bar(before):<{_BAR}}{before:>5.0%}   {bar(after):<{_BAR}}{after:>5.0%}",
            highlight=False,
        )


def bar(share: float) -> str:
    """Return a bar for a share between 0 and 1."""
    eighths = round(min(max(share, 0.0), 1.0) * _BAR * 8)
    full, rest = divmod(eighths, 8)
    return "█" * full + (_EIGHTHS[rest] if rest else "")
