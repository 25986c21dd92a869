"""Merges one strategy over another as Koordinator does: by decoding the upper one's JSON onto the lower.

The upper one takes precedence. Objects are merged field by field, lists of objects position by position and
truncated to the upper one's length; other lists and the values of maps are replaced. Source: Koordinator,
`pkg/util/utils.go` (`MergeCfg`).
"""

from typing import Any, TypeVar

import msgspec

from .strategy import Field, Strategy, fields_of

S = TypeVar("S", bound=Strategy)


def merge(lower: S, upper: S | None) -> S:
    """Return a strategy with the values of `upper`, and of `lower` where it has none."""
    if upper is None:
        return lower
    changes: dict[str, Any] = {}
    for field in fields_of(type(upper)).values():
        value = getattr(upper, field.attribute)
        if not _is_unset(field, value):
            changes[field.attribute] = _merged(getattr(lower, field.attribute), value)
    return msgspec.structs.replace(lower, **changes) if changes else lower


def _is_unset(field: Field, value: Any) -> bool:
    """Return whether Go omits the value when encoding; an empty text behind a pointer is written."""
    return value is None or (isinstance(value, str | list | dict) and not value and not field.is_pointer)


def _merged(lower: Any, upper: Any) -> Any:
    if isinstance(upper, Strategy):
        return merge(lower, upper) if lower is not None else upper
    if isinstance(upper, dict):
        return {**lower, **upper} if lower else upper
    if isinstance(upper, list) and isinstance(upper[0], Strategy):
        return [_merged(old, new) for old, new in zip(lower, upper, strict=False)] + upper[len(lower) :]
    return upper


def merge_json(lower: Any, upper: Any) -> Any:
    """Return a JSON value merged over another by the same rules, for extensions without a type here.

    Null means absent; objects are merged at every depth.
    """
    if upper is None:
        return lower
    if isinstance(lower, dict) and isinstance(upper, dict):
        return {**lower, **{key: merge_json(lower.get(key), value) for key, value in upper.items()}}
    if isinstance(lower, list) and isinstance(upper, list):
        rest = upper[len(lower) :]
        return [merge_json(old, new) for old, new in zip(lower, upper, strict=False)] + rest
    return upper
