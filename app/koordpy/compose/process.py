"""One koordpy process: what its parts share, and its lifecycle.

Regardless of its parts, a process has one client, one view of the cluster and one set of informers, which
follow what all parts request together; one set of feature gates, one recorder of events, one set of health
checks, and one debug endpoint.
"""

import asyncio
import logging
import random
from collections.abc import Iterable
from typing import TYPE_CHECKING

from koordpy import gates
from koordpy.cluster.connection import Channel, Connection
from koordpy.cluster.informer_checks import all_listed, informer_checks
from koordpy.lib import supervise
from koordpy.lib.clock import Clock, SystemClock
from koordpy.settings import Settings

from . import parts as installed
from .part import ConfigSource, Context, Routes

if TYPE_CHECKING:
    from koordpy.http.server.listener import Listener

log = logging.getLogger(__name__)

LAST_EVENTS_SECONDS = 5.0
"""The time limit for writing the last events at shutdown."""


class Process(Context):
    """One process with some parts. Call `start`, then `stop`; or `run`, which does both.

    Errors in the settings are raised by the constructor, before anything listens. Without `listens` nothing
    listens: callers in this process take the endpoints from `routes`. Raises KeyError for an unknown part,
    and what `Part.prepare` raises.
    """

    def __init__(
        self,
        settings: Settings,
        parts: Iterable[str],
        *,
        listens: bool = True,
        connection: Channel | None = None,
        clock: Clock | None = None,
        rng: random.Random | None = None,
        source: ConfigSource | None = None,
    ) -> None:
        access = settings.client
        channel = connection or Connection.find(access.kubeconfig, access.context, access.server)
        super().__init__(settings, channel, clock or SystemClock(), rng or random.Random())
        self.source = source
        self.health.ready["informers"] = all_listed(self.informers)
        self.listeners: dict[str, Listener] = {}
        """Listeners by the name of their part, as are `routes`."""
        self.routes: dict[str, Routes] = {}
        self.parts.extend(part(self) for part in installed.in_order(parts))
        specs = {name: spec for part in self.parts for name, spec in part.gates.items()}
        tolerant = any(part.lacks_gates for part in self.parts)
        self.gates = gates.chosen(specs, settings.feature_gates, tolerant=tolerant)
        self._recording: asyncio.Task[None] | None = None
        self._renewing: asyncio.Task[None] | None = None
        self._has_started = False
        for part in self.parts:
            part.prepare()
        self.routes = {part.name: found for part in self.parts if (found := part.routes()) is not None}
        self._listens = listens
        if listens:
            from .listening import bind  # only listening processes need these libraries

            self.listeners = bind(self, self.routes)

    # --- lifecycle -------------------------------------------------------------------------------

    async def start(self) -> None:
        """Follow the cluster, listen, and start the parts.

        Listeners open immediately, so that probes get answers; until every informer has listed, `/readyz`
        fails and no request is decided on a partial view. Raises what `Part.start` raises, ListenError.
        """
        await self.informers.start()
        self.health.ready |= informer_checks(self.informers)
        if not self._listens:
            await self.informers.wait_synced()
        for name, listener in self.listeners.items():
            if self.routes[name].on_start:
                await listener.start()
        self._recording = asyncio.create_task(supervise.forever("events", self.events.run))
        if self.listeners:
            from .listening import renew

            self._renewing = asyncio.create_task(renew(self, self.routes.values()), name="certificates")
        for part in self.parts:
            await part.start()
        self._has_started = True

    async def wait_ready(self, timeout: float | None = None) -> None:
        """Return once every informer has listed and every part can work.

        Raises TimeoutError naming what is missing.
        """
        await self.informers.wait_synced(timeout)
        try:
            async with asyncio.timeout(timeout):
                for part in self.parts:
                    await part.wait_ready()
        except TimeoutError:
            failures = self.health.failures(self.health.ready)
            raise TimeoutError("; ".join(f"{name}: {reason}" for name, reason in failures.items())) from None

    async def wait(self) -> None:
        """Return when the work of all parts is over; most never end.

        Raises what a part raised.
        """
        working = [part for part in self.parts if not part.accompanies]
        waiting = [asyncio.create_task(part.wait()) for part in working or self.parts]
        try:
            done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_EXCEPTION)
            for task in done:
                task.result()
        finally:
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)

    async def run(self) -> None:
        """Start, wait until all work is over, and stop. Raises what a part ended with."""
        try:
            await self.start()
            await self.wait()
        finally:
            await self.stop()

    async def stop(self) -> None:
        """Fail readiness, stop the parts, answer requests in flight, then close the cluster view.

        Requests are still answered for a while first, until the cluster has stopped sending them here.
        """
        self.health.ready["shutdown"] = lambda: "koordpy is shutting down"
        for listener in self.listeners.values():
            listener.drain()
        if self._has_started:
            await asyncio.sleep(self.shutdown_seconds)
        for part in reversed(self.parts):
            await part.stop()
        await self._write_last_events()
        if self._renewing is not None:
            self._renewing.cancel()
            await asyncio.gather(self._renewing, return_exceptions=True)
        await asyncio.gather(*(listener.stop() for listener in self.listeners.values()))
        await self.informers.stop()
        self.cluster.close()
        await self.client.close()

    @property
    def shutdown_seconds(self) -> float:
        """How long the process keeps serving, not ready, after it was told to stop."""
        delay = self.settings.shutdown_delay
        return max(part.shutdown_delay for part in self.parts) if delay is None else delay

    async def _write_last_events(self) -> None:
        """Write the last events, without letting an unreachable API server delay the exit."""
        if self._recording is None:
            return
        try:
            async with asyncio.timeout(LAST_EVENTS_SECONDS):
                await self.events.flush()
        except TimeoutError:
            log.warning("not all events were written within %g s", LAST_EVENTS_SECONDS)
        self._recording.cancel()
        await asyncio.gather(self._recording, return_exceptions=True)
