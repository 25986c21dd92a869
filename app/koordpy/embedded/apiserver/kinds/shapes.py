"""The fields of built-in kinds: unknown ones are dropped, and reported on request.

The field lists are those of strategic merge patch (`koordpy.api.patch_types`). Kinds that are not listed
there keep all fields.
"""

from functools import lru_cache
from typing import Any

from koordpy.api.patch_types import patch_types

from ..errors import bad_request

Document = dict[str, Any]


class Shape:
    """The fields of one type, with the shape of those that have fields themselves."""

    __slots__ = ("fields", "lists", "name")

    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[str, Shape | None] = {}
        self.lists: set[str] = set()


@lru_cache(maxsize=1)
def _shapes() -> dict[str, Shape]:
    known = patch_types()
    shapes = {name: Shape(name) for name in known}
    for name, type_ in known.items():
        shape = shapes[name]
        for field in type_.fields:
            shape.fields[field.name] = shapes.get(field.type) if field.type else None
            if field.is_list:
                shape.lists.add(field.name)
    return shapes


def shape_of(kind: str) -> Shape | None:
    """Return the shape of a kind or type, or None if its fields are not known."""
    return _shapes().get(kind)


def tidy(value: Document, shape: Shape, path: str, unknown: list[str]) -> Document:
    """Return a document with the fields of its shape only, and without nulls.

    The paths of other fields are added to `unknown`. Raises ApiError (400) if there is another type in place
    of an object or a list.
    """
    fields, lists = shape.fields, shape.lists
    result: Document = {}
    for name, item in value.items():
        if name not in fields:
            unknown.append(f"{path}{name}")
            continue
        if item is None:
            continue
        inner = fields[name]
        if name in lists:
            if inner is None and isinstance(item, str):
                pass  # a list of bytes is a text in base64
            elif not isinstance(item, list):
                raise _mismatch(item, f"{shape.name}.{path}{name}", f"[]{inner.name if inner else ''}")
            elif inner is not None:
                item = [_inner(part, inner, f"{path}{name}[{i}].", unknown) for i, part in enumerate(item)]
        elif inner is not None:
            item = _inner(item, inner, f"{path}{name}.", unknown)
        elif isinstance(item, dict):
            item = without_nulls(item)
        if item == [] or (item == {} and inner is None):
            continue  # empty lists and maps are left out, as in Go's `omitempty`
        result[name] = item
    return result


def _inner(item: Any, shape: Shape, path: str, unknown: list[str]) -> Any:
    if isinstance(item, dict):
        return tidy(item, shape, path, unknown)
    if item is None:
        return {}
    raise _mismatch(item, path[:-1], shape.name)


def _mismatch(item: Any, where: str, wanted: str) -> Exception:
    found = {dict: "object", list: "array", str: "string", bool: "bool"}.get(type(item), "number")
    return bad_request(f"json: cannot unmarshal {found} into Go struct field {where} of type {wanted}")


def without_nulls(value: Document) -> Document:
    """Return a free-form map without members that are null."""
    return {
        name: without_nulls(item) if isinstance(item, dict) else item
        for name, item in value.items()
        if item is not None
    }
