"""The memory of an object and of everything that it refers to."""

import gc
import sys
from collections.abc import Iterable
from enum import Enum
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

import msgspec

_SHARED = (type, ModuleType, FunctionType, BuiltinFunctionType, MethodType, Enum, bool, type(None))
"""Objects that live anyway."""

_LEAVES = frozenset((str, bytes, int, float))


def deep_size(obj: object, most: int) -> int:
    """Return the bytes of an object with all its parts; more than `most` if it has more than that.

    It ends there, so that measuring what is too large to be kept is cheap. Parts that other objects share
    count in full.
    """
    numpy = sys.modules.get("numpy")  # without it there is no array
    array: Any = numpy.ndarray if numpy is not None else type(None)
    seen: set[int] = set()
    waiting = [obj]
    size = 0
    while waiting and size <= most:
        part = waiting.pop()
        if type(part) in _LEAVES:
            size += sys.getsizeof(part)
            continue
        if id(part) in seen or isinstance(part, _SHARED):
            continue
        seen.add(id(part))
        size += part.nbytes + 112 if isinstance(part, array) else sys.getsizeof(part)
        waiting.extend(parts(part))
    return size


def parts(obj: Any) -> Iterable[object]:
    """Return an object's referents, including those that the garbage collector does not track."""
    if isinstance(obj, msgspec.Struct):
        return [getattr(obj, name) for name in obj.__struct_fields__]
    return gc.get_referents(obj)
