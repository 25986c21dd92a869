"""Certificates on their way from a store to the listener, in an order that breaks no client.

A new authority must be in the webhook configurations before any replica serves a certificate that it signed,
and API servers learn of a configuration a moment after it is written. So `ensure` returns the authorities to
trust, the caller writes them, and `serve` waits that moment before it replaces the certificate. The old
authority stays trusted meanwhile, because other replicas may not have finished.
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
    """A store of certificates (CertificateSecret, CertificateFolder)."""

    async def obtain(self, serving: Artifacts | None) -> Artifacts:
        """Return certificates that are valid for another half a year, generating them if needed."""
        ...


class Source(Protocol):
    """The certificate source of the controller."""

    async def ensure(self) -> bytes:
        """Ensure that there is a valid certificate, and return the authorities to trust, as PEM."""
        ...

    async def serve(self) -> None:
        """Pass the certificate to the listener."""
        ...


class Generated:
    """Certificates that koordpy generates, and publishes to the listener's folder.

    `published` is called when there are new ones. A new authority is announced `propagation` seconds before
    it is used.
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
        """Return the authorities to trust. Raises what the store raises."""
        self._found = await self._store.obtain(self.serving)
        return self._found.trusted(self._clock.now())

    async def serve(self) -> None:
        """Publish the result of `ensure`. Raises CertificateError."""
        found, serving = self._found, self.serving
        assert found is not None
        if serving is not None and serving.ca_cert != found.ca_cert:
            await self._sleep(self._propagation)
        if await asyncio.to_thread(publish, self._directory, found, self._clock):
            log.info("published a certificate in %s", self._directory)
        self.serving = found
        self._published()


class Given:
    """Certificates that another program writes to the folder.

    `published` is called when they may have changed.
    """

    def __init__(self, directory: Path, *, published: Callable[[], None] = lambda: None) -> None:
        self._directory, self._published = directory, published

    async def ensure(self) -> bytes:
        """Return the folder's authority. Raises CertificateError where there is none."""
        return certificates.ca_bundle(self._directory)

    async def serve(self) -> None:
        """Make the listener read the folder."""
        self._published()
