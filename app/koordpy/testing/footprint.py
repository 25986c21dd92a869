"""The memory of derived states, beyond the objects that the stores keep anyway.

It is computed by walking all objects reachable from a state, which takes about a second for a million
objects: for tests and reports, not for a metric.
"""

import sys
from collections.abc import Container, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState
from koordpy.cluster.shared_states import Shared
from koordpy.cluster.store import Store
from koordpy.lib.deep_size import parts

_NOT_HELD = (type, ModuleType, FunctionType, BuiltinFunctionType, Cluster, Store)
"""Objects that outlive a state, or belong to another owner."""


def footprint(cluster: Cluster) -> dict[Shared, int]:
    """Return the bytes that each derived state of a cluster holds.

    Memory that a state shares with those that it builds on, such as columns of the node table, is counted for
    it; objects of stores are counted for none.
    """
    seen = _reachable(obj for store in cluster.stores for obj in store)
    states = {id(shared.state) for shared in cluster.states}
    found = {}
    for shared in reversed(tuple(cluster.states)):
        states.discard(id(shared.state))
        found[shared] = sum(map(sys.getsizeof, _walk([shared.state], seen, states)))
    return found


def _reachable(objects: Iterable[object]) -> set[int]:
    seen: set[int] = set()
    for _ in _walk(objects, seen, frozenset()):
        pass
    return seen


def _walk(roots: Iterable[object], seen: set[int], others: Container[int]) -> Iterator[object]:
    """Yield all newly reached objects, by id, without traversing `others`."""
    waiting = list(roots)
    while waiting:
        obj = waiting.pop()
        if id(obj) in seen or id(obj) in others or isinstance(obj, _NOT_HELD):
            continue
        seen.add(id(obj))
        yield obj
        waiting.extend(_parts(obj))


def _parts(obj: Any) -> Iterable[object]:
    """Return an object's referents; of a derived state without the functions that end it."""
    if isinstance(obj, DerivedState):
        return [value for name, value in vars(obj).items() if name != "_ends"]
    return parts(obj)
