"""The listeners of a process: an address, a certificate and an application for each part that answers."""

import asyncio
import logging
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from koordpy.http.server.authentication import Authenticated
from koordpy.http.server.endpoints import Endpoints, before
from koordpy.http.server.listener import Listener
from koordpy.http.server.memory import Memory
from koordpy.lib import certificate_files, certificate_process
from koordpy.lib.clock import Clock
from koordpy.lib.health import Check
from koordpy.lib.request_origin import names_for

from .part import Certificate, Context, Routes

log = logging.getLogger(__name__)

RENEWAL_SECONDS: Final = 3600.0
"""Between checks of the validity of generated certificates."""


def bind(process: Context, routes: Mapping[str, Routes]) -> dict[str, Listener]:
    """Bind the addresses of all parts' listeners, by part. All are closed if one cannot be bound.

    Raises ListenError, CertificateError.
    """
    bound: dict[str, Listener] = {}
    memory = Memory()
    try:
        for part in process.parts:
            answered = routes.get(part.name)
            if answered is not None:
                listener = bound[part.name] = _listener(process, part.name, answered, memory)
                process.health.ready[f"listener-{part.name}"] = _check(listener)
                part.bound(listener)
    except BaseException:
        for listener in bound.values():
            listener.close()
        raise
    return bound


def _listener(process: Context, name: str, routes: Routes, memory: Memory) -> Listener:
    app = _application(process, name, routes)
    if routes.authenticated:
        app = Authenticated(app, process.client, process.clock)
    settings, certificate = routes.settings, _certificate(routes)
    if certificate is not None:
        _ensure(certificate, process.clock, is_small=_is_small(routes))
    return Listener(
        name,
        app,
        host=settings.bind_address,
        port=settings.port,
        cert_dir=None if certificate is None else certificate.folder,
        certificate_comes_later=certificate is not None and certificate.comes_later,
        grace_seconds=routes.grace_seconds,
        memory=memory,
        clients=None if certificate is None else certificate.clients,
        hosts=names_for(settings.bind_address, settings.allowed_hosts) if routes.checks_host else None,
    )


def _application(process: Context, name: str, routes: Routes) -> Any:
    endpoints = Endpoints(routes.endpoints)
    if _is_small(routes):
        return endpoints
    from koordpy.http.routes import health  # FastAPI, which small processes do without
    from koordpy.http.server.application import Application

    informers = process.informers
    routers = [*routes.routers, health.router(process.health)]
    app = Application(f"koordpy {name}", routers, routes.hot, lambda: informers.synced)
    return before(endpoints, app) if routes.endpoints else app


def _is_small(routes: Routes) -> bool:
    """Return whether a part does without FastAPI and other large libraries."""
    return bool(routes.endpoints) and not routes.routers and not routes.hot


async def renew(process: Context, routes: Iterable[Routes]) -> None:
    """Renew the certificates that are generated in folders of listeners, as long as the process runs.

    Listeners notice replaced files by themselves, and so does kube-scheduler, which reads its client
    certificate again for new connections.
    """
    generated = [(found, _is_small(each)) for each in routes if (found := _certificate(each)) is not None]
    while True:
        await asyncio.sleep(RENEWAL_SECONDS)
        for certificate, is_small in generated:
            try:
                await asyncio.to_thread(_ensure, certificate, process.clock, is_small=is_small)
            except (certificate_files.CertificateError, OSError) as error:
                log.warning("the certificate in %s is not renewed: %s", certificate.folder, error)


def _certificate(routes: Routes) -> Certificate | None:
    if routes.certificate is None and routes.settings.cert_dir:
        return Certificate(folder=Path(routes.settings.cert_dir), hosts=routes.settings.tls_hosts)
    return routes.certificate


def _ensure(certificate: Certificate, clock: Clock, *, is_small: bool) -> None:
    """Create or renew what is generated in the folder of a listener. Raises CertificateError, OSError."""
    if certificate.hosts is None:
        return
    if is_small:
        certificate_process.ensure(
            certificate.folder, certificate.hosts, clock.now(), client=certificate.client
        )
        return
    from koordpy.lib import certificates  # only where some are generated

    certificates.ensure(certificate.folder, certificate.hosts, clock.now(), client=certificate.client)


def _check(listener: Listener) -> Check:
    return lambda: None if listener.is_listening else "not listening"
