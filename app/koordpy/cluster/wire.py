"""List pages and watch events, from bytes to structs.

A page or a run of events is decoded at once. Only if that fails are its objects decoded one by one, so that a
single malformed object is reported and skipped, not fatal.
"""

from dataclasses import dataclass
from functools import cache
from typing import Any, Generic, TypeVar

import msgspec

from koordpy.api.meta import KubeObject, ListMeta, ObjectMeta, Status
from koordpy.api.scheme import MALFORMED, DecodeError, decode

T = TypeVar("T", bound=KubeObject)

MAX_LINE = 64 << 20
"""Longest watch event that is accepted, bytes (etcd's objects are far smaller)."""


@dataclass(frozen=True)
class Malformed:
    """An object that could not be decoded: its key as far as it is readable, and the error."""

    key: str
    error: str


@dataclass(frozen=True)
class Page(Generic[T]):
    """Part of a list."""

    items: list[T]
    metadata: ListMeta
    malformed: list[Malformed]


class WatchEvent(msgspec.Struct, Generic[T], gc=False):
    """A change: `type` is ADDED, MODIFIED, DELETED, or BOOKMARK, whose object has a resourceVersion only."""

    type: str
    object: T


class WatchError(Exception):
    """The server ended a watch with an ERROR event; what came right before it is in `events`."""

    def __init__(self, status: Status, events: list[Any], malformed: list[Malformed]) -> None:
        super().__init__(f"watch ended by the server: {status.code} {status.reason}: {status.message}")
        self.status, self.events, self.malformed = status, events, malformed


class LineBuffer:
    """Cuts a byte stream into whole lines."""

    def __init__(self, limit: int = MAX_LINE) -> None:
        self._rest: list[bytes] = []
        self._size = 0
        self._limit = limit

    def feed(self, data: bytes) -> bytes:
        """Return the lines that are whole now, each with its newline; b"" when there is none.

        Raises DecodeError when a line gets longer than the limit.
        """
        end = data.rfind(b"\n") + 1
        if not end:
            self._keep(data)
            return b""
        lines = b"".join([*self._rest, data[:end]]) if self._rest else data[:end]
        self._rest, self._size = [], 0
        if end < len(data):
            self._keep(data[end:])
        return lines

    def _keep(self, data: bytes) -> None:
        self._rest.append(data)
        self._size += len(data)
        if self._size > self._limit:
            raise DecodeError(f"a watch event of more than {self._limit} bytes")


class _Page(msgspec.Struct, Generic[T]):
    items: list[T] | None = None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class _RawPage(msgspec.Struct):
    items: list[msgspec.Raw] | None = None
    metadata: ListMeta = msgspec.field(default_factory=ListMeta)


class _RawEvent(msgspec.Struct):
    type: str
    object: msgspec.Raw


class _Identity(msgspec.Struct):
    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)


_RAW_PAGE = msgspec.json.Decoder(_RawPage)
_RAW_EVENT = msgspec.json.Decoder(_RawEvent)
_STATUS = msgspec.json.Decoder(Status)
_IDENTITY = msgspec.json.Decoder(_Identity)


@cache
def _page_decoder(type_: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_Page[type_])  # type: ignore[valid-type]


@cache
def _event_decoder(type_: type[Any]) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(WatchEvent[type_])  # type: ignore[valid-type]


def decode_page(type_: type[T], body: bytes) -> Page[T]:
    """Decode a list. Raises DecodeError if it is not a list."""
    try:
        page = _page_decoder(type_).decode(body)
    except MALFORMED:
        pass
    else:
        return Page(page.items or [], _list_meta(type_, page.metadata), [])
    try:
        raw = _RAW_PAGE.decode(body)
    except MALFORMED as error:
        raise DecodeError(f"list of {type_.__name__}: {error}") from None
    items: list[T] = []
    malformed: list[Malformed] = []
    for item in raw.items or []:
        _decode_object(type_, item, items, malformed)
    return Page(items, _list_meta(type_, raw.metadata), malformed)


def _list_meta(type_: type[Any], metadata: ListMeta) -> ListMeta:
    """Reject a document without a resource version, which would otherwise decode as an empty list."""
    if not metadata.resource_version:
        raise DecodeError(f"list of {type_.__name__}: metadata.resourceVersion is missing or empty")
    return metadata


def decode_events(type_: type[T], lines: bytes) -> tuple[list[WatchEvent[T]], list[Malformed]]:
    """Decode whole lines of a watch.

    Raises WatchError at an ERROR event, DecodeError if a line is not an event.
    """
    try:
        events: list[WatchEvent[T]] = _event_decoder(type_).decode_lines(lines)
    except MALFORMED:
        return _decode_one_by_one(type_, lines)
    if any(event.type == "ERROR" for event in events):
        return _decode_one_by_one(type_, lines)
    return events, []


def _decode_one_by_one(type_: type[T], lines: bytes) -> tuple[list[WatchEvent[T]], list[Malformed]]:
    events: list[WatchEvent[T]] = []
    malformed: list[Malformed] = []
    for line in lines.split(b"\n"):
        if not line.strip():
            continue
        try:
            raw = _RAW_EVENT.decode(line)
        except MALFORMED as error:
            raise DecodeError(f"watch of {type_.__name__}: not an event: {error}") from None
        if raw.type == "ERROR":
            raise WatchError(_status(raw.object), events, malformed)
        objects: list[T] = []
        _decode_object(type_, raw.object, objects, malformed)
        events.extend(WatchEvent(raw.type, obj) for obj in objects)
    return events, malformed


def _decode_object(type_: type[T], raw: msgspec.Raw, into: list[T], malformed: list[Malformed]) -> None:
    data = bytes(raw)
    try:
        into.append(decode(type_, data))
    except DecodeError as error:
        try:
            key = _IDENTITY.decode(data).metadata.key
        except MALFORMED:
            key = "(no readable metadata)"
        malformed.append(Malformed(key, str(error)))


def _status(raw: msgspec.Raw) -> Status:
    try:
        return _STATUS.decode(raw)
    except MALFORMED as error:
        return Status(status="Failure", message=f"unreadable status: {error}")
