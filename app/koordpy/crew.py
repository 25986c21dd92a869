"""`koordpy serve --workers N`: N processes on the same ports, each a whole service of its own.

They share nothing but the ports: each follows the cluster for itself. The listening sockets are made by the
parent and inherited, not opened by each worker for itself (SO_REUSEPORT): connections that wait belong to no
worker, so that none is lost with one, and a worker takes them when it has few and is not busy (see
`http.server.acceptor`), which matters because kube-apiserver comes with few connections and keeps them.
"""

import os
import shutil
import socket
import tempfile
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from koordpy.admission.serving.config import Mode
from koordpy.http.server import listener
from koordpy.http.siblings import Desk
from koordpy.lib.prefork import Prefork, Seat
from koordpy.service import WEBHOOK_GRACE, ServiceError
from koordpy.settings import Settings

_SLACK: Final = 15.0
"""Seconds beyond the grace of requests that a worker may take to stop."""

Serve = Callable[[Settings, Desk, Seat], None]


def serve(settings: Settings, work: Serve) -> int:
    """Serve in `settings.workers` processes until told to stop; return the exit code.

    `work` is what each does. Raises ServiceError where the settings do not allow it, ListenError for an
    address that is taken.
    """
    count = settings.workers
    if "extender" in settings.doors:
        raise ServiceError(
            f"workers: {count} processes cannot open the extender door: what it has handed out to pods is in "
            f"the memory of one process, and another would hand it out again; leave extender out of doors "
            f"(--doors admission,debug) and serve it by itself"
        )
    if not hasattr(os, "fork"):
        raise ServiceError(f"workers: {count} processes need fork, which this system does not have")
    shared: dict[str, socket.socket] = {}
    for door in settings.doors:
        address: Any = getattr(settings, door)
        shared[door] = listener.bind(door, address.bind_address, address.port)
    folder = _folder()
    private: list[socket.socket] = []
    paths = [folder / str(index) for index in range(count)]
    if "debug" in settings.doors:
        for path in paths:
            private.append(socket.socket(socket.AF_UNIX, socket.SOCK_STREAM))
            private[-1].bind(str(path))

    def close() -> None:
        for opened in (*shared.values(), *private):
            opened.close()

    def sit(seat: Seat) -> None:
        desk = Desk(
            shared,
            private[seat.index] if private else None,
            paths if private else (),
            seat.is_replacement,
        )
        try:
            work(settings_of(settings, seat.index), desk, seat)
        finally:
            if seat.is_orphan:  # nobody else tidies up
                _remove(folder)

    parent = os.getpid()
    grace = settings.shutdown_seconds + WEBHOOK_GRACE + _SLACK
    try:
        return Prefork(count, sit, grace_seconds=grace, stopping=close).run()
    finally:
        if os.getpid() == parent:
            close()
            _remove(folder)


def settings_of(settings: Settings, index: int) -> Settings:
    """Return the settings of one worker: only the first makes certificates and registers the webhooks."""
    if index == 0:
        return settings
    admission = settings.admission
    certificates, registration = admission.certificates, admission.registration
    if certificates.generates:
        certificates = certificates.model_copy(update={"mode": Mode.GIVEN})
    return settings.model_copy(
        update={
            "admission": admission.model_copy(
                update={
                    "cert_dir": str(admission.certificate_folder),
                    "certificates": certificates,
                    "registration": registration.model_copy(update={"enabled": False}),
                }
            )
        }
    )


def _folder() -> Path:
    """Make a folder that only this user may look into."""
    try:
        return Path(tempfile.mkdtemp(prefix="koordpy-"))
    except OSError as error:
        raise ServiceError(f"workers: no folder for their sockets can be made: {error}; set TMPDIR") from None


def _remove(folder: Path) -> None:
    with suppress(OSError):
        shutil.rmtree(folder)
