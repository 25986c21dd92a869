"""The interface of admission handlers: their input, their effects, and how they refuse a request.

A webhook path has a chain of handlers (`koordpy.admission.chain`). In-tree and third-party handlers work the
same way: a class that an entry point of group `koordpy.admission` names, constructed once with its arguments
and a `Handle`, and called for every request on its path. Handlers are synchronous and do no I/O; they read
the state of the cluster from stores that follow it. The few that must write to the API server before they can
decide are asynchronous, and only chains with such handlers wait.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Final, Protocol, TypeVar

import msgspec

from koordpy.api import typed
from koordpy.api.core import Pod
from koordpy.api.document import Document, Path
from koordpy.api.meta import Struct
from koordpy.api.plugin import BasePlugin, PluginArgs
from koordpy.api.quantity import Quantity, from_wire, parse
from koordpy.api.scheme import MALFORMED, decode, decoder
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.lib.bounded_cache import cached, text_size
from koordpy.lib.clock import Clock, SystemClock
from koordpy.lib.feature_gates import FeatureGates

from .explanation import Explanation

T = TypeVar("T")

_NAMESPACE: Final = ("metadata", "namespace")

CREATE = "CREATE"
UPDATE = "UPDATE"
DELETE = "DELETE"
CONNECT = "CONNECT"
OPERATIONS = frozenset((CREATE, UPDATE, DELETE, CONNECT))


class Denied(Exception):
    """The request is not allowed: status 403, reason Forbidden."""

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message


class Errored(Exception):
    """The request cannot be decided and is therefore not allowed: status `code`, no reason.

    Koordinator answers 400 where the object is at fault (nearly all its validations) and 500 where the
    webhook is (a missing PriorityClass, a profile patch that does not fit).
    """

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


class GroupVersionKind(Struct):
    """The kind of a sent object."""

    group: str = ""
    version: str = ""
    kind: str = ""


class GroupVersionResource(Struct):
    """The resource of a request."""

    group: str = ""
    version: str = ""
    resource: str = ""


class UserInfo(Struct):
    """The user who makes a request."""

    username: str = ""
    uid: str = ""
    groups: list[str] = []
    extra: dict[str, list[str]] = {}


class Request:
    """One admission request.

    `document` is the object being mutated; None where there is no object (DELETE). `namespace` is the
    namespace of the object as sent, or the request's where the object has none (`names_namespace` is False
    then). `effective_namespace` is the same until a handler moves the object to another namespace, for which
    later handlers then decide. It is separate from the document because a pod that was sent without a
    namespace does not get one.
    """

    __slots__ = (
        "_exact",
        "_objects",
        "_raw_old_object",
        "_raw_user_info",
        "_reread",
        "document",
        "dry_run",
        "effective_namespace",
        "explanation",
        "kind",
        "name",
        "names_namespace",
        "namespace",
        "operation",
        "resource",
        "sub_resource",
        "uid",
    )

    def __init__(
        self,
        *,
        uid: str = "",
        operation: str = CREATE,
        namespace: str = "",
        name: str = "",
        kind: GroupVersionKind | None = None,
        resource: GroupVersionResource | None = None,
        sub_resource: str = "",
        dry_run: bool = False,
        document: Document | None = None,
        raw_old_object: bytes | msgspec.Raw = b"",
        raw_user_info: bytes | msgspec.Raw = b"",
        explanation: Explanation | None = None,
    ) -> None:
        self.uid = uid
        self.operation = operation
        self.namespace = self.effective_namespace = namespace
        self.name = name
        self.kind = kind or GroupVersionKind()
        self.resource = resource or GroupVersionResource()
        self.sub_resource = sub_resource
        self.dry_run = dry_run
        self.document = document
        self.names_namespace = document is not None and bool(document.get(_NAMESPACE))
        self.explanation = explanation
        self._raw_old_object = raw_old_object
        self._raw_user_info = raw_user_info
        self._objects: dict[tuple[str, type[Any]], Any] = {}
        self._exact: dict[Path, Quantity] = {}
        self._reread = False

    def take(self, document: Document) -> None:
        """Take the object as sent."""
        self.document = document
        own = document.get(_NAMESPACE)
        self.names_namespace = bool(own)
        self.namespace = self.effective_namespace = own or self.namespace

    def object(self, type_: type[T]) -> T:
        """Return the object in its present state. Raises DecodeError, LookupError where there is none."""
        if self.document is None:
            raise LookupError("the request has no object")
        if self.document.changed:
            return _decode(type_, msgspec.json.encode(self.document.raw))
        known: T | None = self._objects.get(("object", type_))
        if known is None:
            raw = msgspec.json.encode(self.document.raw)
            known = self._objects["object", type_] = _decode(type_, raw)
        return known

    def old_object(self, type_: type[T]) -> T:
        """Return the object before an UPDATE or DELETE. Raises DecodeError, LookupError where none."""
        raw = self.raw_old_object
        if not raw:
            raise LookupError("the request has no oldObject")
        known: T | None = self._objects.get(("oldObject", type_))
        if known is None:
            known = self._objects["oldObject", type_] = _decode(type_, raw)
        return known

    def show(self, object_: Any) -> None:
        """Replace the object of that type that later validating handlers see.

        The API server still stores the object as sent.
        """
        self._objects["object", type(object_)] = object_

    @property
    def raw_old_object(self) -> bytes:
        """The JSON text of the object before an UPDATE or DELETE, empty where there is none."""
        raw = bytes(self._raw_old_object)
        return b"" if raw == b"null" else raw

    @property
    def user_info(self) -> UserInfo:
        """The user who makes the request. Raises DecodeError."""
        raw = bytes(self._raw_user_info)
        return decode(UserInfo, raw) if raw and raw != b"null" else UserInfo()

    # Go handlers pass quantities to each other in memory, where a quantity also records whether it keeps the
    # text that it was parsed from. Koordinator's extended-resource-spec compares that too.

    def quantity(self, path: Path, wire: str | int | float | None) -> Quantity:
        """Return the quantity at a path whose wire value is `wire`, in the form that Go code would have."""
        return self._exact.get(path) or _read(wire, self._reread)

    @property
    def has_plain_amounts(self) -> bool:
        """Whether every quantity has the form of its wire value."""
        return not self._exact and not self._reread

    def note_quantity(self, path: Path, quantity: Quantity) -> None:
        """Record the form of a quantity that a handler writes at a path, for later handlers."""
        self._exact[path] = quantity

    def reread(self) -> None:
        """Record that the object was serialized: every quantity now has its canonical text."""
        self._exact.clear()
        self._reread = True


def _read(wire: str | int | float | None, reread: bool) -> Quantity:
    if not reread:
        return from_wire(wire)
    return _reread_text(wire) if type(wire) is str else parse(str(from_wire(wire)))


@cached("reread_quantities", 4 << 20, text_size)
def _reread_text(wire: str) -> Quantity:
    return parse(str(from_wire(wire)))


def _decode(type_: type[T], raw: bytes) -> T:
    """Decode an object. A pod with nulls is read as Go reads it: a null label, say, is an empty one."""
    try:
        return decoder(type_).decode(raw)
    except MALFORMED:
        if type_ is not Pod:
            return decode(type_, raw)
        return decode(type_, typed.canonical("Pod", typed.check("Pod", raw)))


class RandomSource(Protocol):
    """A source of random numbers, such as `random.Random`."""

    def randint(self, a: int, b: int, /) -> int:
        """Return an integer from a to b, both included."""
        ...


@dataclass
class Handle:
    """What handlers may use: the known state of the cluster, the gates, time and randomness.

    `client` writes to the API server; it is None where nothing may be written (offline, in explanations).
    `pre_enqueue_gates` returns the scheduling gates that a new pod needs besides its own, given the name of
    its scheduler and a callable that reads the pod; None where no scheduler profile has a plugin that needs
    any.
    """

    cluster: Cluster
    gates: FeatureGates
    rng: RandomSource
    clock: Clock = field(default_factory=SystemClock)
    client: Client | None = None
    pre_enqueue_gates: Callable[[str, Callable[[], Pod]], Sequence[str]] | None = None


class Handler(BasePlugin, ABC):
    """The declarations of all kinds of handlers.

    `name` and `path` together identify a handler (`mutate-pod.ClusterColocationProfile`); its entry point has
    that name. It runs if the gate `feature` is on and the gate `disabled_by` is off; gates are read once, at
    the start. `needs` are the handler's needs besides the objects that it follows.
    """

    metric_name: ClassVar[str] = ""
    """Its name in metrics, where that differs from `name`."""
    path: ClassVar[str]
    disabled_by: ClassVar[str | None] = None
    handle: Handle

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)

    @classmethod
    def identity(cls) -> str:
        """Return the handler's name in configuration files."""
        return f"{cls.path.strip('/').replace('/', '.')}.{cls.name}"

    @classmethod
    def is_enabled(cls, gates: FeatureGates) -> bool:
        """Whether the handler's gates enable it."""
        if cls.feature is not None and not gates.enabled(cls.feature):
            return False
        return cls.disabled_by is None or not gates.enabled(cls.disabled_by)


class MutatingHandler(Handler):
    """A handler that mutates the object."""

    @abstractmethod
    def mutate(self, request: Request, document: Document) -> None:
        """Mutate the document.

        Called in the order of the chain; each handler sees the changes of those before it. Raise `Denied` or
        `Errored` to refuse: the chain ends and no change of any handler is sent. Any other exception is a bug
        and refuses with status 500.
        """


class ValidatingHandler(Handler):
    """A handler that only validates."""

    @abstractmethod
    def validate(self, request: Request) -> None:
        """Return if the request is valid; raise `Denied` or `Errored` if not. Change nothing."""


class AsyncMutatingHandler(Handler):
    """A handler that mutates the object and may wait."""

    @abstractmethod
    async def mutate(self, request: Request, document: Document) -> None:
        """Mutate the document, as `MutatingHandler.mutate` does.

        Other requests are handled while this one waits. It is cancelled when the client disconnects: what it
        has changed elsewhere by then must be consistent. A dry run (`request.dry_run`) changes nothing
        anywhere and does not wait.
        """


class AsyncValidatingHandler(Handler):
    """A handler that only validates and may wait."""

    @abstractmethod
    async def validate(self, request: Request) -> None:
        """Return or raise as `ValidatingHandler.validate` does; for waiting, see `AsyncMutatingHandler`."""
