"""Audits of real control planes at the end of their lives: nothing may be handed out twice in them.

A test that hands something out twice on purpose says so with the marker `dirty_books(reason)`; the control
planes that live during such a test are not audited.
"""

import asyncio
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from koordpy.audit.auditing import audit, confirmed
from koordpy.audit.finding import Report, Severity
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.commands.audit import listed
from tests.e2e.controlplane.plane import ControlPlane

AGAIN = 5.0
"""Seconds after which errors must still be there: lists of several types are not of one moment."""


class AuditedPlanes:
    """The control planes that run, and those whose books are dirty on purpose."""

    def __init__(self) -> None:
        self._running: list[ControlPlane] = []
        self._dirty: list[ControlPlane] = []
        self.is_dirty = False
        """Whether the test that runs makes books dirty."""

    def begin_test(self, *, is_dirty: bool) -> None:
        """Say whether the test that begins makes the books of its control plane dirty."""
        self.is_dirty = is_dirty
        if is_dirty:
            self._dirty += self._running

    def started(self, plane: ControlPlane) -> None:
        """Follow a control plane; its API server is ready."""
        self._running.append(plane)
        if self.is_dirty:
            self._dirty.append(plane)

    def errors(self, plane: ControlPlane) -> list[str]:
        """Return what is wrong in a control plane that is about to stop, and is not so on purpose."""
        if plane not in self._running:
            return []
        self._running.remove(plane)
        if plane in self._dirty or plane.api_server is None or not plane.api_server.running:
            return []
        # A test may end a control plane within a loop that runs.
        with ThreadPoolExecutor(1) as pool:
            return pool.submit(_errors, lambda: asyncio.run(_audit(plane))).result()


def _errors(look: Callable[[], Report]) -> list[str]:
    report = look()
    if report.errors:
        time.sleep(AGAIN)
        report = confirmed(report, look())
    return [str(found) for found in report.findings if found.severity is Severity.ERROR]


async def _audit(plane: ControlPlane) -> Report:
    client = Client(Connection.from_kubeconfig(str(plane.kubeconfig)))
    try:
        return audit(await listed(client), plane.url)
    finally:
        await client.close()


@contextmanager
def audited_planes() -> Iterator[AuditedPlanes]:
    """Audit every control plane that is stopped meanwhile; stopping one with errors raises AssertionError."""
    planes = AuditedPlanes()
    start, stop = ControlPlane.start, ControlPlane.stop

    def start_and_follow(plane: ControlPlane) -> None:
        start(plane)
        planes.started(plane)

    def audit_and_stop(plane: ControlPlane) -> None:
        try:
            found = planes.errors(plane)
        finally:
            stop(plane)
        assert not found, "\n".join(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ControlPlane, "start", start_and_follow)
        patch.setattr(ControlPlane, "stop", audit_and_stop)
        yield planes
