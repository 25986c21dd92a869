"""The audit log as a service of the agent: its flags, its gates, its endpoint `/events`."""

import asyncio
import json
import logging
import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from http import HTTPStatus
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar, Final

from koordpy.agent.cgroups.writer import GROUP, Written
from koordpy.agent.interface import gates
from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.reporting.audit.files import AuditFiles, NewestFirst, event_line
from koordpy.lib.clock import Clock
from koordpy.lib.endpoint import JSON, TEXT, Answer, Endpoint, Request
from koordpy.lib.feature_gates import FeatureGates

log = logging.getLogger(__name__)

PATH: Final = "/events"
READER_TTL: Final = timedelta(minutes=10)
DEFAULT_EVENTS: Final = 256
LEVEL_WRITE: Final = 3
"""The level of events of single writes."""

_NEXT: Final = "Next-Page-Token"


@dataclass
class _Reader:
    """An unfinished answer."""

    lines: NewestFirst
    used: float


class AuditLog:
    """Writes events and serves them, newest first and in pages (`pkg/koordlet/audit`)."""

    name: ClassVar[str] = "audit"

    def __init__(
        self,
        flags: FlagSet,
        feature_gates: FeatureGates,
        clock: Clock,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.enabled = feature_gates.enabled(gates.AUDIT_EVENTS)
        self.served = feature_gates.enabled(gates.AUDIT_EVENTS_HTTP_HANDLER)
        self._verbose = flags.integer("audit-verbose")
        self._most_readers = flags.integer("audit-max-concurrent-readers")
        self._most_events = flags.integer("audit-max-events-limit")
        size = flags.integer("audit-max-disk-space-mb")
        self._files = AuditFiles(Path(flags.text("audit-log-dir")), size << 20)
        self._clock, self._sleep = clock, sleep
        self._readers: dict[str, _Reader] = {}
        self._failed = False
        self.about: Callable[[str], Mapping[str, str]] = lambda _: {}
        """Returns what a write to a directory is about: some of the fields of an event."""

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare koordlet's flags of the audit log."""
        flags.declare("audit-log-dir", "/var/log/koordlet", "folder of the audit log")
        flags.declare("audit-verbose", 3, "events of a higher level are not logged; 0 logs all")
        flags.declare("audit-max-disk-space-mb", 16, "most MiB of the audit log")
        flags.declare("audit-max-concurrent-readers", 4, "most unfinished reads of the audit log")
        flags.declare("audit-max-events-limit", 2048, "most events in one answer")

    @property
    def folder(self) -> str:
        """The folder of the log, "" if it is off."""
        return str(self._files.folder) if self.enabled else ""

    @property
    def endpoints(self) -> dict[str, Endpoint]:
        """The endpoint, if its gate is on."""
        return {PATH: Endpoint(self.serve)} if self.served else {}

    async def run(self) -> None:
        """End reads that nobody continues, every minute."""
        while True:
            await self._sleep(60.0)
            self._expire(0)

    def not_ready(self) -> str | None:
        """Return None: there is nothing to wait for."""
        return None

    def log(
        self,
        level: int,
        reason: str,
        message: str,
        *,
        type: str = "",
        namespace: str = "",
        name: str = "",
        container: str = "",
    ) -> None:
        """Write an event. A disk that is full must not keep the agent from its work: that is logged once."""
        about = {"type": type, "namespace": namespace, "name": name, "container": container}
        self._log(level, reason, message, about)

    def _log(self, level: int, reason: str, message: str, about: Mapping[str, str]) -> None:
        if not self.enabled or (0 < self._verbose < level):
            return
        now = self._clock.now()
        line = event_line(now, reason, message, about)
        try:
            self._files.append(line, now)
            self._failed = False
        except OSError as error:
            self._files.close()
            if not self._failed:
                self._failed = True
                log.error("cannot write the audit log in %s: %s", self._files.folder, error.strerror)

    def written(self, written: Written) -> None:
        """Write the event of one write to the node."""
        if not self.enabled:
            return
        if written.resource == GROUP:
            message = f"Create {written.path}"
        else:
            message = f"update {written.path} to {written.new}"
        by = f" by {written.plugin}" if written.plugin else ""
        why = f": {written.formula}" if written.formula else ""
        self._log(LEVEL_WRITE, written.reason, f"{message}{by}{why}", self.about(written.directory))

    # --- endpoint --------------------------------------------------------------------------------

    def serve(self, request: Request) -> Answer:
        """Answer `GET /events?size=&pageToken=`."""
        if not self.enabled:
            return Answer.text("")
        size = _integer(request.value("size"), DEFAULT_EVENTS)
        if size > self._most_events:
            return _error(f"size({size}) exceeds the limit({self._most_events})", HTTPStatus.BAD_REQUEST)
        if size < 0:
            return _error(f"size({size}) is negative", HTTPStatus.BAD_REQUEST)
        token = request.value("pageToken")
        now = self._clock.monotonic()
        if token:
            self._expire(0)
            reader = self._readers.get(token)
            if reader is None:
                return _error(f"invalid pageToken {token}", HTTPStatus.CONFLICT)
        else:
            self._expire(1)
            token = str(uuid.uuid4())
            reader = self._readers[token] = _Reader(NewestFirst(self._files), now)
        reader.used = now
        lines = list(islice(reader.lines, size))
        end = len(lines) < size
        events = [event for line in lines if (event := _decoded(line)) is not None]
        if request.headers.get("accept") == "application/json":
            body = {"NextPageToken": "" if end else token, "Events": events}
            return Answer(json.dumps(body).encode(), content_type=f"{JSON}; charset=utf-8")
        text = "".join(json.dumps(event, separators=(",", ":")) + "\n" for event in events)
        return Answer(text.encode(), headers={} if end or not events else {_NEXT: token})

    def _expire(self, room: int) -> None:
        """End reads that nobody continued for ten minutes, and the oldest if there is no room for more."""
        horizon = self._clock.monotonic() - READER_TTL.total_seconds()
        surplus = len(self._readers) + room - self._most_readers
        for token, reader in list(self._readers.items()):
            if surplus > 0 or reader.used < horizon:
                self._readers.pop(token).lines.close()
                surplus -= 1


def _integer(text: str, default: int) -> int:
    try:
        return int(text)
    except ValueError:
        return default


def _decoded(line: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None


def _error(message: str, status: HTTPStatus) -> Answer:
    return Answer(f"{message}\n".encode(), status, TEXT)
