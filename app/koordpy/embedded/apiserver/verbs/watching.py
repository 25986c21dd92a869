"""Watches: the changes of a collection as a stream of JSON lines, encoded once for all equal watches."""

import asyncio
import random
import re
from collections.abc import Callable
from typing import Any

import msgspec

from koordpy.api.field_cause import forbidden_field, unsupported
from koordpy.lib.clock import Clock

from ..catalog import Served
from ..errors import ApiError, expired, invalid
from ..representation import presentation, tables
from ..storage import Event, Record, Table, TooOld
from ..wire import Request, Stream
from .reading import Position, Reader, revision_of, too_new
from .selection import Selection, selection_of

Document = dict[str, Any]

BOOKMARK_INTERVAL = 60.0

LONGEST_WATCH = 10**9
"""Seconds, some thirty years; longer ones are cut to this."""


def _line(type_: str, object_: bytes) -> bytes:
    return b'{"type":"%b","object":%b}\n' % (type_.encode(), object_)


class _Watch:
    """One open watch: turns events into lines for one client."""

    def __init__(self, served: Served, selection: Selection, form: presentation.Form, clock: Clock) -> None:
        self._served = served
        self._selection = selection
        self._form = form
        self._clock = clock
        self._bare_table = False
        self.stream: Stream | None = None

    def initial(self, record: Record) -> None:
        """Send an object that existed before the watch."""
        self._send(_line("ADDED", self._object(record.raw)))

    def tell(self, event: Event) -> None:
        """Send an event, as seen within the selection."""
        record, previous = event.record, event.previous
        selection = self._selection
        if not selection.selects:
            if selection.prefix and not record.key.startswith(selection.prefix):
                return
            self._send(self._encoded(event, event.type, record))
            return
        if selection.prefix and not record.key.startswith(selection.prefix):
            return
        was = previous is not None and selection.matches(previous)
        if event.type == "DELETED":
            if was:
                self._send(self._encoded(event, "DELETED", record))
            return
        is_ = selection.matches(record)
        if is_:
            self._send(self._encoded(event, "MODIFIED" if was else "ADDED", record))
        elif was and previous is not None:
            self._send(self._encoded(event, "DELETED", previous, record.revision))

    def bookmark(self, revision: int, initial_end: bool = False) -> None:
        """Send a bookmark."""
        metadata: Document = {"resourceVersion": str(revision), "creationTimestamp": None}
        if initial_end:
            metadata["annotations"] = {"k8s.io/initial-events-end": "true"}
        kind, version = self._served.kind, self._served.api_version
        found: Document = {"kind": kind, "apiVersion": version, "metadata": metadata}
        if self._form.shape == "metadata":
            found = presentation.partial(found)
        elif self._form.shape == "table":
            found = tables.table(self._served, [], self._clock.now(), "None")
            found["metadata"] = metadata
        self._send(_line("BOOKMARK", msgspec.json.encode(found)))

    def fail(self, error: ApiError) -> None:
        """Send the error of a failed watch."""
        self._send(_line("ERROR", error.body.rstrip()))

    def _send(self, line: bytes) -> None:
        if self.stream is not None:
            self.stream.write(line)

    def _encoded(self, event: Event, type_: str, record: Record, revision: int | None = None) -> bytes:
        if self._form.shape == "table":
            return _line(type_, self._object(record.raw))
        form = (type_, self._form.shape, self._served.api_version)
        line = event.encoded.get(form)
        if line is None:
            raw = record.raw
            if revision is not None:
                document = record.document()
                document["metadata"]["resourceVersion"] = str(revision)
                raw = msgspec.json.encode(document)
            line = event.encoded[form] = _line(type_, self._object(raw))
        return line

    def _object(self, raw: bytes) -> bytes:
        if self._form.shape != "table":
            return presentation.present(self._form, self._served, raw, None)
        document = msgspec.json.decode(self._served.whole(raw))
        table = tables.table(self._served, [document], self._clock.now(), self._form.include)
        if self._bare_table:
            table.pop("columnDefinitions")
        self._bare_table = True
        return msgspec.json.encode(table)


class Watcher:
    """Opens watches, and ends them all when the server stops."""

    def __init__(self, reader: Reader, clock: Clock, rng: random.Random) -> None:
        self._reader = reader
        self._clock = clock
        self._rng = rng
        self._open: dict[Stream, Table] = {}

    def end_all(self) -> None:
        """End all open watches."""
        for stream in list(self._open):
            stream.end()

    def end_those_of(self, table: Table) -> None:
        """End the watches of a resource that is no longer served."""
        for stream, watched in list(self._open.items()):
            if watched is table:
                stream.end()

    def cut_all(self) -> None:
        """Drop the connections of all open watches."""
        for stream in list(self._open):
            stream.abort()

    def watch(self, request: Request, served: Served, namespace: str) -> Stream:
        """Answer with a stream of events. Raises ApiError for an invalid request."""
        form = presentation.form_of(request)
        selection = selection_of(request, served, namespace)
        query = request.query
        version = query.get("resourceVersion", "")
        bookmarks = request.flag("allowWatchBookmarks")
        with_initial = self._initial_events(request)
        start = revision_of(version) if version else 0
        timeout_text = query.get("timeoutSeconds", "")
        timeout = float(timeout_text) if re.fullmatch("[0-9]{1,18}", timeout_text) else 0.0
        if not timeout:
            timeout = 1800 + 1800 * self._rng.random()
        timeout = min(timeout, LONGEST_WATCH)
        watch = _Watch(served, selection, form, self._clock)

        def begin(stream: Stream) -> None:
            watch.stream = stream
            self._begin(watch, stream, served, selection, start, with_initial, bookmarks, timeout)

        return Stream(begin)

    @staticmethod
    def _initial_events(request: Request) -> bool | None:
        query = request.query
        match = query.get("resourceVersionMatch", "")
        if "sendInitialEvents" not in query:
            if match:
                told = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
                raise invalid(
                    "ListOptions", "meta.k8s.io", "", [forbidden_field("resourceVersionMatch", told)]
                )
            return None
        if match != "NotOlderThan":
            cause = (
                unsupported("resourceVersionMatch", match, ("NotOlderThan",))
                if match
                else forbidden_field(
                    "resourceVersionMatch",
                    "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
                )
            )
            raise invalid("ListOptions", "meta.k8s.io", "", [cause])
        return request.flag("sendInitialEvents")

    def _begin(
        self,
        watch: _Watch,
        stream: Stream,
        served: Served,
        selection: Selection,
        start: int,
        with_initial: bool | None,
        bookmarks: bool,
        timeout: float,
    ) -> None:
        table = served.table
        if start > table.revision:
            watch.fail(too_new(start, table.revision))
            stream.end()
            return
        if with_initial or (with_initial is None and start == 0):
            for record in self._reader.select(served, selection, Position())[0]:
                watch.initial(record)
            if with_initial and bookmarks:
                watch.bookmark(table.revision, initial_end=True)
        elif start:
            try:
                for event in table.since(start):
                    watch.tell(event)
                    event.encoded.clear()
            except TooOld:
                watch.fail(expired(f"too old resource version: {start} ({table.floor})"))
                stream.end()
                return
        unsubscribe = table.subscribe(watch.tell)
        self._open[stream] = table
        timers = _Timers(watch, stream, lambda: table.revision, bookmarks, timeout)

        def close() -> None:
            unsubscribe()
            timers.cancel()
            self._open.pop(stream, None)

        stream.on_close = close


class _Timers:
    """The bookmarks of a watch and its end."""

    def __init__(
        self, watch: _Watch, stream: Stream, revision: Callable[[], int], bookmarks: bool, timeout: float
    ) -> None:
        self._watch = watch
        self._stream = stream
        self._revision = revision
        self._bookmarks = bookmarks
        self._loop = asyncio.get_running_loop()
        self._end = self._loop.call_later(timeout, self._finish)
        self._next = self._loop.call_later(BOOKMARK_INTERVAL, self._bookmark) if bookmarks else None

    def cancel(self) -> None:
        self._end.cancel()
        if self._next is not None:
            self._next.cancel()

    def _bookmark(self) -> None:
        self._watch.bookmark(self._revision())
        self._next = self._loop.call_later(BOOKMARK_INTERVAL, self._bookmark)

    def _finish(self) -> None:
        if self._bookmarks:
            self._watch.bookmark(self._revision())
        self._stream.end()
