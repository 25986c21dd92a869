"""What one of several `koordpy serve` does for all: schedule Reservations, run the controllers of plugins.

It has to be the one that kube-scheduler asks. No process knows that of the others: who is asked and does
not lead claims the Lease, and the leader gives it up. Where Reservations are scheduled, binds wait for that
behind the fence (`koordpy.scheduling.cycle.fence`): so Reservations and pods are never given the same
resources.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any

from koordpy.cluster.client import Client
from koordpy.cluster.leader import LeaderElector, identity
from koordpy.lib import supervise
from koordpy.lib.clock import Clock
from koordpy.scheduling.cycle.fence import Fence, Limits
from koordpy.scheduling.extender.extender import Extender
from koordpy.settings import LeaseSettings

log = logging.getLogger(__name__)

Part = Callable[[], Awaitable[None]]
"""Works until cancelled; called again each time that the lead is won."""


class Lead:
    """Runs parts while this process leads; `lease` None means that nobody else could.

    `catch_up` is given where parts give away room of nodes. It returns when everything is known that was
    written before, and raises where it cannot tell.
    """

    def __init__(
        self,
        parts: Mapping[str, Part],
        extender: Extender,
        client: Client,
        lease: LeaseSettings | None,
        *,
        catch_up: Callable[[], Awaitable[None]] | None = None,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        self._parts, self._clock = dict(parts), clock
        self._fence: Fence | None = None
        self._catch_up = catch_up
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
                on_held=self._held,
                claims=self._wants,
                clock=clock,
                rng=rng,
            )
            extender.binds.on_asked = self._asked
            duration = self._elector.duration
            if catch_up is not None:
                end = (lease.renew_deadline + duration) / 2
                self._fence = extender.binds.fence
                self._fence.put_up(Limits(lease.renew_deadline, end, duration), self._why_shut)
        self._asked_at = -float("inf")
        self._claimed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self.is_leading = False

    def begin(self, when: Callable[[], Awaitable[None]]) -> None:
        """Stand for election after `when` has returned."""
        self._task = asyncio.create_task(self._run(when))

    async def stop(self) -> None:
        """End all parts, let no bind wait any more, and give up the lease."""
        if self._fence is not None:
            self._fence.end("koordpy is shutting down")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _run(self, when: Callable[[], Awaitable[None]]) -> None:
        await when()
        if self._elector is None:
            await self._work()
            return
        elector = self._elector
        await supervise.forever("election", lambda: self._stand(elector))

    async def _stand(self, elector: LeaderElector) -> None:
        while True:
            await elector.run(self._lead)
            if self._claimed.is_set():
                log.info("kube-scheduler asks another process: leaving the lease to %s", elector.claimant)
            else:
                log.warning("no longer the leader; waiting for the lease again")

    async def _lead(self) -> None:
        """Work until another process claims the lease; return when nothing of it is under way any more."""
        if self._fence is not None and self._catch_up is not None:
            await self._catch_up()
            self._fence.open()
        self._claimed.clear()
        working = asyncio.create_task(self._work())
        claimed = asyncio.create_task(self._claimed.wait())
        try:
            await asyncio.wait((working, claimed), return_when=asyncio.FIRST_COMPLETED)
        finally:
            if self._fence is not None:
                self._fence.shut()
            for task in (working, claimed):
                task.cancel()
            await _to_its_end(self._ended(working, claimed))

    async def _ended(self, *tasks: asyncio.Task[Any]) -> None:
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._fence is not None:
            await self._fence.quiet()

    async def _work(self) -> None:
        self.is_leading = True
        try:
            async with asyncio.TaskGroup() as tasks:
                for name, part in self._parts.items():
                    tasks.create_task(supervise.forever(name, part))
        finally:
            self.is_leading = False

    # --- who is to lead --------------------------------------------------------------------------

    def _asked(self) -> None:
        """It is this process that kube-scheduler asks."""
        if self._elector is not None and not self.is_leading:
            self._asked_at = self._clock.monotonic()
            self._elector.claim()

    def _wants(self) -> bool:
        if self._fence is not None:
            return self._fence.is_awaited
        assert self._elector is not None
        return self._clock.monotonic() < self._asked_at + self._elector.duration

    def _held(self, at: float) -> None:
        assert self._elector is not None
        if self._fence is not None:
            self._fence.confirm(at)
        if self._elector.claimant not in ("", self._elector.identity):
            self._claimed.set()

    def _why_shut(self) -> str:
        elector = self._elector
        assert elector is not None
        lease = f"the Lease {elector.namespace}/{elector.name}"
        if elector.problem:
            return f"{lease} cannot be had: {elector.problem}"
        if elector.leader in ("", elector.identity):
            return f"{lease} is being taken"
        return f"{lease} is held by {elector.leader}, who has been asked to give it up"


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Do what must not be left half done, and only then be cancelled."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError
