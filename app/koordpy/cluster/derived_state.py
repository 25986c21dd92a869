"""State computed from the objects of a cluster and kept current as they change.

Quota trees, device allocations, counts of pods, columns of loads: each is a `DerivedState`, created once for
all readers by `Cluster.shared`. So profiles, plugins and parts of a process never keep two copies of the same
state, and these rules hold:

- It is created on the first request, from the objects known by then: `follow` replays them.
- Its handlers run before all others, and after those of the states that it builds on. A handler that reads it
never sees it behind the stores.
- `snapshot` shows what it has derived. As long as nothing is `unconfirmed`, it equals the snapshot of a state
rebuilt from the same objects, regardless of earlier events and their order. A test verifies this for every
subclass.
- What-ifs never change it. If an answer depends on the pods of nodes it takes a `NodeSet`, whose overlay may
show other pods than the table.
- It ends with its cluster, or by `close`, and follows nothing afterwards.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any, ClassVar, TypeVar

from koordpy.api.meta import KubeObject

from .store import Store

if TYPE_CHECKING:
    from .cluster import Cluster

T = TypeVar("T", bound=KubeObject)

Snapshot = dict[str, Any]
"""Plain values that compare equal. Objects are identified by name or UID, never by row or position: two
states made from the same objects in another order have equal snapshots."""


class DerivedState(ABC):
    """Subclasses take the cluster and optional parameters, call this constructor first, and then `follow`.

    Parameters are values that compare equal (frozen dataclasses, models of arguments) and never change.
    States with equal parameters are the same object; other parameters make another state, which follows the
    stores independently: pass only parameters that affect the state, not all arguments of a plugin.
    """

    one_per_cluster: ClassVar[bool] = False
    """Whether a cluster has only one of these, as with allocations: a request with other parameters raises
    ConflictingParameters."""

    settled_by: ClassVar[tuple[type[KubeObject], ...]] = ()
    """Types whose objects must be seen again before a snapshot equals that of a rebuild, because part of the
    state stays until such an object changes. The docstring must name that part."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster
        self._ends: list[Callable[[], None]] = []
        cluster.states.begun(self)

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return the derived state by name, as values that compare equal."""

    def unconfirmed(self) -> Collection[str]:
        """Return what no object shows yet: assumed pods, say, by UID.

        An object confirms it, or it is reverted. Until then it may be part of the snapshot.
        """
        return ()

    def refresh_some(self, at_most: int) -> bool:
        """Do a part of what is put off until the next reading: rows, at most so many.

        Returns whether anything is left. States that compute everything at once put nothing off.
        """
        return False

    def follow(
        self,
        type_: type[T],
        add: Callable[[T], None] | None = None,
        update: Callable[[T, T], None] | None = None,
        delete: Callable[[T], None] | None = None,
        *,
        late: bool = False,
    ) -> Store[T]:
        """Follow objects of a type and return their store; known objects are replayed through `add`.

        With `late` the type may be one that no part of the process waits for (`Cluster.late_store`).
        """
        store = self.cluster.late_store(type_) if late else self.cluster.store(type_)
        subscription = store.subscribe(add, update, delete, first=True)
        self.at_close(lambda: store.unsubscribe(subscription))
        return store

    def at_close(self, end: Callable[[], None]) -> None:
        """Register a function to call when the state is closed; the last registered is called first."""
        self._ends.append(end)

    def close(self) -> None:
        """Stop following. Closing twice is allowed."""
        while self._ends:
            self._ends.pop()()
