"""The in-memory view of the cluster, without I/O.

`Informers` feeds it from an API server; tests, simulations and offline commands feed it directly. Plugins
read it: requesting a type's store before the start makes the informers watch that type.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from koordpy.api.meta import KubeObject
from koordpy.lib.clock import Clock, SystemClock

from .derived_state import DerivedState
from .selector import EVERYTHING, Selector
from .shared_states import SharedStates
from .store import Store

if TYPE_CHECKING:
    from .kubernetes_gangs import KubernetesGangs
    from .nodes import NodeTable

P = ParamSpec("P")
S = TypeVar("S", bound=DerivedState)
T = TypeVar("T", bound=KubeObject)


class Cluster:
    """Stores by type, and what is derived from their objects, such as the node table."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._stores: dict[type[KubeObject], Store[Any]] = {}
        self._transforms: dict[type[KubeObject], Callable[[Any], Any]] = {}
        self._nodes: NodeTable | None = None
        self.states = SharedStates(self)
        """The states made by `shared` so far."""
        self._on_late: Callable[[Store[Any]], None] | None = None
        self.kubernetes_gangs: KubernetesGangs | None = None
        """Where something schedules: whose the gangs of Kubernetes' own API are."""

    def store(self, type_: type[T], *, selector: Selector = EVERYTHING, optional: bool = False) -> Store[T]:
        """Return the store of a type, making it on first use.

        `selector` restricts the objects that the caller wants (the pods of one node, say): the store has
        these, and more if others request more. `optional` means that the caller works without the type if the
        API server does not serve it. Raises RuntimeError for more than is already followed.
        """
        return self._wanted(type_, selector, optional=optional, late=False)

    def _wanted(self, type_: type[T], selector: Selector, *, optional: bool, late: bool) -> Store[T]:
        known = self._stores.get(type_)
        if known is None:
            known = self._stores[type_] = Store(type_, selector, optional=optional, late=late)
            known.transform = self._transforms.get(type_)
        else:
            known.want(selector, optional=optional, late=late)
        return cast(Store[T], known)

    def transform(self, type_: type[T], transform: Callable[[T], T]) -> None:
        """Transform all objects of a type before they are stored, for all readers.

        Call it before any object is known. It does not cause the type to be followed.
        """
        self._transforms[type_] = transform
        if type_ in self._stores:
            self._stores[type_].transform = transform

    def transformed(self, obj: T) -> T:
        """Return the transformed form of an object from the API server."""
        transform = self._transforms.get(type(obj))
        return obj if transform is None else cast(T, transform(obj))

    def late_store(self, type_: type[T], *, selector: Selector = EVERYTHING) -> Store[T]:
        """Return the store of a type that only some processes ever read.

        Requested after the informers' start, the type is followed from then on. Readiness does not wait for
        it: its store is empty until the first list is complete.
        """
        is_new = type_ not in self._stores
        store = self._wanted(type_, selector, optional=not is_new, late=True)
        if is_new and self._on_late is not None:
            self._on_late(store)
        return store

    def on_late_store(self, follow: Callable[[Store[Any]], None] | None) -> None:
        """Set the function that follows late stores; None removes it."""
        self._on_late = follow

    @property
    def stores(self) -> list[Store[Any]]:
        """The requested stores."""
        return list(self._stores.values())

    @property
    def nodes(self) -> "NodeTable":
        """The node table. Nodes and pods are followed from its first use on."""
        if self._nodes is None:
            from .nodes import NodeTable  # of a process that schedules; it needs NumPy

            self._nodes = self.shared(NodeTable)
        return self._nodes

    def shared(self, type_: Callable[Concatenate["Cluster", P], S], *args: P.args, **kwargs: P.kwargs) -> S:
        """Return the derived state of a type with equal parameters, making it on the first request.

        All readers share it: `cluster.shared(PodCounts)`. Like stores, request states before the informers
        start if no other component follows their types. Raises ConflictingParameters if the cluster has one
        of that type with other parameters and can have only one.
        """
        return self.states.get(type_, args, kwargs)

    def close(self) -> None:
        """Close all derived state; the stores keep their objects."""
        self.states.close()

    @property
    def synced(self) -> bool:
        """Whether every store, except late ones, has been filled once since the start."""
        return all(store.synced or store.late for store in self._stores.values())
