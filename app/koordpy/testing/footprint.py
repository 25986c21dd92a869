"""How much memory derived states hold, beyond the objects that the stores keep anyway.

It is worked out by walking all that can be reached from a state, which takes about a second for a million
objects: for tests and reports, not for a metric.
"""

import gc
import sys
from collections.abc import Container, Iterable, Iterator
from types import BuiltinFunctionType, FunctionType, ModuleType
from typing import Any

import msgspec

from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState
from koordpy.cluster.shared_states import Shared
from koordpy.cluster.store import Store

_NOT_HELD = (type, ModuleType, FunctionType, BuiltinFunctionType, Cluster, Store)
"""What outlives a state, or belongs to another owner."""


def footprint(cluster: Cluster) -> dict[Shared, int]:
    """Return the bytes that each derived state of a cluster holds.

    What a state shares with those that it builds on, such as columns of the node table, is counted for it;
    what belongs to objects of stores is counted for none.
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
    """Yield all that is reached for the first time, by id, without going through `others`."""
    waiting = list(roots)
    while waiting:
        obj = waiting.pop()
        if id(obj) in seen or id(obj) in others or isinstance(obj, _NOT_HELD):
            continue
        seen.add(id(obj))
        yield obj
        waiting.extend(_parts(obj))


def _parts(obj: Any) -> Iterable[object]:
    """Return what an object refers to, also where the garbage collector does not ask it."""
    if isinstance(obj, msgspec.Struct):
        return [getattr(obj, name) for name in obj.__struct_fields__]
    if isinstance(obj, DerivedState):
        return [value for name, value in vars(obj).items() if name != "_ends"]
    return gc.get_referents(obj)
