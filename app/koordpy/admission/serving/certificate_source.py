"""Certificates from wherever they come to the listener, in an order that no client notices.

A new authority must be in the webhook configurations before anybody serves a certificate that it signed, and
API servers learn of a configuration a moment after it was written. So: `ensure` says what is to be trusted,
the caller writes that, and `serve` then waits that moment before it replaces what is served. The old
authority stays trusted meanwhile, because other replicas are not through yet.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from koordpy.lib import certificates
from koordpy.lib.clock import Clock

from .artifacts import Artifacts
from .certificate_folder import publish

log = logging.getLogger(__name__)


class Store(Protocol):
    """Where certificates are kept (CertificateSecret, CertificateFolder)."""

    async def obtain(self, serving: Artifacts | None) -> Artifacts:
        """Return certificates that are good for another half a year, making them if need be."""
        ...


class Source(Protocol):
    """What the controller asks for a certificate."""

    async def ensure(self) -> bytes:
        """See to it that there is a good certificate, and return the authorities to be trusted, as PEM."""
        ...

    async def serve(self) -> None:
        """Let the listener have it."""
        ...


class Generated:
    """Certificates that koordpy makes, and publishes to the listener's folder.

    `published` is called when there are new ones. A new authority is told `propagation` seconds before it is
    used.
    """

    def __init__(
        self,
        store: Store,
        directory: Path,
        clock: Clock,
        *,
        published: Callable[[], None] = lambda: None,
        propagation: float,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store, self._directory, self._clock = store, directory, clock
        self._published, self._propagation, self._sleep = published, propagation, sleep
        self.serving: Artifacts | None = None
        self._found: Artifacts | None = None

    async def ensure(self) -> bytes:
        """Return the authorities to be trusted. Raises what the store raises."""
        self._found = await self._store.obtain(self.serving)
        return self._found.trusted(self._clock.now())

    async def serve(self) -> None:
        """Publish what `ensure` found. Raises CertificateError."""
        found, serving = self._found, self.serving
        assert found is not None
        if serving is not None and serving.ca_cert != found.ca_cert:
            await self._sleep(self._propagation)
        if await asyncio.to_thread(publish, self._directory, found, self._clock):
            log.info("published a certificate in %s", self._directory)
        self.serving = found
        self._published()


class Given:
    """Certificates that somebody else puts into the folder.

    `published` is called when they may have changed.
    """

    def __init__(self, directory: Path, *, published: Callable[[], None] = lambda: None) -> None:
        self._directory, self._published = directory, published

    async def ensure(self) -> bytes:
        """Return the folder's authority. Raises CertificateError where there is none."""
        return certificates.ca_bundle(self._directory)

    async def serve(self) -> None:
        """Let the listener read the folder now."""
        self._published()
