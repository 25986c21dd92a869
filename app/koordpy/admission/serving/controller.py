"""The loop that reconciles certificate and webhook configurations, the same on every replica.

A round gets the certificate, completes the configurations and publishes the certificate, in this order. It
runs when the Secret or one of the configurations changes, a minute after a round that succeeded, and after a
backoff when one failed. All replicas derive the same result from the same objects, so they do not undo each
other's work; two versions of koordpy running at the same time may, and then each waits longer and longer
between its writes.

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
"""Seconds between rounds without changes."""

FIRST_SYNC: Final = 20.0
"""Seconds within which the first round must succeed."""

_KEY: Final = "webhook"
"""The only key of the work queue."""

_LOOK: Final = 5.0
"""Seconds between checks of a folder that another process writes."""


class FirstSyncError(Exception):
    """The first round has not succeeded in time; the message has the reason."""


class Controller:
    """Reconciles one replica's certificate, and the configurations that all replicas share.

    `secret` is the (namespace, name) to follow in `cluster`, whose informers the caller starts; `folder` the
    one to check where another process fills it. Without `registrar` the configurations are not changed.
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
        """Set once a round has succeeded."""
        self.error = ""
        """The error of the last round."""
        self.cause = ""
        """The same without the request that failed."""
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
        """Start the loop."""
        loops = {"webhook controller": self._run}
        if self._folder is not None:
            loops["certificate folder"] = self._poll_folder
        for name, loop in loops.items():
            self._tasks.append(asyncio.create_task(supervise.forever(name, loop), name=name))

    async def stop(self) -> None:
        """Stop; a round in progress is cancelled, and another replica or the next start repeats it."""
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def wait_initialized(self, seconds: float = FIRST_SYNC) -> None:
        """Wait for the first round that succeeds. Raises FirstSyncError."""
        try:
            async with asyncio.timeout(seconds):
                await self.initialized.wait()
        except TimeoutError:
            raise FirstSyncError(
                f"failed to start webhook controller for waiting more than {seconds:g}s: "
                f"{self.error or 'no response yet'}"
            ) from None

    async def sync(self) -> bool:
        """Run one round; return whether a configuration was changed."""
        trusted = await self._source.ensure()
        changed = False if self._registrar is None else await self._registrar.register(trusted)
        await self._source.serve()
        self.initialized.set()
        return changed

    # --- the loop ----------------------------------------------------------------------------------

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
        """Run one round, and return the seconds until the next if nothing changes.

        `was_quiet`: nothing has changed since the last one.
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
        self.error = self.cause = ""
        self._failing.reset()
        if changed:
            # If another client reverts this, it is repeated after a growing delay, which resets after a quiet
            # period.
            await self._sleep(self._writing.next())
        elif was_quiet:
            self._writing.reset()
        return self._resync

    def _note(self, error: Exception) -> None:
        text = str(error)
        if isinstance(error, Conflict):
            log.info("another replica was faster: %s", text)
        elif text != self.error:
            log.warning("certificates and webhook configurations: %s", text)
        self.error, self.cause = text, str(getattr(error, "problem", error))

    # --- triggers --------------------------------------------------------------------------------

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

    async def _poll_folder(self) -> None:
        """Wake the loop when the folder has another authority."""
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
    """Return a value that identifies the version of the authority's file."""
    stamps: list[tuple[int, int] | None] = []
    for name in (CA_CERT, "ca.crt"):
        try:
            found = (folder / name).stat()
        except OSError:
            stamps.append(None)
        else:
            stamps.append((found.st_mtime_ns, found.st_ino))
    return stamps
