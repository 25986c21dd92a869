"""The pods of all nodes: started when they are bound, run as planned, stopped when they are deleted.

One object stands for the kubelets of all nodes. What is due next for each pod is in one queue, so that a pod
that only runs costs nothing.
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from typing import Any

from koordpy.api.core import Pod
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed, NotFound
from koordpy.cluster.events import NORMAL, WARNING, Recorder
from koordpy.cluster.store import Store
from koordpy.controllers.queue import RetryLimiter, WorkQueue
from koordpy.controllers.reconcile import reconcile_once
from koordpy.lib.clock import Clock

from .network import Network
from .plan import PodPlan
from .pod_run import PodRun, resumed
from .runtime import Runtime

log = logging.getLogger(__name__)

Document = dict[str, Any]

_AT_ONCE = 32
"""The most pods that are handled concurrently."""
_AGAIN_AFTER = 0.5
_GRACE = 30.0


class _Known:
    """A pod that a kubelet has taken over."""

    __slots__ = ("counted", "is_done", "plan", "run", "stops", "written")

    def __init__(self, plan: PodPlan, run: PodRun) -> None:
        self.plan, self.run = plan, run
        self.written: Document | None = None
        self.stops: float | None = None
        """When its containers have stopped, once it is being deleted."""
        self.counted = False
        """Whether the runtime knows that it runs."""
        self.is_done = False
        """Whether it has ended, and nothing of it need be reported."""


class PodKubelets:
    """Runs the pods of nodes that are `alive`. Without `events` nothing is recorded about them."""

    def __init__(
        self,
        pods: Store[Pod],
        client: Client,
        clock: Clock,
        runtime: Runtime,
        *,
        events: Recorder | None = None,
        network: Network | None = None,
        is_alive: Callable[[str], bool] = lambda _: True,
    ) -> None:
        self._pods, self._client, self._clock = pods, client, clock
        self._runtime, self._events, self._is_alive = runtime, events, is_alive
        self._known: dict[str, _Known] = {}
        self._network = network or Network()
        self._epoch = clock.now()
        self._zero = clock.monotonic()
        self._failures = RetryLimiter(clock, base=0.2, maximum=30.0, rate=100.0, burst=1000)
        self.queue = WorkQueue("kubelet", clock)
        self._subscription = pods.subscribe(self._seen, lambda _, pod: self._seen(pod), self._gone)

    async def run(self) -> None:
        """Run pods until cancelled."""
        limit = asyncio.Semaphore(_AT_ONCE)
        async with asyncio.TaskGroup() as tasks:
            while True:
                key = await self.queue.get()
                await limit.acquire()
                tasks.create_task(self._work(key, limit))

    async def _work(self, key: str, limit: asyncio.Semaphore) -> None:
        try:
            await reconcile_once(self.queue, key, self._reconcile)
        finally:
            self.queue.done(key)
            limit.release()

    def close(self) -> None:
        """Follow the pods no longer."""
        self._pods.unsubscribe(self._subscription)

    def take_up(self, node: str) -> None:
        """Continue with the pods of a node that has come, or has come back to life."""
        for pod in self._pods.index(node_of).get(node):
            if (known := self._known.get(pod.metadata.uid)) is not None:
                known.written = None  # others have marked the pod while the node was silent
            self.queue.add(pod.metadata.key)

    def _seen(self, pod: Pod) -> None:
        if not pod.spec.node_name:
            return
        known = self._known.get(pod.metadata.uid)
        if known is None or (pod.metadata.deletion_timestamp is not None and known.stops is None):
            self.queue.add(pod.metadata.key)

    def _gone(self, pod: Pod) -> None:
        known = self._known.pop(pod.metadata.uid, None)
        if known is not None:
            self._network.release(known.run.pod_ip)
            if known.counted:
                self._runtime.stopped(pod)

    async def _reconcile(self, key: str) -> float | None:
        try:
            again = await self._step(key)
        except NotFound:
            again = None  # it is gone, and the watch will show it
        except Conflict:
            return _AGAIN_AFTER
        except (ApiError, ConnectionFailed) as error:
            log.info("pod %s: %s", key, error)
            return self._failures.when(key)
        self._failures.forget(key)
        return again

    async def _step(self, key: str) -> float | None:
        pod = self._pods.by_key(key)
        if pod is None or not pod.spec.node_name or not self._is_alive(pod.spec.node_name):
            return None
        known = self._known.get(pod.metadata.uid)
        if known is None:
            if pod.is_terminal:
                if pod.metadata.deletion_timestamp is not None:
                    await self._confirm(pod)
                return None
            known = await self._take(pod)
            if known is None:
                return None
        if pod.metadata.deletion_timestamp is not None:
            return await self._terminate(pod, known)
        return await self._continue(pod, known)

    async def _take(self, pod: Pod) -> _Known | None:
        """Take over a pod that was bound, or that an earlier kubelet ran."""
        given = await self._runtime.plan(pod)
        current = self._pods.by_key(pod.metadata.key)
        if given is None or current is None or current.metadata.uid != pod.metadata.uid:
            return None
        plan, status = given
        host = self._network.host(pod.spec.node_name)
        address = host if plan.host_network else self._network.assign(status.get("podIP", ""))
        now = self._clock.monotonic() - self._zero
        run = PodRun(pod.metadata.uid, plan, now, self._epoch, host, address)
        if status.get("startTime"):
            run.began = run.seconds(status["startTime"])
            run = resumed(run, status)
        known = self._known[pod.metadata.uid] = _Known(plan, run)
        return known

    async def _continue(self, pod: Pod, known: _Known) -> float | None:
        """Do what is due for a pod that is not being deleted, and report it."""
        now = self._clock.monotonic() - self._zero
        run = known.run
        if known.is_done:
            return None
        before = [container.restarts for container in run.containers]
        following = run.advance(now)
        if run.phase == "Running" and not known.counted:
            known.counted = True
            self._runtime.started(pod)
            self._started(pod, run)
        elif before != [container.restarts for container in run.containers]:
            self._event(pod, WARNING, "BackOff", "Back-off restarting failed container")
        if run.is_over:
            if known.counted:
                known.counted = False
                self._runtime.stopped(pod)
            if await self._runtime.finished(pod):
                known.is_done = True
                return None
        await self._report(pod, known)
        return None if following is None else max(following - now, 0.0)

    async def _terminate(self, pod: Pod, known: _Known) -> float | None:
        """Stop a deleted pod's containers, which may take their grace period; then confirm its deletion."""
        now = self._clock.monotonic() - self._zero
        run = known.run
        if known.stops is None:
            period = pod.metadata.deletion_grace_period_seconds
            grace = _GRACE if period is None else float(period)
            known.stops = now + (min(known.plan.stop_after, grace) if run.phase == "Running" else 0.0)
            if run.phase == "Running":
                for container in run.plan.containers:
                    self._event(pod, NORMAL, "Killing", f"Stopping container {container.name}")
        if now + 1e-6 < known.stops:
            return known.stops - now
        if not run.is_over:
            run.stop(now)
        if known.counted:
            known.counted = False
            self._runtime.stopped(pod)
        if pod.metadata.finalizers and not pod.is_terminal:
            await self._report(pod, known)
        await self._confirm(pod)
        return None

    async def _confirm(self, pod: Pod) -> None:
        """Complete the deletion of a pod whose containers have stopped."""
        if pod.metadata.deletion_grace_period_seconds == 0 and pod.metadata.finalizers:
            return
        meta = pod.metadata
        await self._client.delete(Pod, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=0)

    async def _report(self, pod: Pod, known: _Known) -> None:
        status = known.run.status()
        if status == known.written:
            return
        meta = pod.metadata
        patch = {"metadata": {"uid": meta.uid}, "status": status}
        try:
            await self._client.patch_status(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
        except (ApiError, ConnectionFailed):
            known.written = None
            raise
        known.written = status

    # --- events ----------------------------------------------------------------------------------

    def _started(self, pod: Pod, run: PodRun) -> None:
        for container in run.plan.containers:
            name, image = container.name, container.image
            told = f'Container image "{image}" already present on machine'
            self._event(pod, NORMAL, "Pulled", told)
            self._event(pod, NORMAL, "Created", f"Created container: {name}")
            self._event(pod, NORMAL, "Started", f"Started container {name}")

    def _event(self, pod: Pod, type_: str, reason: str, told: str) -> None:
        if self._events is not None:
            self._events.event(pod, type_, reason, told)


def node_of(pod: Pod) -> Iterable[str]:
    """Index: the node of a pod."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()
