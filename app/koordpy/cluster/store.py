"""Objects of one kind, by key and by index, with ordered change handlers.

An informer (or a test) feeds a store; everything else reads it or subscribes to it. A store does no I/O and
has no clock.
"""

import logging
from collections.abc import Callable, Iterable, Iterator
from typing import Generic, NamedTuple, TypeVar

from prometheus_client import Counter

from koordpy.api.meta import KubeObject

from .selector import EVERYTHING, Selector

log = logging.getLogger(__name__)

T = TypeVar("T", bound=KubeObject)

HANDLER_ERRORS = Counter(
    "koordpy_store_handler_errors_total", "Change handlers that raised, by kind of object.", ["kind"]
)


class Subscription(NamedTuple, Generic[T]):
    """Handlers, called after the store itself has changed: first those of derived states, then all others,
    both in order of subscription."""

    on_add: Callable[[T], None] | None
    on_update: Callable[[T, T], None] | None
    on_delete: Callable[[T], None] | None


class Index(Generic[T]):
    """The objects of a store by the values of an index function; kept current by the store."""

    def __init__(self, values_of: Callable[[T], Iterable[str]]) -> None:
        self._values_of = values_of
        self._objects: dict[str, dict[str, T]] = {}

    def get(self, value: str) -> list[T]:
        """Return the objects with a value, in the order in which they got it."""
        return list(self._objects.get(value, {}).values())

    def __contains__(self, value: object) -> bool:
        """Return whether any object has a value."""
        return value in self._objects

    def add(self, key: str, obj: T) -> None:
        """Add an object (the store calls this)."""
        for value in self._values_of(obj):
            self._objects.setdefault(value, {})[key] = obj

    def update(self, key: str, old: T, obj: T) -> None:
        """Put an object in the place of its former version, whose values it keeps in their order."""
        values = set(self._values_of(obj))
        self._remove(key, (value for value in self._values_of(old) if value not in values))
        for value in values:
            self._objects.setdefault(value, {})[key] = obj

    def remove(self, key: str, obj: T) -> None:
        """Remove an object as it was added (the store calls this)."""
        self._remove(key, self._values_of(obj))

    def _remove(self, key: str, values: Iterable[str]) -> None:
        for value in values:
            objects = self._objects.get(value)
            if objects is not None:
                objects.pop(key, None)
                if not objects:
                    del self._objects[value]


class Store(Generic[T]):
    """All known objects of one type. Keys are `namespace/name`, or the name if there is no namespace."""

    def __init__(
        self, type_: type[T], selector: Selector = EVERYTHING, *, optional: bool = False, late: bool = False
    ) -> None:
        self.type = type_
        self.selector, self.optional = selector, optional
        """The union of all readers' selectors, and whether the type is optional for all of them."""
        self.is_followed = False
        """Whether an informer feeds the store, so that its selector cannot be widened."""
        self.synced = False
        self.late = late
        """Whether readiness does not wait for it."""
        self.lists_begun = self.lists_ended = 0
        """Numbers of the last started list, and of the last complete one: what existed when a list started is
        in the store when it is complete, or was deleted since."""
        self.transform: Callable[[T], T] | None = None
        """The transformations of every object before it is stored; see `koordpy.cluster.transformers`."""
        self._objects: dict[str, T] = {}
        self._indexes: dict[Callable[[T], Iterable[str]], Index[T]] = {}
        self._subscriptions: list[Subscription[T]] = []
        self._first = 0
        """The number of subscriptions of derived states."""

    # --- selectors -------------------------------------------------------------------------------

    def want(self, selector: Selector, *, optional: bool, late: bool) -> None:
        """Widen the selector for one more reader.

        The union of two different selectors is everything, in their namespace if both have the same. Raises
        RuntimeError if the store is already followed with a selector that excludes requested objects.
        """
        if self.selector is selector and not (self.optional or self.late):
            return  # the usual case: it is the same for every reader
        union = self.selector | selector
        if union != self.selector:
            if self.is_followed:
                raise RuntimeError(
                    f"{self.type.__name__}: {selector} is wanted, but only {self.selector} is followed: "
                    "request the store before the informers start"
                )
            self.selector = union
        self.optional = self.optional and optional
        self.late = self.late and (late or self.is_followed)

    # --- reading ---------------------------------------------------------------------------------

    def get(self, namespace: str, name: str) -> T | None:
        """Return the object of that name; pass an empty namespace for cluster-scoped kinds."""
        return self._objects.get(f"{namespace}/{name}" if namespace else name)

    def by_key(self, key: str) -> T | None:
        """Return the object of that `namespace/name` (or bare name)."""
        return self._objects.get(key)

    def __iter__(self) -> Iterator[T]:
        return iter(self._objects.values())

    def __len__(self) -> int:
        return len(self._objects)

    def __contains__(self, key: str) -> bool:
        return key in self._objects

    def keys(self) -> Iterable[str]:
        """Return the keys of all objects (a live view)."""
        return self._objects.keys()

    def index(self, values_of: Callable[[T], Iterable[str]]) -> Index[T]:
        """Return the index of the objects by the values of a function.

        Callers with the same function share one index, so pass a module-level function, not a lambda.
        """
        index = self._indexes.get(values_of)
        if index is None:
            index = self._indexes[values_of] = Index(values_of)
            for key, obj in self._objects.items():
                index.add(key, obj)
        return index

    # --- following -------------------------------------------------------------------------------

    def subscribe(
        self,
        on_add: Callable[[T], None] | None = None,
        on_update: Callable[[T, T], None] | None = None,
        on_delete: Callable[[T], None] | None = None,
        *,
        replay: bool = True,
        first: bool = False,
    ) -> Subscription[T]:
        """Call handlers on every later change; with `replay`, `on_add` gets known objects first.

        Handlers run synchronously, so a reader never sees a plugin's state behind the store's. One that
        raises is logged and counted; the others still run. `first` is for derived states, which are current
        before anything else is called (`koordpy.cluster.derived_state`).
        """
        subscription = Subscription(on_add, on_update, on_delete)
        at = self._first if first else len(self._subscriptions)
        self._first += first
        # A new list: a change being delivered now is replayed below, and must not be delivered twice.
        self._subscriptions = [*self._subscriptions[:at], subscription, *self._subscriptions[at:]]
        if replay and on_add is not None:
            for obj in list(self._objects.values()):
                try:
                    on_add(obj)
                except Exception:
                    self._failed(obj)
        return subscription

    def unsubscribe(self, subscription: Subscription[T]) -> None:
        """Stop calling a subscription's handlers."""
        at = self._subscriptions.index(subscription)
        self._first -= at < self._first
        self._subscriptions = [*self._subscriptions[:at], *self._subscriptions[at + 1 :]]

    # --- feeding ---------------------------------------------------------------------------------

    def apply(self, obj: T) -> None:
        """Store a new or changed object. A new uid under a known name is a delete and an add."""
        self.put(self.transformed(obj))

    def transformed(self, obj: T) -> T:
        """Return the transformed form of an object from the API server."""
        return obj if self.transform is None else self.transform(obj)

    def stored(self, obj: T) -> T:
        """Return the transformed form of an object of another source: the stored one if that is this version.

        Its parts are shared with those of equal objects, by whose identity much is remembered.
        """
        meta = obj.metadata
        known = self._objects.get(meta.key)
        if known is not None and known.metadata.uid == meta.uid:
            version = meta.resource_version
            if version and known.metadata.resource_version == version:
                return known
        return self.transformed(obj)

    def put(self, obj: T) -> None:
        """Store an object that is already transformed."""
        key = obj.metadata.key
        old = self._objects.get(key)
        if old is not None and old.metadata.uid != obj.metadata.uid:
            self.discard(key)
            old = None
        self._objects[key] = obj
        for index in self._indexes.values():
            if old is None:
                index.add(key, obj)
            else:
                index.update(key, old, obj)
        for on_add, on_update, _ in self._subscriptions:
            try:
                if old is None:
                    if on_add is not None:
                        on_add(obj)
                elif on_update is not None:
                    on_update(old, obj)
            except Exception:
                self._failed(obj)

    def discard(self, key: str) -> None:
        """Remove the object with that key; unknown keys are ignored (a delete may be seen twice)."""
        old = self._objects.pop(key, None)
        if old is None:
            return
        for index in self._indexes.values():
            index.remove(key, old)
        for _, _, on_delete in self._subscriptions:
            if on_delete is not None:
                try:
                    on_delete(old)
                except Exception:
                    self._failed(old)

    def replace(self, objects: Iterable[T]) -> None:
        """Make the store hold exactly these objects, calling handlers only for differences."""
        fresh = {obj.metadata.key: obj for obj in objects}
        for key in [key for key in self._objects if key not in fresh]:
            self.discard(key)
        for key, obj in fresh.items():
            old = self._objects.get(key)
            if (
                old is None
                or not obj.metadata.resource_version
                or old.metadata.resource_version != obj.metadata.resource_version
            ):
                self.apply(obj)

    def _failed(self, obj: T) -> None:
        HANDLER_ERRORS.labels(self.type.__name__).inc()
        log.exception("a handler of %s %s failed", self.type.__name__, obj.metadata.key)
