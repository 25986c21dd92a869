"""Common parts of the three patch formats: their error, copying, and equality by JSON type.

Patches work on decoded JSON (dicts, lists, strings, numbers, booleans, None), as returned by
`msgspec.json.decode` and `json.loads`. An int and a float are different values, as `1` and `1.0` are
different JSON texts; a caller that must distinguish other spellings of a number decodes numbers as
`decimal.Decimal`.
"""

from typing import Any


class PatchError(ValueError):
    """A patch that cannot be applied. `code` is the HTTP status that kube-apiserver answers with."""

    def __init__(self, message: str, code: int = 422) -> None:
        super().__init__(message)
        self.code = code


_SCALARS = frozenset({str, int, float, bool, type(None)})


def clone(value: Any) -> Any:
    """Return a copy of a JSON value that shares no object or list with it."""
    if isinstance(value, dict):
        return {key: item if type(item) in _SCALARS else clone(item) for key, item in value.items()}
    if isinstance(value, list):
        return [item if type(item) in _SCALARS else clone(item) for item in value]
    return value


def equal(left: Any, right: Any) -> bool:
    """Return whether two JSON values are the same, distinguishing `1`, `1.0` and `true`."""
    if left is right:
        return True
    kind = type(left)
    if kind is not type(right):
        return False
    if kind is str:
        return bool(left == right)
    if isinstance(left, dict):
        return left.keys() == right.keys() and all(map(equal, left.values(), map(right.__getitem__, left)))
    if isinstance(left, list):
        return len(left) == len(right) and all(map(equal, left, right))
    return bool(left == right)


def describe(value: Any) -> str:
    """Name a value's JSON type for an error message."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "a boolean"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    return "a string" if isinstance(value, str) else "a number"
