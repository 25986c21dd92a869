"""Keeps one store equal to the API server: list in pages, then watch, indefinitely.

The store only moves forward. Pages are applied as they arrive (so that a hundred thousand objects never block
the event loop), objects missing from a list are discarded at its end, and events older than the store are
ignored. So a missed update or delete is delivered once, after a relist, and a repeated one not at all.

A watch is resumed from the last version seen, bookmarks included. It is closed if nothing, not even a
bookmark, arrives for `silence` seconds, as happens when the peer has vanished.
"""

import asyncio
import contextlib
import logging
import math
import random
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from prometheus_client import Counter, Gauge

from koordpy.api.meta import KubeObject, ObjectMeta
from koordpy.api.scheme import DecodeError
from koordpy.lib.supervise import Backoff

from .client import PAGE_SIZE, Client
from .errors import ApiError, ConnectionFailed, Forbidden, Gone, NotFound, ServerError, Unauthorized
from .selector import EVERYTHING, Selector
from .sharing import Sharing
from .store import Store
from .wire import Malformed, Page, WatchError, WatchEvent

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubeObject)

SILENCE = 180.0
"""Seconds without data after which a watch is considered dead; API servers send a bookmark every minute."""

LARGEST_PAGE = 8 * PAGE_SIZE
_LONGEST_WAIT = 60.0
_LASTING = 5.0
"""A watch that lasts this long counts as a success, even without events."""

_REFUSALS = 3
"""After this many consecutive watch failures a list is tried."""

_MALFORMED_LOGGED = 5
"""Objects of one list or of some events."""

_BREATH = 100
"""Objects applied before other work gets its turn."""

_TURN = 0.02
"""Seconds for which an informer applies events before others run."""

_POLLS, _POLL_SECONDS = 10, 0.025
"""How often, and at what interval in seconds, the progress of a watch is checked."""

EVENTS = Counter("koordpy_informer_events_total", "Watch events applied.", ["kind", "type"])
STALE = Counter("koordpy_informer_stale_events_total", "Events older than the store.", ["kind"])
LISTS = Counter("koordpy_informer_lists_total", "Complete lists.", ["kind"])
FAILURES = Counter("koordpy_informer_failures_total", "Lists and watches that failed.", ["kind", "reason"])
MALFORMED = Counter("koordpy_informer_malformed_objects_total", "Objects that were skipped.", ["kind"])
OBJECTS = Gauge("koordpy_informer_objects", "Objects in the store.", ["kind"])


class State(StrEnum):
    """What an informer is doing."""

    STOPPED = "stopped"
    LISTING = "listing"
    WATCHING = "watching"
    ABSENT = "absent"
    """The server does not know the type (a CRD that is not installed)."""
    DENIED = "denied"
    """The credentials are rejected, or do not allow listing and watching the type."""
    FAILING = "failing"
    """The last list or watch failed otherwise."""


@dataclass(frozen=True)
class Health:
    """The health of an informer. `error` is the last failure since the state was last good, or empty.

    `cause` is the same without the request, so that informers with the same problem have the same.
    """

    kind: str
    state: State
    synced: bool
    error: str
    objects: int
    resource_version: str
    malformed: int
    cause: str = ""


class Informer(Generic[T]):
    """Feeds one store.

    A type that the server does not serve counts as synced (and empty) only if it is `optional`; it is retried
    quietly. `sharing` may be common to several informers.
    """

    def __init__(
        self,
        store: Store[T],
        client: Client,
        *,
        selector: Selector = EVERYTHING,
        optional: bool = False,
        page_size: int = PAGE_SIZE,
        silence: float = SILENCE,
        sharing: Sharing | None = None,
        rng: random.Random | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self.store = store
        self.kind = store.type.__name__
        self.optional = optional
        self.state = State.STOPPED
        self.error = self._cause = ""
        self.malformed = 0
        self.resource_version = ""
        """Where the next watch resumes; empty if a list is next."""
        self._client, self._selector, self._silence = client, selector, silence
        self._first_page_size = self._page_size = page_size
        self._sharing = Sharing() if sharing is None else sharing
        self._share = self._sharing.of(store.type)
        self._rng, self._sleep = rng or random.Random(), sleep
        self._backoff = Backoff(initial=0.2, maximum=30.0, rng=self._rng)
        self._reported = ""
        self._newest = 0
        self._refused = 0
        self._events = {kind: EVENTS.labels(self.kind, kind) for kind in ("ADDED", "MODIFIED", "DELETED")}

    @property
    def health(self) -> Health:
        """The current health."""
        return Health(
            self.kind,
            self.state,
            self.store.synced,
            self.error,
            len(self.store),
            self.resource_version,
            self.malformed,
            self._cause,
        )

    async def run(self) -> None:
        """List and watch until cancelled, regardless of server errors."""
        try:
            while True:
                try:
                    if not self.resource_version:
                        self.state = State.LISTING
                        await self._list()
                    if not await self._watch():
                        await self._pause()  # no tight loop on a server that closes immediately
                except (ApiError, ConnectionFailed, WatchError, DecodeError) as error:
                    self._note(error)
                    await self._pause(getattr(error, "retry_after", None))
        finally:
            self.state = State.STOPPED

    # --- list ------------------------------------------------------------------------------------

    async def _list(self) -> None:
        """Read all pages into the store and discard objects missing from them. Raises Gone between pages.

        A list older than what was seen before means that the server's data was restored from a backup: then
        the list is right and the store is wrong.
        """
        unseen = set(self.store.keys())
        self.store.lists_begun += 1
        number = self.store.lists_begun
        async with contextlib.aclosing(self._pages()) as pages:
            async for page in pages:
                rewound = (_number(page.metadata.resource_version) or 0) < self._newest
                self._skip(page.malformed)
                unseen.difference_update(malformed.key for malformed in page.malformed)  # they do exist
                async for some in _in_turns(page.items):
                    for obj in some:
                        key = obj.metadata.key
                        unseen.discard(key)
                        self._apply(key, obj, rewound=rewound)
        for key in unseen:
            self.store.discard(key)
        self.resource_version = page.metadata.resource_version
        self._newest = _number(self.resource_version) or 0
        self._page_size = self._first_page_size
        self.store.synced, self.store.lists_ended = True, number
        self._well()
        LISTS.labels(self.kind).inc()
        OBJECTS.labels(self.kind).set(len(self.store))

    async def _pages(self) -> AsyncGenerator[Page[T], None]:
        """Yield the pages of a list, prefetching the next one while a page is applied. Raises Gone."""
        coming = asyncio.ensure_future(self._page(""))
        try:
            while True:
                try:
                    page = await coming
                except Gone:
                    self._page_size = min(self._page_size * 2, LARGEST_PAGE)  # be through before it expires
                    raise
                continue_ = page.metadata.continue_
                if continue_:
                    coming = asyncio.ensure_future(self._page(continue_))
                yield page
                if not continue_:
                    return
        finally:
            coming.cancel()
            await asyncio.gather(coming, return_exceptions=True)

    async def _page(self, continue_: str) -> Page[T]:
        return await self._client.list_page(
            self.store.type,
            self._selector.namespace,
            label_selector=self._selector.labels,
            field_selector=self._selector.fields,
            limit=self._page_size,
            continue_=continue_,
        )

    async def catch_up(self) -> None:
        """Return once the store shows everything written before the call.

        A busy watch does so quickly. An idle watch sends nothing that would prove it: then all objects are
        listed and applied. Raises ApiError, ConnectionFailed.
        """
        latest = await self._client.list_page(self.store.type, self._selector.namespace, limit=1)
        version = _number(latest.metadata.resource_version)
        if version is not None:
            for _ in range(_POLLS):
                if (_number(self.resource_version) or 0) >= version:
                    return
                await self._sleep(_POLL_SECONDS)
        async with contextlib.aclosing(self._pages()) as pages:
            async for page in pages:
                async for some in _in_turns(page.items):
                    for obj in some:
                        key = obj.metadata.key
                        floor = None if key in self.store else _number(self.resource_version)
                        self._apply(key, obj, floor)

    # --- watch -----------------------------------------------------------------------------------

    async def _watch(self) -> bool:
        """Follow one watch until the server closes it; return whether anything arrived."""
        lasting = asyncio.get_running_loop().call_later(_LASTING, self._backoff.reset)
        try:
            return await self._follow()
        finally:
            lasting.cancel()

    async def _follow(self) -> bool:
        anything = False
        async with self._client.watch(
            self.store.type,
            self._selector.namespace,
            resource_version=self.resource_version,
            label_selector=self._selector.labels,
            field_selector=self._selector.fields,
            timeout_seconds=self._rng.randint(300, 600),  # so that watches do not end at the same time
        ) as watch:
            self.state = State.WATCHING
            while True:
                try:
                    events = await watch.read(self._silence)
                except WatchError as error:
                    self._skip(error.malformed)
                    self._take(error.events)
                    raise
                if watch.malformed:
                    self._skip(watch.malformed)
                    watch.malformed.clear()
                elif not events:
                    self._refused = 0  # it was served, even if there was nothing to tell
                    return anything
                await self._take_in_turns(events)
                self._well()
                anything = True

    async def _take_in_turns(self, events: Sequence[WatchEvent[T]]) -> None:
        """Apply events, and let others run in between: objects may be large, and many arrive at once."""
        clock = asyncio.get_running_loop().time
        taken = self._take(events, clock() + _TURN)
        while taken < len(events):
            await asyncio.sleep(0)
            events = events[taken:]
            taken = self._take(events, clock() + _TURN)

    def _take(self, events: Sequence[WatchEvent[T]], until: float = math.inf) -> int:
        """Apply events until that time of the loop, at least one; return how many."""
        clock = asyncio.get_running_loop().time
        taken = 0
        for event in events:
            obj, kind = event.object, event.type
            if kind == "DELETED":
                self._delete(obj)
            elif kind in ("ADDED", "MODIFIED"):
                self._apply(obj.metadata.key, obj, _number(self.resource_version))
            elif kind != "BOOKMARK":
                log.warning("%s: watch event of unknown type %r", self.kind, kind)
                taken += 1
                continue
            if kind != "BOOKMARK":
                self._events[kind].inc()
            self._advance(obj.metadata.resource_version)
            taken += 1
            if clock() > until:
                break
        OBJECTS.labels(self.kind).set(len(self.store))
        return taken

    def _advance(self, version: str) -> None:
        """Remember where to resume; repeated old events never move it back."""
        new, old = _number(version), _number(self.resource_version)
        if version and (new is None or old is None or new > old):
            self.resource_version = version
            self._newest = new or 0

    # --- the store -------------------------------------------------------------------------------

    def _apply(self, key: str, obj: T, floor: int | None = None, *, rewound: bool = False) -> None:
        """Apply an object unless it is older than the known one.

        An object that is not in the store must be newer than `floor`: up to there its deletion was seen.
        """
        old = self.store.by_key(key)
        if (old is not None or floor is not None) and not rewound and _is_stale(obj.metadata, old, floor):
            if floor is not None:
                STALE.labels(self.kind).inc()
            return
        obj = self.store.transformed(obj)
        self._share(obj)
        self.store.put(obj)

    def _delete(self, obj: T) -> None:
        """Apply a deletion unless another object has the name by now."""
        old = self.store.by_key(obj.metadata.key)
        if old is not None and old.metadata.uid == obj.metadata.uid:
            self.store.discard(obj.metadata.key)
        else:
            STALE.labels(self.kind).inc()

    def _skip(self, malformed: list[Malformed]) -> None:
        self.malformed += len(malformed)
        MALFORMED.labels(self.kind).inc(len(malformed))
        for broken in malformed[:_MALFORMED_LOGGED]:
            log.error("%s %s is malformed and was skipped: %s", self.kind, broken.key, broken.error)
        if len(malformed) > _MALFORMED_LOGGED:
            log.error("... and so were %d more", len(malformed) - _MALFORMED_LOGGED)

    # --- failures --------------------------------------------------------------------------------

    def _note(self, error: Exception) -> None:
        """Handle a failure: set the state and what to do next."""
        if isinstance(error, Gone) or (isinstance(error, WatchError) and error.status.code == 410):
            reason, level = "gone", logging.INFO
            self.resource_version = ""
        elif isinstance(error, NotFound):
            self.state, reason, level = State.ABSENT, "absent", logging.INFO
            self._empty()
        elif isinstance(error, (Unauthorized, Forbidden)):
            self.state, reason, level = State.DENIED, "denied", logging.ERROR
        else:
            self.state, reason, level = State.FAILING, type(error).__name__, logging.WARNING
            self._refused += isinstance(error, (ServerError, WatchError))
            if isinstance(error, DecodeError) or self._refused >= _REFUSALS:
                self.resource_version = ""  # the server may be unable to serve this version
        FAILURES.labels(self.kind, reason).inc()
        self.error, self._cause = str(error), str(getattr(error, "problem", error))
        if reason != self._reported:
            self._reported = reason
            log.log(level, "%s: %s", self.kind, error)

    def _well(self) -> None:
        self.error = self._cause = self._reported = ""
        self._refused = 0
        self._backoff.reset()

    def _empty(self) -> None:
        """Handle a type that is no longer served: drop its objects; it is synced only if it is optional."""
        self.resource_version = ""
        for key in list(self.store.keys()):
            self.store.discard(key)
        self.store.synced = self.optional
        OBJECTS.labels(self.kind).set(0)

    async def _pause(self, at_least: float | None = None) -> None:
        await self._sleep(self._backoff.next() + min(at_least or 0.0, _LONGEST_WAIT))


async def _in_turns(items: Sequence[T]) -> AsyncGenerator[Sequence[T], None]:
    """Yield the objects in chunks; other work gets its turn in between."""
    for start in range(0, len(items), _BREATH):
        yield items[start : start + _BREATH]
        await asyncio.sleep(0)


def _is_stale(meta: ObjectMeta, old: KubeObject | None, floor: int | None) -> bool:
    """Return whether an object is not newer than the known one of its name; `floor` as in `_apply`."""
    version = _number(meta.resource_version)
    if old is None:
        return floor is not None and version is not None and version <= floor
    known = _number(old.metadata.resource_version)
    if old.metadata.uid != meta.uid:
        return version is not None and known is not None and version < known
    if version is None or known is None:
        return bool(meta.resource_version) and meta.resource_version == old.metadata.resource_version
    return version <= known


def _number(version: str) -> int | None:
    """Return a resource version as a number (Kubernetes allows comparing them), None if it is not numeric."""
    return int(version) if version.isdecimal() else None
