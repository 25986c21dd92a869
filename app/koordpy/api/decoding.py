"""Decodes JSON bytes into structs."""

from typing import Any, Final, TypeVar

import msgspec

T = TypeVar("T")


class DecodeError(ValueError):
    """A document does not have the shape of its kind; the message names the path and what was expected."""


MALFORMED: Final = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not JSON or UTF-8, or nest too deeply."""

_DECODERS: dict[type, msgspec.json.Decoder[Any]] = {}


def decoder(type_: type[T]) -> msgspec.json.Decoder[T]:
    """Return the (cached) decoder from JSON bytes to a struct type."""
    known = _DECODERS.get(type_)
    if known is None:
        known = _DECODERS[type_] = msgspec.json.Decoder(type_)
    return known


def decode(type_: type[T], raw: bytes | dict[str, Any]) -> T:
    """Decode JSON bytes or a decoded document.

    A null means "absent", as in Go's decoder; documents with nulls take a slower path. Raises
    DecodeError naming the path and what was expected there.
    """
    try:
        return decoder(type_).decode(raw) if isinstance(raw, bytes) else msgspec.convert(raw, type_)
    except msgspec.ValidationError as first:
        try:
            document = msgspec.json.decode(raw) if isinstance(raw, bytes) else raw
            return msgspec.convert(without_nulls(document), type_)
        except msgspec.ValidationError:
            raise DecodeError(f"{type_.__name__}: {first}") from None
        except MALFORMED as error:
            raise DecodeError(f"{type_.__name__}: not JSON: {error}") from None
    except MALFORMED as error:
        raise DecodeError(f"{type_.__name__}: not JSON: {error}") from None


def without_nulls(value: Any) -> Any:
    """Return a document without members whose value is null; nulls inside arrays stay."""
    if isinstance(value, dict):
        return {key: without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [without_nulls(item) for item in value]
    return value
