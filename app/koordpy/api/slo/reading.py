"""Read the JSON of a strategy as Go's decoder does.

Names match in any case, the last of several counts, unknown ones are ignored, null means absent. A value of a
wrong type is an error, and so is a text that is not the expected quantity or duration.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, TypeVar

import msgspec

from ..decoding import MALFORMED, DecodeError
from ..patch import describe
from .strategy import Field, fields_of, names_of

T = TypeVar("T", bound=msgspec.Struct)


def parse(text: str) -> dict[str, Any]:
    """Return the members of a JSON object; null has none. Raises DecodeError."""
    try:
        document = msgspec.json.decode(text.encode())
    except MALFORMED as error:
        raise DecodeError(str(error)) from None
    return _object({} if document is None else document, "")


def read(type_: type[T], document: Mapping[str, Any], path: str = "") -> T:
    """Return an object as a struct. Raises DecodeError naming the path and what was expected there."""
    try:
        return msgspec.convert(_canonical(type_, document, path), type_)
    except msgspec.ValidationError as error:
        raise DecodeError(f"{path}: {error}" if path else str(error)) from None


def members(document: Mapping[str, Any], names: frozenset[str]) -> dict[str, Any]:
    """Return the members of an object that match the names, by these names; nulls included."""
    folded = _folded(names)
    found = {}
    for key, value in document.items():
        name = key if key in names else folded.get(key.casefold())
        if name is not None and (value is not None or name not in found):
            found[name] = value
    return found


@lru_cache(maxsize=256)
def _folded(names: frozenset[str]) -> Mapping[str, str]:
    return {name.casefold(): name for name in names}


def _canonical(type_: type[msgspec.Struct], document: Mapping[str, Any], path: str) -> dict[str, Any]:
    fields = fields_of(type_)
    folded = _folded(names_of(type_))
    read: dict[str, Any] = {}
    for key, value in document.items():
        name = key if key in fields else folded.get(key.casefold())
        if name is None or value is None:
            continue
        if name in read:  # of several spellings the last counts, but a wrong value of any is an error
            msgspec.convert({name: read[name]}, type_)
        read[name] = _value(fields[name], value, f"{path}.{name}" if path else name)
    return read


def _value(field: Field, value: Any, path: str) -> Any:
    """Return a value with exact names; a value of a wrong type is unchanged, and rejected later."""
    if field.container is list and isinstance(value, list):
        return [_item(field, item, f"{path}[{at}]") for at, item in enumerate(value)]
    if field.container is dict and isinstance(value, dict):
        return {key: _item(field, item, f"{path}.{key}") for key, item in value.items()}
    return value if field.container is not None else _item(field, value, path)


def _item(field: Field, value: Any, path: str) -> Any:
    if field.struct is not None:
        return _canonical(field.struct, _object({} if value is None else value, path), path)
    if field.scalar is not None and value is None:
        return field.scalar()
    if field.form is not None:
        try:
            return field.form.canonical(value)
        except ValueError as error:
            raise DecodeError(f"{path}: {error}") from None
    return value


def _object(value: Any, path: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        place = f"{path}: " if path else ""
        raise DecodeError(f"{place}expected an object, got {describe(value)}")
    return value
