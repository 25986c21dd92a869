"""The storage of objects: bytes in memory, one revision counter, and a bounded history for watches and pages.

An object is kept as the JSON that lists are spliced from: the whole document without `kind` and `apiVersion`
(which depend on the version asked for). Besides the bytes only selectable fields are kept, so that 100,000
pods fit. Every write takes the next revision, replaces the record, appends an `Event` with the record before
and after, and notifies the watchers. The history serves three things: a watch from an older revision, a list
at an exact revision, and the pages of one snapshot (the state now, with what happened since undone). Older
revisions are answered with 410. The histories of all tables together are bounded in bytes.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final
from weakref import WeakSet

import msgspec

Document = dict[str, Any]

OBJECT_BYTES: Final = 3 * 512 * 1024
"""The size of one object, at most; etcd's limit for a request."""

HISTORY_BYTES: Final = 64 * 1024 * 1024
"""What the histories of all tables take together, at most."""

_EVENT_BYTES: Final = 1024
"""What an event and its record take besides the object."""

_NO_LABELS: Mapping[str, str] = {}
_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder().decode


class TooOld(Exception):
    """The history does not include the revision."""


class TooNew(Exception):
    """The revision is in the future."""


class TooLarge(Exception):
    """An object, or all objects together, would exceed what is stored; the message says which."""


class Record:
    """One object at one revision. Never changed: a write makes a new record."""

    __slots__ = ("fields", "key", "labels", "raw", "revision", "uid")

    def __init__(
        self,
        key: str,
        uid: str,
        revision: int,
        raw: bytes,
        labels: Mapping[str, str],
        fields: Mapping[str, str],
    ) -> None:
        self.key = key
        self.uid = uid
        self.revision = revision
        self.raw = raw
        self.labels = labels
        self.fields = fields

    def document(self) -> Document:
        """A fresh copy of the object, without kind and apiVersion."""
        document: Document = _decode(self.raw)
        return document


@dataclass(slots=True)
class Event:
    """One write. `record` is the object after it (of a deletion: at its end), `previous` before it."""

    revision: int
    type: str
    record: Record
    previous: Record | None
    encoded: dict[Any, bytes] = field(default_factory=dict)
    """The event as it is sent, by form of presentation, so that it is encoded once for all watchers; empty
    when all have received it."""

    @property
    def size(self) -> int:
        """About how many bytes it takes; the record before it belongs to an earlier event, or to none."""
        return len(self.record.raw) + _EVENT_BYTES


Listener = Callable[[Event], None]


class Revisions:
    """The counter that all tables share, and the bound of their histories.

    When these take more than `history_bytes` together, the one that takes most forgets its oldest half.
    """

    def __init__(self, history_bytes: int = HISTORY_BYTES, storage_bytes: int | None = None) -> None:
        self.current = 1
        self.history_bytes = 0
        """What the histories take."""
        self._limit = history_bytes
        self.stored_bytes = 0
        """What the objects take."""
        self._most_stored = storage_bytes
        self._tables: WeakSet[Table] = WeakSet()

    def next(self) -> int:
        """Take the next revision."""
        self.current += 1
        return self.current

    def stores(self, size: int, previous: int) -> None:
        """Note that an object takes `size` bytes instead of `previous`. Raises TooLarge.

        What makes an object smaller is always possible, so that deletions are.
        """
        if size > previous:
            if size > OBJECT_BYTES:
                raise TooLarge(f"the object is too large: {size} bytes, at most {OBJECT_BYTES} are stored")
            if self._most_stored is not None and self.stored_bytes + size - previous > self._most_stored:
                raise TooLarge(f"the storage is full: at most {self._most_stored} bytes of objects are kept")
        self.stored_bytes += size - previous

    def join(self, table: "Table") -> None:
        """Bound the history of another table with the others."""
        self._tables.add(table)

    def grew(self, size: int) -> None:
        """Note the bytes of a new event, or of forgotten ones (negative)."""
        self.history_bytes += size
        while self.history_bytes > self._limit:
            max(self._tables, key=lambda table: table.history_bytes).forget_half()


def key_of(namespace: str, name: str) -> str:
    """The key of an object: `namespace/name`, or the name alone."""
    return f"{namespace}/{name}" if namespace else name


class Table:
    """All objects of one resource, ordered by key as etcd orders them.

    `fields_of` reads the selectable fields of a document. `window` is how many events are kept at least.
    """

    def __init__(
        self,
        revisions: Revisions,
        fields_of: Callable[[Document], Mapping[str, str]],
        window: int = 20_000,
    ) -> None:
        self._revisions = revisions
        self._fields_of = fields_of
        self._window = window
        self._records: dict[str, Record] = {}
        self._keys: list[str] = []
        self._uids: dict[str, str] = {}
        self._events: list[Event] = []
        self.stored_bytes = 0
        """What the objects take."""
        self.history_bytes = 0
        """What the history takes."""
        revisions.join(self)
        self._floor = 0
        self._listeners: dict[int, Listener] = {}
        self._next_listener = 0

    def __len__(self) -> int:
        return len(self._records)

    def __iter__(self) -> Iterator[Record]:
        return iter([self._records[key] for key in self._keys])

    @property
    def revision(self) -> int:
        """The newest revision of the whole storage."""
        return self._revisions.current

    @property
    def floor(self) -> int:
        """The oldest revision since which the history is complete."""
        return self._floor

    def get(self, key: str) -> Record | None:
        """Return an object."""
        return self._records.get(key)

    def with_uid(self, uid: str) -> list[Record]:
        """Return the object with a uid, or nothing."""
        key = self._uids.get(uid)
        return [self._records[key]] if key is not None else []

    # writing

    def put(self, key: str, document: Document) -> Record:
        """Create or replace an object; sets `metadata.resourceVersion` in the document."""
        previous = self._records.get(key)
        record = self._record(key, document, self._revisions.next())
        self._revisions.stores(len(record.raw), len(previous.raw) if previous is not None else 0)
        self._records[key] = record
        if previous is None:
            self._uids[record.uid] = key
            if not self._keys or key > self._keys[-1]:
                self._keys.append(key)
            else:
                insort(self._keys, key)
        self._commit(Event(record.revision, "ADDED" if previous is None else "MODIFIED", record, previous))
        return record

    def remove(self, key: str, document: Document | None = None) -> Record:
        """Delete an object and return its last state (`document`, if it changed once more)."""
        previous = self._records.pop(key)
        self._revisions.stores(0, len(previous.raw))
        del self._keys[bisect_left(self._keys, key)]
        self._uids.pop(previous.uid, None)
        last = previous.document() if document is None else document
        record = self._record(key, last, self._revisions.next())
        self._commit(Event(record.revision, "DELETED", record, previous))
        return record

    def load(self, key: str, document: Document) -> None:
        """Load an object from a snapshot, at its own revision and without an event."""
        revision = int(document["metadata"]["resourceVersion"])
        record = self._records[key] = self._record(key, document, revision)
        self._revisions.stored_bytes += len(record.raw)
        self.stored_bytes += len(record.raw)
        self._uids[record.uid] = key
        insort(self._keys, key)

    def _record(self, key: str, document: Document, revision: int) -> Record:
        metadata = document["metadata"]
        metadata["resourceVersion"] = str(revision)
        return Record(
            key,
            metadata["uid"],
            revision,
            _encode(document),
            metadata.get("labels") or _NO_LABELS,
            self._fields_of(document),
        )

    def _commit(self, event: Event) -> None:
        self.stored_bytes += len(event.record.raw) if event.type != "DELETED" else 0
        self.stored_bytes -= len(event.previous.raw) if event.previous is not None else 0
        self._events.append(event)
        self.history_bytes += event.size
        self._revisions.grew(event.size)
        if len(self._events) > 2 * self._window:
            self._forget(len(self._events) - self._window)
        for listener in tuple(self._listeners.values()):
            listener(event)
        event.encoded.clear()

    # history

    def compact(self) -> None:
        """Discard the whole history."""
        self._forget(len(self._events))
        self._floor = self._revisions.current

    def forget_half(self) -> None:
        """Discard the older half of the history, in bytes; all of it if that is one event."""
        kept, count = self.history_bytes, 0
        while kept > self.history_bytes // 2:
            kept -= self._events[count].size
            count += 1
        self._forget(count)

    def _forget(self, count: int) -> None:
        if count:
            self._floor = self._events[count - 1].revision
            size = sum(event.size for event in self._events[:count])
            del self._events[:count]
            self.history_bytes -= size
            self._revisions.grew(-size)

    def since(self, revision: int) -> list[Event]:
        """Return the events after a revision. Raises TooOld."""
        if revision < self._floor:
            raise TooOld
        return self._events[bisect_right(self._events, revision, key=lambda event: event.revision) :]

    def range(
        self, namespace: str = "", after: str = "", at: int | None = None
    ) -> tuple[list[str], dict[str, Record | None]]:
        """Return keys in order (of a namespace, behind `after`) and what differs at a revision.

        Keys may name objects that do not exist (any more); use `lookup`. Raises TooOld, TooNew.
        """
        changed: dict[str, Record | None] = {}
        if at is not None:
            if at > self._revisions.current:
                raise TooNew
            for event in self.since(at):
                changed.setdefault(event.record.key, event.previous)
        first, last = 0, len(self._keys)
        prefix = f"{namespace}/" if namespace else ""
        if prefix:
            first = bisect_left(self._keys, prefix)
            last = bisect_left(self._keys, f"{namespace}0")
        if after:
            first = max(first, bisect_right(self._keys, after))
        keys = self._keys[first:last]
        lost = [
            key
            for key, record in changed.items()
            if record is not None and key not in self._records and key.startswith(prefix) and key > after
        ]
        if lost:
            keys = sorted(keys + lost)
        return keys, changed

    def lookup(self, key: str, changed: Mapping[str, Record | None]) -> Record | None:
        """Return the object that `range` meant by a key."""
        return changed[key] if key in changed else self._records.get(key)

    # watching

    def subscribe(self, listener: Listener) -> Callable[[], None]:
        """Call `listener` with every event from now on; return a function that removes it."""
        number = self._next_listener
        self._next_listener += 1
        self._listeners[number] = listener
        return lambda: self._listeners.pop(number, None) and None
