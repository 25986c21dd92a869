"""Audits of real control planes, after every test and before they stop: nothing is handed out twice in them.

Tests that hand something out twice on purpose are named in `tests/dirty_books.py`. What is found at the end
of such a test is known from then on, so that tests that share its control plane are still audited.
"""

import asyncio
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest

from koordpy.audit.auditing import audit, confirmed
from koordpy.audit.finding import Report, Severity
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Connection
from koordpy.commands.audit_lists import listed
from tests.e2e.controlplane.plane import ControlPlane

AGAIN = 5.0
"""Seconds after which errors must still be there: lists of several types are not of one moment."""

Known = set[tuple[str, ...]]


class AuditedPlanes:
    """The control planes that run, and what is wrong in them on purpose."""

    def __init__(self) -> None:
        self._known: dict[ControlPlane, Known] = {}
        self.is_dirty = False
        """Whether the test that runs makes books dirty."""
        self.audits = 0
        self.seconds = 0.0

    def started(self, plane: ControlPlane) -> None:
        """Follow a control plane; its API server is ready."""
        self._known[plane] = set()

    def begin_test(self, *, is_dirty: bool) -> None:
        """Say whether the test that begins makes books dirty."""
        self.is_dirty = is_dirty

    def end_test(self) -> list[str]:
        """Return what is wrong in the control planes that live on after a test, and is not so on purpose."""
        return [error for plane in list(self._known) for error in self._errors(plane)]

    def stops(self, plane: ControlPlane) -> list[str]:
        """Return what is wrong in a control plane that is about to stop, and is not so on purpose."""
        if plane not in self._known:
            return []
        try:
            return [] if self.is_dirty else self._errors(plane)
        finally:
            del self._known[plane]

    def _errors(self, plane: ControlPlane) -> list[str]:
        if plane.api_server is None or not plane.api_server.running:
            return []
        known, began = self._known[plane], time.monotonic()
        report = _without(_audited(plane), known)
        if report.errors and not self.is_dirty:
            time.sleep(AGAIN)
            report = confirmed(report, _audited(plane))
        self.audits += 1
        self.seconds += time.monotonic() - began
        errors = [found for found in report.findings if found.severity is Severity.ERROR]
        # What is reported once is not reported for every later test.
        known.update(found.identity for found in errors)
        return [] if self.is_dirty else [str(found) for found in errors]


def _without(report: Report, known: Known) -> Report:
    findings = [found for found in report.findings if found.identity not in known]
    errors = sum(1 for found in findings if found.severity is Severity.ERROR)
    return report.model_copy(update={"findings": findings, "errors": errors})


def _audited(plane: ControlPlane) -> Report:
    async def look() -> Report:
        client = Client(Connection.from_kubeconfig(str(plane.kubeconfig)))
        try:
            return audit(await listed(client), plane.url)
        finally:
            await client.close()

    # A test may end a control plane within a loop that runs.
    with ThreadPoolExecutor(1) as pool:
        return pool.submit(lambda: asyncio.run(look())).result()


@contextmanager
def audited_planes() -> Iterator[AuditedPlanes]:
    """Follow every control plane that is started meanwhile; AssertionError if one stops with errors."""
    planes = AuditedPlanes()
    start, stop = ControlPlane.start, ControlPlane.stop

    def start_and_follow(plane: ControlPlane) -> None:
        start(plane)
        planes.started(plane)

    def audit_and_stop(plane: ControlPlane) -> None:
        try:
            found = planes.stops(plane)
        finally:
            stop(plane)
        assert not found, "\n".join(found)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ControlPlane, "start", start_and_follow)
        patch.setattr(ControlPlane, "stop", audit_and_stop)
        yield planes
