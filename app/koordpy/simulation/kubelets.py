"""The kubelets: pods start when they are bound, end after their duration, and terminate on deletion.

One object stands for the kubelets of all nodes. It gets pods from the scheduler's informer, so that no third
view of the cluster is needed, and writes what kubelets write.
"""

import asyncio
import logging
from collections.abc import Callable, Coroutine
from typing import Any

from koordpy.api.core import Pod
from koordpy.api.meta import format_time
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, NotFound
from koordpy.lib.clock import Clock

from .journal import Incarnation, Journal
from .usage import Usage

log = logging.getLogger(__name__)

_TERMINATION = 30.0
"""The longest time in seconds that a deleted pod takes to terminate."""


class Kubelets:
    """Runs pods. `gone` is called with every pod that has ended."""

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        clock: Clock,
        journal: Journal,
        usage: Usage,
        gone: Callable[[Incarnation], None],
    ) -> None:
        self._client, self._clock, self._journal, self._usage = client, clock, journal, usage
        self._gone = gone
        self._slots: dict[str, int] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self.at_work: set[asyncio.Task[None]] = set()
        pods = cluster.store(Pod)
        pods.subscribe(self._seen, lambda _, pod: self._seen(pod), self._deleted)

    async def stop(self) -> None:
        """Forget about everything that runs."""
        for task in list(self.at_work):
            task.cancel()
        await asyncio.gather(*self.at_work, return_exceptions=True)

    def _seen(self, pod: Pod) -> None:
        uid = pod.metadata.uid
        known = self._journal.alive.get((pod.metadata.namespace, pod.metadata.name))
        if known is None or not pod.spec.node_name or pod.spec.node_name not in self._usage.row_of:
            return
        if pod.metadata.deletion_timestamp is not None:
            if not known.outcome:
                known.outcome = "evicted"
                self._task(uid, self._terminate(pod))
        elif known.bound is None:
            now = self._clock.monotonic()
            self._journal.bound(known, pod.spec.node_name, now)
            self._slots[uid] = self._usage.begin(known.planned, known.key, pod.spec.node_name, now)
            self._task(uid, self._run(pod, known))

    def _deleted(self, pod: Pod) -> None:
        known = self._journal.alive.get((pod.metadata.namespace, pod.metadata.name))
        if known is None:
            return
        task = self._tasks.pop(pod.metadata.uid, None)
        if task is not None:
            task.cancel()
        slot = self._slots.pop(pod.metadata.uid, None)
        if slot is not None:
            self._usage.end(slot)
        self._journal.ended(known, "evicted", self._clock.monotonic())
        self._gone(known)

    async def _run(self, pod: Pod, known: Incarnation) -> None:
        """Report a pod as running; end it after its duration."""
        now = format_time(self._clock.now())
        conditions = [
            {"type": type_, "status": "True", "lastTransitionTime": now}
            for type_ in ("Initialized", "ContainersReady", "Ready")
        ]
        status = {"phase": "Running", "startTime": now, "conditions": conditions}
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        await self._client.patch_status(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
        if known.planned.duration is None:
            return
        await asyncio.sleep(known.planned.duration)
        known.outcome = "finished"
        await self._client.delete(Pod, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0)

    async def _terminate(self, pod: Pod) -> None:
        """Wait for the termination of a deleted pod, then confirm its deletion."""
        period = pod.metadata.deletion_grace_period_seconds
        await asyncio.sleep(min(_TERMINATION, float(_TERMINATION if period is None else period)))
        meta = pod.metadata
        await self._client.delete(Pod, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0)

    def _task(self, uid: str, work: Coroutine[Any, Any, None]) -> None:
        earlier = self._tasks.pop(uid, None)
        if earlier is not None:
            earlier.cancel()
        task = asyncio.create_task(_quietly(work))
        self._tasks[uid] = task
        self.at_work.add(task)
        task.add_done_callback(self.at_work.discard)


async def _quietly(work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    except NotFound:
        pass  # it has ended otherwise
    except ApiError as error:
        log.warning("a simulated kubelet: %s", error)
