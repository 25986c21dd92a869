"""All that is known of the cluster, without I/O.

`Informers` feeds it from an API server; tests, simulations and offline commands feed it by hand. Plugins
read it: asking for a type's store before the start is what makes the informers watch that type.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.lib.clock import Clock, SystemClock

from .nodes import NodeTable
from .pod_counts import PodCounts
from .store import Store

T = TypeVar("T", bound=KubeObject)


class Cluster:
    """Stores by type, and the node table that follows nodes and pods before any other handler."""

    def __init__(self, clock: Clock | None = None) -> None:
        self.clock: Clock = clock or SystemClock()
        self._stores: dict[type[KubeObject], Store[Any]] = {}
        self._transforms: dict[type[KubeObject], Callable[[Any], Any]] = {}
        self._nodes: NodeTable | None = None
        self._pod_counts: PodCounts | None = None
        self._on_late: Callable[[Store[Any]], None] | None = None

    def store(self, type_: type[T]) -> Store[T]:
        """Return the store of a type, making it on first use."""
        known = self._stores.get(type_)
        if known is None:
            known = self._stores[type_] = Store(type_)
            known.transform = self._transforms.get(type_)
        return cast(Store[T], known)

    def transform(self, type_: type[T], transform: Callable[[T], T]) -> None:
        """Have all objects of a type transformed before they are kept, whoever asks for them and when.

        Call it before any is known. It does not make the type followed.
        """
        self._transforms[type_] = transform
        if type_ in self._stores:
            self._stores[type_].transform = transform

    def late_store(self, type_: type[T]) -> Store[T]:
        """Return the store of a type that only some processes ever read.

        Asked for after the informers' start, the type is followed from then on. Nothing waits for it: its
        store is empty until the first list has come.
        """
        store = self._stores.get(type_)
        if store is None:
            store = self.store(type_)
            store.late = True
            if self._on_late is not None:
                self._on_late(store)
        return store

    def on_late_store(self, follow: Callable[[Store[Any]], None] | None) -> None:
        """Have late stores followed; None ends it."""
        self._on_late = follow

    @property
    def stores(self) -> list[Store[Any]]:
        """The stores that somebody asked for."""
        return list(self._stores.values())

    @property
    def nodes(self) -> NodeTable:
        """The node table. Its first use subscribes to nodes and pods, so ask for it before them."""
        if self._nodes is None:
            table = self._nodes = NodeTable()
            self.store(Node).subscribe(
                on_add=table.set_node,
                on_update=lambda _, node: table.set_node(node),
                on_delete=lambda node: table.remove_node(node.metadata.name),
            )
            self.store(Pod).subscribe(
                on_add=table.observe_pod,
                on_update=lambda _, pod: table.observe_pod(pod),
                on_delete=lambda pod: table.remove_pod(pod.metadata.uid),
            )
        return self._nodes

    @property
    def pod_counts(self) -> PodCounts:
        """How many pods of which labels are on the nodes. Counting begins with the first use."""
        if self._pod_counts is None:
            self._pod_counts = PodCounts(self.nodes)
        return self._pod_counts

    @property
    def synced(self) -> bool:
        """Whether every store has been filled once since the start, late ones aside."""
        return all(store.synced or store.late for store in self._stores.values())
