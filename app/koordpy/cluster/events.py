"""Events (events.k8s.io/v1, or v1) about objects, recorded without blocking the reporter.

Repetitions become a series, as in client-go: an equal event about the same object within six minutes raises a
count that is written immediately the first time, then every half hour and at the end; with v1, at every
repetition. Events about an object with too many of them are suppressed for a while. Events beyond the limits
are dropped and counted.
"""

import asyncio
import logging
import socket
import zlib
from collections import deque
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from prometheus_client import Counter

from koordpy.api.core import Event, EventSeries, ObjectReference
from koordpy.api.meta import KubeObject, ObjectMeta, format_micro_time, format_time
from koordpy.api.scheme import Resource, resource_of
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.lib.clock import Clock, SystemClock

from .client import FIELD_MANAGER, Client
from .errors import ApiError, ConnectionFailed, NotFound

log = logging.getLogger(__name__)

NORMAL, WARNING = "Normal", "Warning"

MAX_NOTE = 1024
"""Bytes; the API server rejects longer notes."""

SERIES_ENDS = 360.0
HEARTBEAT = 1800.0
BURST, REFILL = 25, 300.0
"""Rate limit per object: burst, and seconds per event (client-go's spam filter)."""

QUEUE, KNOWN = 1000, 4096
KNOWN_BYTES = 8 << 20
"""The budget of events that are remembered, besides their number; names and notes are of tenants."""

_SWEEP = 30.0

RECORDED = Counter("koordpy_events_recorded_total", "Events written to the API server.", ["reason"])
DROPPED = Counter("koordpy_events_dropped_total", "Events that were not written.", ["cause"])

CORE = Resource("", "v1", "events", "Event", True, Event)

_Key = tuple[str, ...]


@dataclass
class _Known:
    """An event that was reported, and how often since."""

    event: Event
    count: int
    last_seen: float
    first_seen_at: datetime
    last_seen_at: datetime
    written: int = 0
    written_at: float = 0.0


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class Recorder:
    """Reports events in the name of `controller`. Call `event` from anywhere; `run` writes them.

    `core`: write v1 events, as kube-controller-manager and kubelets do, which have `firstTimestamp`,
    `lastTimestamp` and `count`; those with other notes are other events.
    """

    def __init__(
        self,
        client: Client,
        *,
        controller: str = FIELD_MANAGER,
        instance: str | None = None,
        clock: Clock | None = None,
        core: bool = False,
    ) -> None:
        self._core = core
        self._client, self._controller = client, controller
        self._instance = (instance or f"{controller}-{socket.gethostname()}")[:128]
        self._clock = clock or SystemClock()
        self._queue: deque[_Known] = deque()
        self._known: BoundedLru[_Key, _Known] = BoundedLru("events", KNOWN_BYTES, max_entries=KNOWN)
        self._buckets: BoundedLru[str, _Bucket]
        self._buckets = BoundedLru("event_rates", KNOWN_BYTES // 4, max_entries=KNOWN)
        self._arrived = asyncio.Event()
        self._named = 0

    def event(
        self,
        regarding: KubeObject,
        type_: str,
        reason: str,
        note: str,
        *,
        action: str = "",
        related: KubeObject | None = None,
    ) -> None:
        """Record an event about an object. `reason` is a CamelCase word, `action` what was done."""
        target = reference(regarding)
        other = None if related is None else reference(related)
        now, moment = self._clock.monotonic(), self._clock.now()
        key = (type_, reason, action or reason, target.kind, target.namespace, target.name, target.uid) + (
            (other.kind, other.namespace, other.name, other.uid) if other else ()
        )
        if self._core:
            key += (note,)
        known = self._known.peek(key)
        if known is not None and now - known.last_seen < SERIES_ENDS:
            known.count += 1
            known.last_seen, known.last_seen_at = now, moment
            self._known.get(key)  # the most recently used one
            if known.count == 2 or (self._core and self._allowed(_who(target), now)):
                self._enqueue(known)
            return
        if not self._allowed(_who(target), now):
            DROPPED.labels("rate").inc()
            return
        event = Event(
            metadata=ObjectMeta(
                name=self._name(target.name, moment), namespace=target.namespace or "default"
            ),
            event_time=format_micro_time(moment),
            reporting_controller=self._controller,
            reporting_instance=self._instance,
            action=(action or reason)[:128],
            reason=reason[:128],
            regarding=target,
            related=other,
            note=truncate(note),
            type=type_,
        )
        fresh = _Known(event, 1, now, moment, moment)
        self._known.put(key, fresh, 3000 + 2 * len(event.note) + 4 * sum(map(len, key)))
        self._enqueue(fresh)

    async def run(self) -> None:
        """Write events until cancelled."""
        while True:
            try:
                async with asyncio.timeout(_SWEEP if self._known else None):
                    await self._arrived.wait()
            except TimeoutError:
                pass
            await self.flush()

    async def flush(self) -> None:
        """Write all events that are due."""
        self._arrived.clear()
        self._sweep()
        while self._queue:
            await self._write(self._queue.popleft())

    def _enqueue(self, known: _Known) -> None:
        if len(self._queue) >= QUEUE:
            DROPPED.labels("queue").inc()
            return
        self._queue.append(known)
        self._arrived.set()

    def _allowed(self, who: str, now: float) -> bool:
        bucket = self._buckets.peek(who)
        if bucket is None:
            bucket = _Bucket(BURST, now)
            self._buckets.put(who, bucket, 300 + len(who))
        bucket.tokens = min(BURST, bucket.tokens + (now - bucket.filled_at) / REFILL)
        bucket.filled_at = now
        if bucket.tokens < 1:
            return False
        bucket.tokens -= 1
        return True

    def _sweep(self) -> None:
        """Write counts of series that have ended or were last written long ago."""
        now = self._clock.monotonic()
        for key, known in self._known.items():
            ended = now - known.last_seen >= SERIES_ENDS
            due = ended or now - known.written_at >= HEARTBEAT
            if due and known.written and known.count > known.written:
                self._queue.append(known)
            if ended:
                self._known.pop(key)

    async def _write(self, known: _Known) -> None:
        count, first = known.count, known.written == 0
        series = EventSeries(count=count, last_observed_time=format_micro_time(known.last_seen_at))
        event = known.event
        try:
            if first:
                event.series = series if count > 1 else None
                if self._core:
                    await self._client.create_raw(CORE, event.metadata.namespace, _core_event(known))
                else:
                    await self._client.create(event)
            elif count > known.written:
                meta = event.metadata
                if self._core:
                    patch: dict[str, Any] = {"count": count, "lastTimestamp": format_time(known.last_seen_at)}
                    await self._client.patch_raw(CORE, meta.namespace, meta.name, patch)
                else:
                    patch = {"series": {"count": count, "lastObservedTime": series.last_observed_time}}
                    await self._client.patch(Event, meta.namespace, meta.name, patch)
            else:
                return
        except NotFound as error:
            if first:  # the namespace is gone
                self._lost(event, error)
                return
            known.written = 0  # the event has expired on the server: the series starts over
            event.metadata.name = self._name(event.regarding.name, self._clock.now())
            self._enqueue(known)
            return
        except (ApiError, ConnectionFailed) as error:
            self._lost(event, error)
            return
        known.written, known.written_at = count, self._clock.monotonic()
        RECORDED.labels(event.reason).inc()

    def _name(self, regarding: str, moment: datetime) -> str:
        """Return a unique name: the object's name, the time, and what tells recorders and their events apart.

        Nothing of it is random, so that a simulation does the same every time.
        """
        self._named += 1
        mark = zlib.crc32(f"{self._controller}/{self._instance}/{self._named}".encode())
        return f"{regarding[:200]}.{int(moment.timestamp() * 1e6):x}{mark & 0xFFFF:04x}"

    def _lost(self, event: Event, error: Exception) -> None:
        DROPPED.labels("failed").inc()
        regarding = event.regarding
        log.warning("event %s about %s %s: %s", event.reason, regarding.kind, regarding.name, error)


def reference(obj: KubeObject) -> ObjectReference:
    """Return a reference to an object."""
    resource, meta = resource_of(type(obj)), obj.metadata
    return ObjectReference(
        api_version=resource.api_version,
        kind=resource.kind,
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        resource_version=meta.resource_version,
    )


def _who(target: ObjectReference) -> str:
    """Return by what events about an object are limited."""
    return f"{target.kind}/{target.namespace}/{target.name}/{target.uid}"


def _core_event(known: _Known) -> dict[str, Any]:
    """Return an event as one of the core group."""
    event, meta = known.event, known.event.metadata
    found = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"namespace": meta.namespace, "name": meta.name},
        "involvedObject": msgspec.to_builtins(event.regarding),
        "reason": event.reason,
        "message": event.note,
        "type": event.type,
        "source": {"component": event.reporting_controller},
        "reportingComponent": event.reporting_controller,
        "firstTimestamp": format_time(known.first_seen_at),
        "lastTimestamp": format_time(known.last_seen_at),
        "count": known.count,
    }
    if event.related is not None:
        found["related"] = msgspec.to_builtins(event.related)
    return found


def truncate(note: str, mark: str = "...") -> str:
    """Return a note of at most `MAX_NOTE` bytes, cut at a character; `mark` ends a truncated note."""
    data = note.encode()
    if len(data) <= MAX_NOTE:
        return note
    return data[: MAX_NOTE - len(mark)].decode(errors="ignore") + mark
