"""State that is worked out from the objects of a cluster and kept current as they change.

Quota trees, ledgers of devices, counts of pods, columns of loads: all of that is a `DerivedState`, made once
for everything that reads it by `Cluster.shared`. So profiles, plugins and parts of a process never keep two
accounts of the same thing, and these rules hold:

- It is made on the first request, from the objects that are known by then: `follow` replays them.
- Its handlers run before those of all others, and after those of the states that it builds on. What reads it
  in a handler of its own never sees it behind the stores.
- `snapshot` shows what it has derived. As long as nothing is `unconfirmed`, that equals the snapshot of a
  state made anew from the same objects, whatever came before and in whichever order. A test makes sure of it
  for every subclass.
- What-ifs never change it. Where an answer depends on the pods of nodes it takes a `NodeSet`, whose overlay
  shows other pods than the table does.
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
"""Plain values that compare equal. Nodes, pods and the like are in it by name or UID, never by row or
position: two states that were made from the same objects in another order have equal snapshots."""


class DerivedState(ABC):
    """Subclasses take the cluster and perhaps parameters, call this constructor first, and then `follow`.

    Parameters are values that compare equal (frozen dataclasses, models of arguments) and never change.
    States with equal parameters are one; one with others is another, which follows the stores on its own:
    pass as few parameters as decide what is kept, not all arguments of a plugin.
    """

    one_per_cluster: ClassVar[bool] = False
    """Whether a cluster has one of these only, as a ledger must be: a request for one with other parameters
    raises ConflictingParameters."""

    settled_by: ClassVar[tuple[type[KubeObject], ...]] = ()
    """Types whose objects must be seen again before a snapshot equals that of a rebuild, because something
    holds until such an object itself changes. Say in the docstring what that is."""

    def __init__(self, cluster: "Cluster") -> None:
        self.cluster = cluster
        self._ends: list[Callable[[], None]] = []
        cluster.states.begun(self)

    @abstractmethod
    def snapshot(self) -> Snapshot:
        """Return what is derived from objects, by name, in values that compare equal."""

    def unconfirmed(self) -> Collection[str]:
        """Return what is kept that no object shows yet: assumed pods, say, by UID.

        It becomes confirmed by an object, or is taken back. Until then it may be part of the snapshot.
        """
        return ()

    def follow(
        self,
        type_: type[T],
        add: Callable[[T], None] | None = None,
        update: Callable[[T, T], None] | None = None,
        delete: Callable[[T], None] | None = None,
        *,
        late: bool = False,
    ) -> Store[T]:
        """Follow objects of a type and return their store; those that are known are replayed through `add`.

        With `late` the type may be one that no part of the process waits for (`Cluster.late_store`).
        """
        store = self.cluster.late_store(type_) if late else self.cluster.store(type_)
        subscription = store.subscribe(add, update, delete, first=True)
        self.at_close(lambda: store.unsubscribe(subscription))
        return store

    def at_close(self, end: Callable[[], None]) -> None:
        """Call something when the state is closed; what was registered last is called first."""
        self._ends.append(end)

    def close(self) -> None:
        """Follow nothing any more. Closing twice does no harm."""
        while self._ends:
            self._ends.pop()()
