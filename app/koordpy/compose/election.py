"""Work that only one of several processes does: the one that holds a Lease.

Parts share only the mechanism. The extender, the descheduler and the controllers have separate Leases, named
as those of Koordinator's components, so that koordpy's never run beside Koordinator's.
"""

import logging
import random
from collections.abc import Awaitable, Callable
from typing import Any

from koordpy.cluster.client import Client
from koordpy.cluster.leader import LeaderElector, identity
from koordpy.lib.clock import Clock
from koordpy.settings import LeaseSettings

log = logging.getLogger(__name__)

Work = Callable[[], Awaitable[None]]
"""Works until cancelled; called again each time that the Lease is won."""


class Election:
    """Does `work` while this process holds a Lease, or all the time without one.

    With `once` the work is not restarted, neither after its end nor after losing the Lease.
    """

    def __init__(
        self,
        work: Work,
        client: Client,
        lease: LeaseSettings | None,
        *,
        once: bool = False,
        clock: Clock,
        rng: random.Random,
        **options: Any,
    ) -> None:
        self.is_leading = False
        self.elector: LeaderElector | None = None
        self._work, self._once, self._clock = work, once, clock
        if lease is not None:
            self.elector = LeaderElector(
                client,
                lease.namespace,
                lease.name,
                identity(),
                lease_duration=lease.lease_duration,
                renew_deadline=lease.renew_deadline,
                retry_period=lease.retry_period,
                clock=clock,
                rng=rng,
                on_new_leader=self._seen,
                **options,
            )

    @property
    def waiting_for(self) -> str:
        """Return which Lease of which holder this process waits for; empty if for none."""
        elector = self.elector
        if elector is None or self.is_leading or elector.leader in ("", elector.identity):
            return ""
        return f"the Lease {elector.namespace}/{elector.name}, held by {elector.leader}"

    def _seen(self, _: str) -> None:
        if self.waiting_for:
            log.info("waiting for %s", self.waiting_for)

    async def run(self) -> None:
        """Campaign repeatedly, and work while leading. Raises what the work raises."""
        if self.elector is None:
            await self.lead()
            return
        while True:
            await self.elector.run(self.lead)
            if self._once:
                return
            self.lost()

    async def lead(self) -> None:
        """Work while this process holds the Lease."""
        self.is_leading = True
        try:
            await self._work()
        finally:
            self.is_leading = False

    def lost(self) -> None:
        """Log that the Lease was lost."""
        log.warning("lost leadership; waiting for the Lease again")
