"""The loop that keeps certificate and webhook configurations right, on every replica alike.

A round gets the certificate, completes the configurations and publishes the certificate, in this order. It
runs when the Secret or one of the configurations changes, a minute after a round that went well, and soon
again after one that failed. All replicas come to the same result from the same objects, so they do not
undo each other's work; while two versions of koordpy run side by side they may, and then each waits longer
and longer between its writes.

Source: Koordinator, `pkg/webhook/util/controller/webhook_controller.go`.
"""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from pathlib import Path
from time import monotonic
from typing import Final

from koordpy.api.core import MutatingWebhookConfiguration, Secret, ValidatingWebhookConfiguration
from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, Conflict, ConnectionFailed
from koordpy.cluster.selector import Selector
from koordpy.lib import supervise
from koordpy.lib.certificates import CA_CERT, CertificateError
from koordpy.lib.queue_metrics import QueueMetrics
from koordpy.lib.supervise import Backoff

from .certificate_source import Source
from .configuration import ConfigurationError
from .registrar import Registrar

log = logging.getLogger(__name__)

RESYNC: Final = 60.0
"""Seconds between rounds in which nothing happened."""

FIRST_SYNC: Final = 20.0
"""Seconds within which the first round must have gone well."""

_KEY: Final = "webhook"
"""There is one piece of work."""

_LOOK: Final = 5.0
"""Seconds between checks of a folder that another process writes."""


class FirstSyncError(Exception):
    """The first round has not gone well in time; the message says what is in its way."""


class Controller:
    """Keeps one replica's certificate, and everybody's configurations, right.

    `secret` is the (namespace, name) to follow in `cluster`, whose informers the caller starts; `folder` the
    one to check where another process fills it. Without `registrar` the configurations are left alone.
    """

    def __init__(
        self,
        source: Source,
        registrar: Registrar | None,
        cluster: Cluster,
        *,
        secret: tuple[str, str] | None = None,
        folder: Path | None = None,
        resync: float = RESYNC,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.initialized = asyncio.Event()
        """Set once a round has gone well."""
        self.error = ""
        """What the last round failed with."""
        self._source, self._registrar, self._folder = source, registrar, folder
        self._resync, self._sleep = resync, sleep
        rng = rng or random.Random()
        self._failing = Backoff(initial=0.05, maximum=RESYNC, rng=rng)
        self._writing = Backoff(initial=0.02, maximum=RESYNC, rng=rng)
        self._queue = QueueMetrics("webhook-controller", monotonic)
        self._wake = asyncio.Event()
        self._follow(cluster, secret)
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self) -> None:
        """Begin to work."""
        loops = {"webhook controller": self._run}
        if self._folder is not None:
            loops["certificate folder"] = self._look
        for name, loop in loops.items():
            self._tasks.append(asyncio.create_task(supervise.forever(name, loop), name=name))

    async def stop(self) -> None:
        """End; what is under way is given up, and the next replica or start does it again."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_initialized(self, seconds: float = FIRST_SYNC) -> None:
        """Return after the first round that went well. Raises FirstSyncError."""
        try:
            async with asyncio.timeout(seconds):
                await self.initialized.wait()
        except TimeoutError:
            raise FirstSyncError(
                f"failed to start webhook controller for waiting more than {seconds:g}s: "
                f"{self.error or 'no answer yet'}"
            ) from None

    async def sync(self) -> bool:
        """Run one round; return whether a configuration was changed."""
        trusted = await self._source.ensure()
        changed = False if self._registrar is None else await self._registrar.register(trusted)
        await self._source.serve()
        self.initialized.set()
        return changed

    # --- the loop --------------------------------------------------------------------------------

    async def _run(self) -> None:
        was_quiet = False
        while True:
            self._wake.clear()
            wait = await self._round(was_quiet)
            try:
                async with asyncio.timeout(wait):
                    await self._wake.wait()
                was_quiet = False
            except TimeoutError:
                was_quiet = True
                self._queue.add(_KEY)

    async def _round(self, was_quiet: bool) -> float:
        """Run one round, and return the seconds until the next if nothing happens.

        `was_quiet` says that nothing has happened since the last one.
        """
        self._queue.begin(_KEY)
        try:
            changed = await self.sync()
        except (ApiError, ConnectionFailed, CertificateError, ConfigurationError) as error:
            self._note(error)
            self._queue.retry()
            return self._failing.next()
        finally:
            self._queue.done(_KEY)
        self.error = ""
        self._failing.reset()
        if changed:
            # Whoever undoes this is answered, but later every time until it has been quiet for a while.
            await self._sleep(self._writing.next())
        elif was_quiet:
            self._writing.reset()
        return self._resync

    def _note(self, error: Exception) -> None:
        text = str(error)
        if isinstance(error, Conflict):
            log.info("another replica was quicker: %s", text)
        elif text != self.error:
            log.warning("certificates and webhook configurations: %s", text)
        self.error = text

    # --- what wakes it ---------------------------------------------------------------------------

    def _follow(self, cluster: Cluster, secret: tuple[str, str] | None) -> None:
        """Follow the Secret and the configurations; rounds do not wait until these are listed."""
        selectors: dict[type[KubeObject], Selector] = {}
        if secret is not None:
            namespace, name = secret
            selectors[Secret] = Selector(namespace=namespace, fields=f"metadata.name={name}")
        if self._registrar is not None:
            kinds = (MutatingWebhookConfiguration, ValidatingWebhookConfiguration)
            for kind, name in zip(kinds, self._registrar.names.values(), strict=True):
                selectors[kind] = Selector(fields=f"metadata.name={name}")
        for kind, selector in selectors.items():
            store = cluster.late_store(kind, selector=selector)
            store.subscribe(self._changed, lambda _, new: self._changed(new), self._changed)

    def _changed(self, _: KubeObject) -> None:
        self._queue.add(_KEY)
        self._wake.set()

    async def _look(self) -> None:
        """Wake the loop when somebody has put another authority into the folder."""
        assert self._folder is not None
        seen = _stamps(self._folder)
        while True:
            await asyncio.sleep(_LOOK)
            now = _stamps(self._folder)
            if now != seen:
                seen = now
                self._queue.add(_KEY)
                self._wake.set()


def _stamps(folder: Path) -> list[tuple[int, int] | None]:
    """Return what tells versions of the authority's file apart."""
    stamps: list[tuple[int, int] | None] = []
    for name in (CA_CERT, "ca.crt"):
        try:
            found = (folder / name).stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_mtime_ns, found.st_ino))
    return stamps
