"""Kubernetes' typed decoding of a document: the check that admission starts with.

A webhook gets an object as JSON, and koord-manager and kube-apiserver read it into Go structs: a field of a
wrong type is an error, a field that the struct does not have is dropped, null means absent, quantities and
times are converted to canonical text. `check` only tests whether decoding succeeds, and is fast. `canonical`
returns the document as it would be encoded again, to which strategic merge patches are applied.

The structs are those of `patch_types.txt`, completed by `typed_fields`, which covers the types of a Pod.
Source: Kubernetes API 1.35; `k8s.io/apimachinery/pkg/runtime/serializer/json`.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, Any

import msgspec

from koordpy.lib import duration
from koordpy.lib.go_time import parse_rfc_3339

from .patch import describe
from .patch_types import Field, PatchType, patch_types
from .quantity import Quantity, QuantityError, from_wire
from .scheme import MALFORMED, DecodeError
from .typed_fields import KINDS, WRITTEN_EMPTY

Document = dict[str, Any]


class Time(str):
    """Marks fields that hold an RFC 3339 time."""

    __slots__ = ()


class Duration(str):
    """Marks fields that hold a duration as Go writes it."""

    __slots__ = ()


_BOUNDS = {"int32": 1 << 31, "int64": 1 << 63}


# --- check ---------------------------------------------------------------------------------------


def check(kind: str, raw: bytes) -> Document:
    """Return JSON text as a document, unchanged, if it can be decoded as an object of `kind`.

    `kind` is a name in `patch_types.txt`. Raises DecodeError naming the path and what was expected there.
    """
    try:
        _decoder(kind).decode(raw)
        return _UNTYPED.decode(raw)  # type: ignore[no-any-return]
    except msgspec.ValidationError as error:
        raise DecodeError(f"{kind}: {error}") from None
    except MALFORMED as error:
        raise DecodeError(f"{kind}: not JSON: {error}") from None


_UNTYPED = msgspec.json.Decoder()


@lru_cache(maxsize=16)
def _decoder(kind: str) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(_struct(kind), dec_hook=_read_scalar)


_CHECKED: Mapping[str, Any] = {
    "string": str,
    "bool": bool,
    "int32": Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)],
    "int64": Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)],
    "intOrString": Annotated[int, msgspec.Meta(ge=-(1 << 31), le=(1 << 31) - 1)] | str,
    "quantity": Quantity,
    "quantities": dict[str, Quantity | None],
    "strings": dict[str, str | None],
    "time": Time,
    "duration": Duration,
    "any": Any,
}


@lru_cache(maxsize=1024)
def _struct(type_name: str) -> type[msgspec.Struct]:
    """Create the struct of one type of `patch_types.txt`; null fits anywhere."""
    type_ = patch_types()[type_name]
    members: list[tuple[str, Any, Any]] = []
    for field in type_.fields:
        item = _struct(field.type) if field.type else _CHECKED[_kind(type_name, field.name)]
        value = list[item | None] if field.is_list else item  # type: ignore[valid-type]
        members.append((field.name, value | None, None))
    return msgspec.defstruct(type_name, members, gc=False)


def _read_scalar(expected: type, value: Any) -> Any:
    if expected is Quantity:
        return from_wire(value)
    if not isinstance(value, str):
        raise ValueError(f"expected a {expected.__name__.lower()}, got {describe(value)}")
    return Time(_time(value)) if expected is Time else Duration(_duration(value))


# --- canonical -----------------------------------------------------------------------------------


@lru_cache(maxsize=4096)
def _kind(type_name: str, field: str) -> str:
    place = f"{type_name}.{field}"
    return next((kind for kind, places in _kinds().items() if place in places), "string")


@lru_cache(maxsize=1)
def _kinds() -> Mapping[str, frozenset[str]]:
    return {kind: frozenset(text.split()) for kind, text in KINDS.items()}


@dataclass(frozen=True)
class _Member:
    """How one field of a struct is decoded and encoded. `zero` returns the encoding of an absent field."""

    name: str
    read: Callable[[Any, str, bool], Any]
    zero: Callable[[], Any]
    is_always_written: bool
    is_pointer: bool
    is_cleared_by_null: bool


class _Type:
    """The fields of a struct, with their readers."""

    def __init__(self, type_: PatchType) -> None:
        self.type = type_
        self.members = {field.name: _member(type_, field) for field in type_.fields}


@lru_cache(maxsize=1024)
def _type(name: str) -> _Type:
    return _Type(patch_types()[name])


def canonical(kind: str, document: Any, *, fold_case: bool = False) -> Document:
    """Return a document as encoded after decoding into the Go struct of `kind`.

    Unknown fields and nulls are removed, quantities and times are in canonical text, and fields that Go
    always writes are present. With `fold_case` names of fields match in any case, as in Go's standard decoder
    (of two spellings the later in byte order wins). Raises DecodeError.
    """
    return _read_object(kind, document, kind, fold_case)


def _read_object(type_name: str, value: Any, path: str, fold_case: bool) -> Document:
    if value is None:
        value = {}
    if not isinstance(value, dict):
        raise DecodeError(f"{path}: expected an object, got {describe(value)}")
    type_ = _type(type_name)
    result: Document = {}
    for name in sorted(value):
        field = type_.type.field(name) if fold_case else None
        member = type_.members.get(field.name if field is not None else name)
        if member is None:
            continue
        item = member.read(value[name], f"{path}.{member.name}", fold_case)
        known = result.get(member.name)
        if item is not None:
            if isinstance(item, dict) and isinstance(known, dict):
                item = _overlay(known, item)
            result[member.name] = item
        elif member.is_cleared_by_null:
            result.pop(member.name, None)
    for member in type_.members.values():
        if member.is_always_written:
            if member.name not in result:
                result[member.name] = member.zero()
        elif not member.is_pointer and not result.get(member.name, True):
            del result[member.name]
    return result


def _overlay(under: Document, over: Document) -> Document:
    return under | {
        name: _overlay(under[name], item)
        if isinstance(item, dict) and isinstance(under.get(name), dict)
        else item
        for name, item in over.items()
    }


def _member(type_: PatchType, field: Field) -> _Member:
    written = f"{type_.name}.{field.name}" in _written_empty()
    kind = _kind(type_.name, field.name)
    if field.is_list:
        return _Member(field.name, _read_list(field, kind), _nothing, written, False, True)
    if field.type:

        def read(value: Any, path: str, fold_case: bool) -> Any:
            return None if value is None else _read_object(field.type, value, path, fold_case)

        def zero() -> Any:
            return None if field.may_be_unset else _read_object(field.type, {}, "", False)

        is_pointer = field.may_be_unset
        return _Member(field.name, read, zero, written or not is_pointer, is_pointer, is_pointer)
    empty = None if field.may_be_unset else _ZEROS[kind]
    cleared = field.may_be_unset or kind in ("strings", "quantities", "time")
    return _Member(field.name, _READERS[kind], lambda: empty, written, field.may_be_unset, cleared)


def _nothing() -> None:
    """Go writes null for an unset list."""


def _read_list(field: Field, kind: str) -> Callable[[Any, str, bool], Any]:
    def read_item(value: Any, path: str, fold_case: bool) -> Any:
        if field.type:
            return _read_object(field.type, value, path, fold_case)
        item = _READERS[kind](value, path, fold_case)
        return _ZEROS[kind] if item is None else item

    def read(value: Any, path: str, fold_case: bool) -> Any:
        if value is None:
            return None
        if not isinstance(value, list):
            raise DecodeError(f"{path}: expected a list, got {describe(value)}")
        return [read_item(item, f"{path}[{index}]", fold_case) for index, item in enumerate(value)]

    return read


@lru_cache(maxsize=1)
def _written_empty() -> frozenset[str]:
    return frozenset(WRITTEN_EMPTY.split())


def _read_string(value: Any, path: str, fold_case: bool) -> Any:
    if value is not None and not isinstance(value, str):
        raise DecodeError(f"{path}: expected a text, got {describe(value)}")
    return value


def _read_bool(value: Any, path: str, fold_case: bool) -> Any:
    if value is not None and not isinstance(value, bool):
        raise DecodeError(f"{path}: expected a boolean, got {describe(value)}")
    return value


def _read_integer(kind: str) -> Callable[[Any, str, bool], Any]:
    bound = _BOUNDS[kind]

    def read(value: Any, path: str, fold_case: bool) -> Any:
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int):
            raise DecodeError(f"{path}: expected an integer, got {describe(value)}")
        if not -bound <= value < bound:
            raise DecodeError(f"{path}: {value} does not fit {kind}")
        return value

    return read


def _read_int_or_string(value: Any, path: str, fold_case: bool) -> Any:
    return value if isinstance(value, str) else _READERS["int32"](value, path, fold_case)


def _read_quantity(value: Any, path: str, fold_case: bool) -> Any:
    try:
        return None if value is None else str(from_wire(value))
    except (QuantityError, TypeError) as error:
        raise DecodeError(f"{path}: {error}") from None


def _read_map(read_value: Callable[[Any, str, bool], Any], zero: str) -> Callable[[Any, str, bool], Any]:
    """Decode a map with free keys. A null member is present, with its zero value."""

    def read(value: Any, path: str, fold_case: bool) -> Any:
        if value is None:
            return None
        if not isinstance(value, dict):
            raise DecodeError(f"{path}: expected an object, got {describe(value)}")
        items = {key: read_value(item, f"{path}[{key}]", fold_case) for key, item in value.items()}
        return {key: zero if item is None else item for key, item in items.items()}

    return read


def _read_time(value: Any, path: str, fold_case: bool) -> Any:
    if value is None:
        return None
    try:
        return _time(_read_string(value, path, fold_case))
    except ValueError as error:
        raise DecodeError(f"{path}: {error}") from None


def _read_duration(value: Any, path: str, fold_case: bool) -> Any:
    if value is None:
        return None
    try:
        return _duration(_read_string(value, path, fold_case))
    except ValueError as error:
        raise DecodeError(f"{path}: {error}") from None


def _duration(text: str) -> str:
    return duration.format(duration.parse(text))


def _time(text: str) -> str:
    """Format an RFC 3339 time in UTC and whole seconds."""
    return parse_rfc_3339(text).replace(microsecond=0, tzinfo=None).isoformat() + "Z"


_READERS: dict[str, Callable[[Any, str, bool], Any]] = {
    "string": _read_string,
    "bool": _read_bool,
    "int32": _read_integer("int32"),
    "int64": _read_integer("int64"),
    "intOrString": _read_int_or_string,
    "quantity": _read_quantity,
    "quantities": _read_map(_read_quantity, "0"),
    "strings": _read_map(_read_string, ""),
    "time": _read_time,
    "duration": _read_duration,
    "any": lambda value, path, fold_case: value,
}
_ZEROS: dict[str, Any] = {
    "string": "",
    "bool": False,
    "int32": 0,
    "int64": 0,
    "intOrString": 0,
    "quantity": "0",
    "quantities": None,
    "strings": None,
    "time": None,
    "duration": None,
    "any": None,
}
