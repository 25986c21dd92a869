"""What one of several `koordpy serve` does for all: schedule Reservations, run the controllers of plugins.

It has to be the one that kube-scheduler asks: only there Reservations and pods are never given the same
resources. No process knows that of the others, but each sees when a pod is bound that it was not asked about:
then it gives the lease up, and leaves it for a while to those that are asked.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Mapping

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.leader import LeaderElector, identity
from koordpy.cluster.store import Subscription
from koordpy.lib import supervise
from koordpy.lib.clock import Clock
from koordpy.scheduling.extender import Extender
from koordpy.settings import LeaseSettings

log = logging.getLogger(__name__)

MODEST_SECONDS = 30.0
"""How long a process that is not asked leaves the lease to others."""

Part = Callable[[], Awaitable[None]]
"""Works until cancelled; called again each time that the lead is won."""


class Lead:
    """Runs parts while this process leads; `lease` None means that nobody else could."""

    def __init__(
        self,
        parts: Mapping[str, Part],
        extender: Extender,
        client: Client,
        lease: LeaseSettings | None,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._parts, self._extender = dict(parts), extender
        self._pods = extender.handle.cluster.store(Pod)
        self._elector: LeaderElector | None = None
        if lease is not None:
            self._elector = LeaderElector(
                client,
                lease.namespace,
                lease.name,
                identity(),
                lease_duration=lease.lease_duration,
                renew_deadline=lease.renew_deadline,
                retry_period=lease.retry_period,
                clock=clock,
                rng=rng,
            )
        self._others_bind = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._following: Subscription[Pod] | None = None
        self.is_leading = False

    def begin(self, when: Callable[[], Awaitable[None]]) -> None:
        """Stand for election after `when` has returned."""
        self._task = asyncio.create_task(self._run(when))

    async def stop(self) -> None:
        """End all parts and give up the lease."""
        if self._following is not None:
            self._pods.unsubscribe(self._following)
            self._following = None
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, when: Callable[[], Awaitable[None]]) -> None:
        await when()
        if self._elector is None:
            await self._work()
            return
        self._following = self._pods.subscribe(on_update=self._pod_updated, replay=False)
        elector = self._elector
        await supervise.forever("election", lambda: self._stand(elector))

    async def _stand(self, elector: LeaderElector) -> None:
        while True:
            self._others_bind.clear()
            await elector.run(self._lead)
            if self._others_bind.is_set():
                log.info("kube-scheduler asks another process: leaving the lease to that one")
                await self._be_modest()
            else:
                log.warning("no longer the leader; waiting for the lease again")

    async def _lead(self) -> None:
        """Work until others turn out to be asked."""
        working = asyncio.create_task(self._work())
        others = asyncio.create_task(self._others_bind.wait())
        try:
            await asyncio.wait((working, others), return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in (working, others):
                task.cancel()
            await asyncio.gather(working, others, return_exceptions=True)

    async def _work(self) -> None:
        self.is_leading = True
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, part in self._parts.items():
                    tasks.create_task(supervise.forever(name, part))
        finally:
            self.is_leading = False

    async def _be_modest(self) -> None:
        try:
            async with asyncio.timeout(MODEST_SECONDS):
                await self._extender.binds.asked.wait()
        except TimeoutError:
            pass

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if (
            new.spec.node_name
            and not old.spec.node_name
            and self._extender.profiles.of(new.spec.scheduler_name) is not None
            and new.metadata.uid not in self._extender.binds.asked
        ):
            self._others_bind.set()
