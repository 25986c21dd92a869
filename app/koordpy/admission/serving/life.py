"""The lifecycle of one webhook server: certificate and registration first, then serving.

Order matters. The server does not listen before there is a certificate, kube-apiserver sends no pods before
the configurations have the authority, and readiness requires a successful call. Source of the order:
Koordinator, `pkg/webhook/server.go`.
"""

import asyncio
import random
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from typing import Protocol

from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import Clock
from koordpy.lib.health import Reason

from .certificate_folder import CertificateFolder, check_is_ours
from .certificate_secret import CertificateSecret
from .certificate_source import Generated, Given, Source, Store
from .config import TRUSTED_BY, CertificateSettings, Mode, RegistrationSettings
from .configuration import Target
from .controller import FIRST_SYNC, Controller
from .registrar import Registrar
from .self_call import SelfCall

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}


class Listener(Protocol):
    """The listener of the webhooks."""

    host: str
    port: int

    @property
    def is_listening(self) -> bool:
        """Whether connections are accepted."""
        ...

    def reload(self) -> None:
        """Load a replaced certificate."""
        ...


class WebhookLife:
    """Certificate, registration and readiness of the webhooks at `paths`.

    The certificate comes from `folder`. Without `registration` the webhook configurations are not changed.
    Raises CertificateError for a folder that does not fit the mode.
    """

    def __init__(
        self,
        settings: CertificateSettings,
        registration: RegistrationSettings | None,
        folder: Path,
        listener: Listener,
        paths: Collection[str],
        client: Client,
        cluster: Cluster,
        *,
        rng: random.Random,
    ) -> None:
        clock = cluster.clock
        self._settings, self._listener = settings, listener
        self._answering: asyncio.Task[None] | None = None
        self.controller: Controller | None = None
        if registration is not None or settings.generates:
            self.controller = Controller(
                _source(settings, folder, client, clock, listener.reload),
                None if registration is None else self._registrar(registration, paths, client),
                cluster,
                secret=(settings.namespace, settings.secret_name) if settings.mode is Mode.SECRET else None,
                folder=None if settings.generates else folder,
                rng=rng,
            )
        names = {Mode.LOCAL: None, Mode.GIVEN: settings.dns}
        self.self_call = SelfCall(
            self._own_url, folder, name=names.get(settings.mode, TRUSTED_BY), reload=listener.reload
        )

    async def prepare(self, seconds: float = FIRST_SYNC) -> None:
        """Get a certificate and register the webhooks, before the server listens.

        Raises FirstSyncError when that does not succeed within `seconds`.
        """
        if self.controller is not None:
            await self.controller.start()
            await self.controller.wait_initialized(seconds)

    def begin_to_call(self) -> None:
        """Call the server, which listens by now, until it responds."""
        self._answering = asyncio.create_task(self.self_call.until_answered(), name="webhook health")

    async def wait_answered(self) -> None:
        """Wait until the server has responded to a call."""
        if self._answering is not None:
            await asyncio.shield(self._answering)

    async def look(self) -> None:
        """Call the server, before a readiness check."""
        if self._listener.is_listening:
            await self.self_call.call()

    def problem(self) -> str | None:
        """Return why the webhooks are not ready, None if they are."""
        if self.controller is not None and not self.controller.initialized.is_set():
            text = f"webhook controller has not initialized: {self.controller.error or 'first round'}"
            return Reason(text, self.controller.cause)
        return self.self_call.problem

    async def stop(self) -> None:
        """Stop the controller and the calls; the listener may still be serving."""
        if self._answering is not None:
            self._answering.cancel()
            with suppress(asyncio.CancelledError):
                await self._answering
        if self.controller is not None:
            await self.controller.stop()

    def _registrar(
        self, registration: RegistrationSettings, paths: Collection[str], client: Client
    ) -> Registrar:
        settings = self._settings
        port = registration.port or self._listener.port
        host = f"[{settings.host}]" if ":" in settings.host else settings.host
        target = Target(
            frozenset(paths),
            settings.namespace,
            settings.service_name,
            url=f"https://{host}:{port}" if settings.host else "",
        )
        return Registrar(
            client,
            target,
            registration.mutating,
            registration.validating,
            inject_ca_bundle=registration.inject_ca_bundle,
        )

    def _own_url(self) -> str:
        host = _ANY.get(self._listener.host, self._listener.host)
        return (
            f"https://[{host}]:{self._listener.port}"
            if ":" in host
            else f"https://{host}:{self._listener.port}"
        )


def _source(
    settings: CertificateSettings, folder: Path, client: Client, clock: Clock, reload: Callable[[], None]
) -> Source:
    if not settings.generates:
        return Given(folder, published=reload)
    check_is_ours(folder)
    store: Store
    if settings.mode is Mode.SECRET:
        store = CertificateSecret(client, settings.namespace, settings.secret_name, settings.dns, clock)
    else:
        store = CertificateFolder(folder, settings.dns, clock)
    return Generated(store, folder, clock, published=reload, propagation=settings.propagation)
