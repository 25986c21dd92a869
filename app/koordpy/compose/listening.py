"""The listeners of a process: an address, a certificate and an application for each part that answers."""

import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from koordpy.http.routes import health
from koordpy.http.server.application import Application
from koordpy.http.server.authentication import Authenticated
from koordpy.http.server.listener import Listener
from koordpy.lib import certificates
from koordpy.lib.health import Check
from koordpy.lib.request_origin import names_for

from .part import Certificate, Context, Routes

log = logging.getLogger(__name__)


def bind(process: Context, routes: Mapping[str, Routes]) -> dict[str, Listener]:
    """Bind the addresses of all parts' listeners, by part. All are closed if one cannot be bound.

    Raises ListenError, CertificateError.
    """
    bound: dict[str, Listener] = {}
    try:
        for part in process.parts:
            answered = routes.get(part.name)
            if answered is not None:
                listener = bound[part.name] = _listener(process, part.name, answered)
                process.health.ready[f"listener-{part.name}"] = _check(listener)
                part.bound(listener)
    except BaseException:
        for listener in bound.values():
            listener.close()
        raise
    return bound


def _listener(process: Context, name: str, routes: Routes) -> Listener:
    informers = process.informers
    app: Any = Application(
        f"koordpy {name}",
        [*routes.routers, health.router(process.health)],
        routes.hot,
        lambda: informers.synced,
    )
    if routes.authenticated:
        app = Authenticated(app, process.client, process.clock)
    settings, certificate = routes.settings, routes.certificate
    if certificate is None and settings.cert_dir:
        certificate = Certificate(folder=Path(settings.cert_dir), hosts=settings.tls_hosts)
    if certificate is not None and certificate.hosts is not None:
        certificates.ensure(certificate.folder, certificate.hosts, process.clock.now())
    return Listener(
        name,
        app,
        host=settings.bind_address,
        port=settings.port,
        cert_dir=None if certificate is None else certificate.folder,
        certificate_comes_later=certificate is not None and certificate.comes_later,
        grace_seconds=routes.grace_seconds,
        hosts=names_for(settings.bind_address, settings.allowed_hosts) if routes.checks_host else None,
    )


def _check(listener: Listener) -> Check:
    return lambda: None if listener.is_listening else "not listening"
