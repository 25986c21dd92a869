"""The base of all strategies, and the metadata of their fields.

A class mirrors Koordinator's Go struct. A pointer field in Go is None by default, an omitempty text is "", so
unset fields are not written; an embedded struct in Go is a base class.
"""

import types
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

import msgspec

from .rules import Form, Rule, go_name


class Strategy(msgspec.Struct, rename="camel", omit_defaults=True, kw_only=True, gc=False, frozen=True):
    """A strategy, or a part of one. Decoding checks types only; `validation` checks values."""


@dataclass(frozen=True)
class Field:
    """A field of a struct.

    `struct` is the type of the object, or of each object of a list or map, if the field holds objects;
    `scalar` is bool or float if it holds these. `is_pointer` is set if unset and empty differ in Go.
    `embedded` is the Go name of the embedded struct that declares the field, "" if it is the struct's own.
    """

    attribute: str
    name: str
    container: type[Any] | None
    struct: type[msgspec.Struct] | None
    scalar: type[Any] | None
    is_pointer: bool
    form: Form | None
    rules: tuple[Rule, ...]
    embedded: str

    @property
    def go_name(self) -> str:
        """The name in messages."""
        return go_name(self.name)


@cache
def fields_of(type_: type[msgspec.Struct]) -> Mapping[str, Field]:
    """Return the fields of a struct by their names in JSON, in the order of their declaration."""
    hints = get_type_hints(type_, include_extras=True)
    fields = {}
    for info in msgspec.structs.fields(type_):
        container, item, metadata = _contents(hints[info.name])
        fields[info.encode_name] = Field(
            info.name,
            info.encode_name,
            container,
            item if isinstance(item, type) and issubclass(item, msgspec.Struct) else None,
            item if item in (bool, float) else None,
            info.default is None,
            next((mark for mark in metadata if isinstance(mark, Form)), None),
            tuple(mark for mark in metadata if isinstance(mark, Rule)),
            _embedded(type_, info.name),
        )
    return fields


@cache
def names_of(type_: type[msgspec.Struct]) -> frozenset[str]:
    """Return the names of a struct's fields in JSON."""
    return frozenset(fields_of(type_))


def _contents(hint: Any, container: type[Any] | None = None) -> tuple[type[Any] | None, Any, tuple[Any, ...]]:
    """Return the container (list or dict) of a type, the type of its items, and the latter's annotations."""
    metadata: tuple[Any, ...] = ()
    origin = get_origin(hint)
    if origin in (Union, types.UnionType):
        choices = [choice for choice in get_args(hint) if choice is not types.NoneType]
        return _contents(choices[0], container) if len(choices) == 1 else (container, None, ())
    if origin is Annotated:
        metadata = hint.__metadata__
        found, item, inner = _contents(hint.__origin__, container)
        return found, item, (*inner, *metadata)
    if origin in (list, dict):
        return _contents(get_args(hint)[-1], origin)
    return container, hint, ()


def _embedded(type_: type[msgspec.Struct], attribute: str) -> str:
    owner = next(
        base
        for base in reversed(type_.__mro__)
        if issubclass(base, msgspec.Struct) and attribute in base.__struct_fields__
    )
    return "" if owner is type_ else owner.__name__
