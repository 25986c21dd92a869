"""Checks that derived state equals a rebuild from the same objects, after any events.

`check_rebuild` drives random events through the stores: objects are created, changed, deleted, created again
under the same name, and relisted with gaps and in another order, while pods are assumed and forgotten and
what-ifs are run. It also works for the states of plugins:

    def test_loads_can_be_rebuilt() -> None:
        check_rebuild(lambda cluster: cluster.shared(Loads, LoadSettings()))
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from copy import deepcopy
from random import Random
from typing import Any, Generic, TypeVar

import msgspec

from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.node_set import NodeSet
from koordpy.cluster.sandbox import Sandbox
from koordpy.cluster.sharing import Sharing
from koordpy.cluster.store import Store
from koordpy.lib.clock import FakeClock

from .footprint import footprint
from .objects import NOW
from .random_objects import KINDS, Kind, uid_of

S = TypeVar("S", bound=DerivedState)

KEPT_BYTES = 8192
"""The allowed growth of a state after many deleted objects: caches, spare capacity of dicts."""

Assume = Callable[[S, Random], Callable[[], None] | None]
"""Makes a state assume something as a plugin would, and returns a function that reverts or confirms it; None
if there is nothing to assume."""

Read = Callable[[S, NodeSet], object]
"""Returns a state's answers for nodes, by name, as values that compare equal."""


def check_rebuild(
    make: Callable[[Cluster], S],
    *,
    kinds: Iterable[Kind] = (),
    assume: Assume[S] | None = None,
    read: Read[S] | None = None,
    seeds: Iterable[int] = range(10),
    steps: int = 60,
) -> None:
    """Drive random events, one history per seed. Raises AssertionError, with the shortest one that differs.

    `kinds` are random objects of types that `koordpy.testing.random_objects` does not have. A state that
    overrides `unconfirmed` needs `assume`, one whose answers depend on the pods of a NodeSet needs `read`.
    """
    own = tuple(kinds)
    for seed in seeds:
        try:
            _History(make, Random(seed), own, assume, read).run(steps)
        except AssertionError:
            for fewer in range(1, steps + 1):
                _History(make, Random(seed), own, assume, read).run(fewer)
            raise


def check_nothing_is_kept(make: Callable[[Cluster], DerivedState], *, kinds: Iterable[Kind] = ()) -> None:
    """Create and delete many objects, always with new names, and measure what the state still holds.

    Raises AssertionError if that grows with the number of objects.
    """
    cluster, rng, sharing = Cluster(FakeClock(NOW)), Random(0), Sharing()
    state, known = make(cluster), _known_kinds(kinds)
    held: list[int] = []
    for wave in range(12):
        for number in range(200):
            store: Store[Any] = rng.choice(cluster.stores)
            kind = known[store.type]
            key = rng.choice(kind.keys)
            if rng.random() < 0.7:
                key = f"{key}-{wave}-{number}"
            made = kind.random(rng, key, f"{wave}-{number}", number + 1)
            sharing.of(kind.type)(made)
            store.apply(made)
        for store in cluster.stores:
            store.replace(())
        held.append(next(size for shared, size in footprint(cluster).items() if shared.state is state))
    if max(held[3:]) > max(held[:3]) + KEPT_BYTES:
        raise AssertionError(f"{type(state).__name__} keeps something of objects that are gone: {held} bytes")


def _known_kinds(more: Iterable[Kind]) -> Mapping[type[KubeObject], Kind]:
    return {**KINDS, **{kind.type: kind for kind in more}}


class _History(Generic[S]):
    """One cluster with a state, and its events."""

    def __init__(
        self,
        make: Callable[[Cluster], S],
        rng: Random,
        kinds: Iterable[Kind],
        assume: Assume[S] | None,
        read: Read[S] | None,
    ) -> None:
        self._make, self._rng, self._assume, self._read = make, rng, assume, read
        self.cluster = Cluster(FakeClock(NOW))
        self._known_kinds = _known_kinds(kinds)
        self.happened: list[str] = []
        self._undo: list[Callable[[], None]] = []
        self._numbers: defaultdict[tuple[type[KubeObject], str], int] = defaultdict(int)
        self._version = 0
        self._kinds = self._kinds_followed()
        if rng.random() < 0.3:  # it is requested only once there are objects
            for _ in range(10):
                self._change()
        self.state = make(self.cluster)

    def _kinds_followed(self) -> Sequence[Kind]:
        probe = Cluster(FakeClock(NOW))
        self._make(probe)
        missing = [store.type.__name__ for store in probe.stores if store.type not in self._known_kinds]
        if missing:
            raise AssertionError(f"no random objects of {', '.join(missing)}: pass kinds=[Kind(...)]")
        return [self._known_kinds[store.type] for store in probe.stores]

    def run(self, steps: int) -> None:
        """Drive events, and compare occasionally. Raises AssertionError."""
        for number in range(1, steps + 1):
            roll = self._rng.random()
            if roll < 0.15 and self._assume is not None:
                self._begin_to_assume()
            elif roll < 0.25:
                self._try_what_if()
            else:
                self._change()
            if number % 20 == 0 or number == steps:
                self._compare()

    # --- events ----------------------------------------------------------------------------------

    def _change(self) -> None:
        kind = self._rng.choice(self._kinds)
        store: Store[Any] = self.cluster.store(kind.type)
        key, what = self._rng.choice(kind.keys), self._rng.random()
        if what < 0.6:
            store.apply(self._random(kind, store, key))
        elif what < 0.65 and key in store:
            self._note("again", store.by_key(key))
            store.apply(store.by_key(key))
        elif what < 0.9:
            self.happened.append(f"gone: {kind.type.__name__} {key}")
            store.discard(key)
        else:
            self._list_anew(kind, store)

    def _random(self, kind: Kind, store: Store[Any], key: str) -> KubeObject:
        """Return a random object: a new one, a change, or another one that took the name of the last."""
        known = store.by_key(key)
        if known is None or self._rng.random() < 0.15:
            self._numbers[kind.type, key] += 1
        self._version += 1
        uid = uid_of(kind.type, key, self._numbers[kind.type, key])
        made = kind.random(self._rng, key, uid, self._version)
        self._note("put", made)
        return made

    def _list_anew(self, kind: Kind, store: Store[Any]) -> None:
        """Relist in any order, as after a lost watch: some objects were deleted, changed or created."""
        self.happened.append(f"list of {kind.type.__name__}:")
        listed = []
        for key in kind.keys:
            fate, known = self._rng.random(), store.by_key(key)
            if known is not None and fate < 0.6:
                listed.append(known)
            elif fate < 0.8:
                listed.append(self._random(kind, store, key))
        self._rng.shuffle(listed)
        self.happened.append(f"  listed {[obj.metadata.key for obj in listed]}")
        store.replace(listed)

    def _begin_to_assume(self) -> None:
        assert self._assume is not None
        if self._undo and self._rng.random() < 0.4:
            self.happened.append("an assumption ends")
            self._undo.pop(self._rng.randrange(len(self._undo)))()
            return
        undo = self._assume(self.state, self._rng)
        if undo is not None:
            self.happened.append(f"assumed, unconfirmed: {sorted(self.state.unconfirmed())}")
            self._undo.append(undo)

    def _try_what_if(self) -> None:
        """Move pods in a sandbox; the state must not change, and its answers must follow the sandbox."""
        before = deepcopy(self.state.snapshot())
        sandbox, places = self._moved(self.cluster.nodes.all())
        if self._read is not None and not self.state.unconfirmed():
            found = self._read(self.state, sandbox.nodes)
            real = self._make(self._cluster_of(self._with_places(places)))
            expected = self._read(real, real.cluster.nodes.all())
            self._expect_none(differences(found, expected), "a what-if differs from the real thing")
        self._expect_none(differences(self.state.snapshot(), before), "a what-if changed the state")

    def _moved(self, nodes: NodeSet) -> tuple[Sandbox, Mapping[str, str]]:
        """Return a sandbox with removed and added pods, and the resulting node of each of them."""
        sandbox = Sandbox(nodes)
        places: dict[str, str] = {}
        for index, row in enumerate(nodes.rows.tolist()):
            gone = [pod for pod in nodes.pods_on(row) if self._rng.random() < 0.3]
            sandbox.take(index, gone)
            places |= {pod.metadata.uid: "" for pod in gone}
        waiting = [pod for pod in self.cluster.store(Pod) if not pod.spec.node_name and not pod.is_terminal]
        for pod in waiting if len(nodes) else ():
            if self._rng.random() < 0.5:
                index = self._rng.randrange(len(nodes))
                sandbox.put(index, pod)
                places[pod.metadata.uid] = nodes.names[index]
        return sandbox, places

    def _with_places(self, places: Mapping[str, str]) -> list[KubeObject]:
        objects: list[KubeObject] = []
        for obj in self._objects():
            if isinstance(obj, Pod) and obj.metadata.uid in places:
                spec = msgspec.structs.replace(obj.spec, node_name=places[obj.metadata.uid])
                obj = msgspec.structs.replace(obj, spec=spec)
            objects.append(obj)
        return objects

    # --- comparing -------------------------------------------------------------------------------

    def _compare(self) -> None:
        """Revert all assumptions, and compare with states created before and after the objects."""
        self._rng.shuffle(self._undo)
        while self._undo:
            self._undo.pop()()
        self.happened.append("compared")
        left = sorted(self.state.unconfirmed())
        self._expect_none([f"{what} is unconfirmed for ever" for what in left], "assumptions are left")
        settle(self.cluster)
        ours = self.state.snapshot()
        for what, state in self._made_anew():
            fresh = state.cluster
            self._expect_none(differences(ours, state.snapshot()), f"differs from a state {what}")
            if self._read is not None:
                found = self._read(self.state, self.cluster.nodes.all())
                expected = self._read(state, fresh.nodes.all())
                self._expect_none(differences(found, expected), f"answers otherwise than a state {what}")

    def _made_anew(self) -> Iterator[tuple[str, S]]:
        """Return states of the same objects, and how each was created."""
        objects, fresh = self._objects(), Cluster(FakeClock(NOW))
        self._fill(fresh, objects)
        state = self._make(fresh)
        settle(fresh)
        yield "made when all objects were there", state
        fresh = Cluster(FakeClock(NOW))
        state = self._make(fresh)
        self._fill(fresh, objects)
        settle(fresh)
        yield "made before the objects came", state
        fresh = Cluster(FakeClock(NOW))
        state = self._make(fresh)
        self._fill(fresh, [obj for obj in objects if not isinstance(obj, Node)])
        settle(fresh)
        self._fill(fresh, [obj for obj in objects if isinstance(obj, Node)])
        yield "made before the objects came, with nodes at the end", state

    def _objects(self) -> list[KubeObject]:
        return [obj for store in self.cluster.stores for obj in store]

    def _cluster_of(self, objects: Iterable[KubeObject]) -> Cluster:
        made = Cluster(FakeClock(NOW))
        self._fill(made, objects)
        return made

    def _fill(self, cluster: Cluster, objects: Iterable[KubeObject]) -> None:
        """Apply objects in any order."""
        shuffled = list(objects)
        self._rng.shuffle(shuffled)
        for obj in shuffled:
            store: Store[Any] = cluster.store(type(obj))
            store.apply(obj)

    def _note(self, what: str, obj: Any) -> None:
        self.happened.append(f"{what}: {type(obj).__name__} {msgspec.json.encode(obj).decode()}")

    def _expect_none(self, found: Sequence[str], problem: str) -> None:
        if found:
            raise AssertionError("\n".join((problem, *found, "after:", *self.happened)))


def settle(cluster: Cluster) -> None:
    """Deliver objects again if states hold something until these change (`settled_by`)."""
    for type_ in {type_ for shared in cluster.states for type_ in shared.state.settled_by}:
        store: Store[Any] = cluster.store(type_)
        for obj in list(store):
            store.put(obj)


def rebuilt(cluster: Cluster) -> Cluster:
    """Return a cluster with the same objects, in which every derived state was rebuilt."""
    fresh = Cluster(cluster.clock)
    for shared in cluster.states:
        shared.on(fresh)
    for store in cluster.stores:
        again: Store[Any] = fresh.store(store.type)
        again.replace(list(store))
    return fresh


def snapshots(cluster: Cluster) -> Snapshot:
    """Return the snapshots of all derived states of a cluster, by their constructor calls."""
    return {str(shared): shared.state.snapshot() for shared in cluster.states}


def differences(ours: Any, theirs: Any, path: str = "") -> list[str]:
    """Return where two snapshots differ, one line each."""
    if isinstance(ours, dict) and isinstance(theirs, dict):
        keys = sorted({*ours, *theirs}, key=str)
        return [
            line
            for key in keys
            for line in differences(ours.get(key, "nothing"), theirs.get(key, "nothing"), f"{path}/{key}")
        ]
    if isinstance(ours, list | tuple) and isinstance(theirs, list | tuple) and len(ours) == len(theirs):
        pairs = enumerate(zip(ours, theirs, strict=True))
        return [line for index, pair in pairs for line in differences(*pair, f"{path}/{index}")]
    return [] if ours == theirs else [f"{path}: {ours}, a rebuild gives {theirs}"]
