"""What only one of several extenders does: schedule Reservations, run the controllers of plugins.

It must be the one that kube-scheduler calls, which the others cannot know: a process that is called and does
not lead claims the Lease, and the leader releases it. If Reservations are scheduled, or quotas or gangs are
enforced, binds wait for that behind the fence (`koordpy.scheduling.cycle.fence`), so that Reservations and
pods never get the same resources, and two processes together exceed no quota.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from koordpy.cluster.client import Client
from koordpy.lib import supervise
from koordpy.lib.clock import Clock
from koordpy.scheduling.cycle.fence import Fence, Limits
from koordpy.scheduling.extender.extender import Extender
from koordpy.settings import LeaseSettings

from .election import Election, Work

log = logging.getLogger(__name__)


class ExtenderElection(Election):
    """Runs what was added while this process leads; `lease` None means that there is no other process.

    If nothing was added, it does nothing and needs no Lease.
    """

    def __init__(
        self,
        extender: Extender,
        client: Client,
        lease: LeaseSettings | None,
        *,
        clock: Clock,
        rng: random.Random,
    ) -> None:
        super().__init__(
            self._do_all, client, lease, clock=clock, rng=rng, on_held=self._held, claims=self._wants
        )
        self.works: dict[str, Work] = {}
        self._lease, self._binds = lease, extender.binds
        self._fence: Fence | None = None
        self._catch_up: Callable[[], Awaitable[None]] | None = None
        self._called_at = -float("inf")
        self._claimed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def __bool__(self) -> bool:
        return bool(self.works)

    def add(self, name: str, work: Work) -> None:
        """Add work of the leader, supervised under a name; call it before `begin`."""
        self.works[name] = work
        if self.elector is not None:
            self._binds.on_asked = self._called

    def guard(self, catch_up: Callable[[], Awaitable[None]]) -> None:
        """Fence the binds of this process: only the leader allocates what a write alone does not check.

        That is the case where added work allocates resources of nodes too, and where binds allocate more than
        what is on a node. `catch_up` returns once everything written before is known, and raises if that
        fails.
        """
        if self._lease is None or self.elector is None:
            return
        if not self.works:
            self.add("holding the Lease", _for_ever)  # there is nothing else to do with it
        self._catch_up, self._fence = catch_up, self._binds.fence
        duration = self.elector.duration
        end = (self._lease.renew_deadline + duration) / 2
        self._fence.enable(Limits(self._lease.renew_deadline, end, duration), self._why_shut)

    def begin(self, when: Callable[[], Awaitable[None]]) -> None:
        """Campaign after `when` has returned."""
        if self:
            self._task = asyncio.create_task(self._begin(when))

    async def stop(self) -> None:
        """End all work, fail waiting binds, and release the Lease."""
        if self._fence is not None:
            self._fence.end("koordpy is shutting down")
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _begin(self, when: Callable[[], Awaitable[None]]) -> None:
        await when()
        if self.elector is None:
            await self.run()
        else:
            await supervise.forever("election", self.run)

    async def lead(self) -> None:
        """Work until another process claims the Lease; return when no write is in flight."""
        if self.elector is None:
            await super().lead()
            return
        if self._fence is not None and self._catch_up is not None:
            await self._catch_up()
            self._fence.open()
        self._claimed.clear()
        working = asyncio.create_task(super().lead())
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

    async def _do_all(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for name, work in self.works.items():
                tasks.create_task(supervise.forever(name, work))

    def lost(self) -> None:
        """Log the process that gets the Lease, if any."""
        if self._claimed.is_set() and self.elector is not None:
            log.info("kube-scheduler calls another process: releasing the Lease to %s", self.elector.claimant)
        else:
            super().lost()

    # --- which process should lead ---------------------------------------------------------------

    def _called(self) -> None:
        """Record that kube-scheduler calls this process."""
        if self.elector is not None and not self.is_leading:
            self._called_at = self._clock.monotonic()
            self.elector.claim()

    def _wants(self) -> bool:
        if self._fence is not None:
            return self._fence.is_awaited
        assert self.elector is not None
        return self._clock.monotonic() < self._called_at + self.elector.duration

    def _held(self, at: float) -> None:
        assert self.elector is not None
        if self._fence is not None:
            self._fence.confirm(at)
        if self.elector.claimant not in ("", self.elector.identity):
            self._claimed.set()

    def _why_shut(self) -> str:
        elector = self.elector
        assert elector is not None
        lease = f"the Lease {elector.namespace}/{elector.name}"
        if elector.problem:
            return f"{lease} cannot be acquired: {elector.problem}"
        if elector.leader in ("", elector.identity):
            return f"{lease} is being acquired"
        return f"{lease} is held by {elector.leader}, which has been requested to release it"


async def _to_its_end(work: Coroutine[Any, Any, None]) -> None:
    """Run an operation to its end even if cancelled meanwhile."""
    task, cancelled = asyncio.ensure_future(work), False
    while not task.done():
        try:
            await asyncio.shield(task)
        except asyncio.CancelledError:
            cancelled = True
    task.result()
    if cancelled:
        raise asyncio.CancelledError


async def _for_ever() -> None:
    await asyncio.Event().wait()
