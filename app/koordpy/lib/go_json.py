"""Values out of JSON, read as Go's decoder reads them into structs; and JSON as Go writes it.

Member names match in any case, the last one counts, unknown ones are ignored; null is the zero value. A value
of a wrong type is an error, and so is a number with a fraction or an exponent where an integer is expected.
Every function that reads raises ValueError with the place and what was expected.
"""

import math
from collections.abc import Mapping
from typing import Any, Final

import msgspec


class Fraction(str):
    """A JSON number with a fraction or an exponent, as it was written."""

    __slots__ = ()


_ESCAPES: Final = {"&": "\\u0026", "<": "\\u003c", ">": "\\u003e", "\u2028": "\\u2028", "\u2029": "\\u2029"}

_DECODER: Final = msgspec.json.Decoder(float_hook=Fraction)
_MALFORMED: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


def parse(text: str) -> Any:
    """Return the value of a JSON text."""
    try:
        return _DECODER.decode(text)
    except _MALFORMED as error:
        raise ValueError(f"not JSON: {error}") from None


def mapping(value: Any, place: str) -> Mapping[str, Any] | None:
    """Return an object, None for null."""
    if value is None or isinstance(value, dict):
        return value
    raise ValueError(f"{place}: expected an object")


def members(value: Any, place: str) -> Mapping[str, Any]:
    """Return the members of an object by their lower case names; null has none."""
    found: dict[str, Any] = {}
    for key, item in (mapping(value, place) or {}).items():
        if item is not None or key.lower() not in found:
            found[key.lower()] = item
    return found


def array(value: Any, place: str) -> list[Any] | None:
    """Return an array, None for null."""
    if value is None or isinstance(value, list):
        return value
    raise ValueError(f"{place}: expected an array")


def integer(value: Any, place: str, bits: int = 64) -> int:
    """Return an integer of so many bits, 0 for null."""
    if value is None:
        return 0
    bound = 1 << (bits - 1)
    if type(value) is not int or not -bound <= value < bound:
        raise ValueError(f"{place}: expected an integer of {bits} bits")
    return value


def number(value: Any, place: str) -> float:
    """Return a double, 0 for null."""
    if value is None:
        return 0.0
    if type(value) in (int, Fraction):
        try:
            found = float(value)
        except OverflowError:
            found = math.inf
        if math.isfinite(found):
            return found
    raise ValueError(f"{place}: expected a number of 64 bits")


def text(value: Any, place: str) -> str:
    """Return a string, empty for null."""
    if value is None:
        return ""
    if type(value) is not str:
        raise ValueError(f"{place}: expected a string")
    return value


def boolean(value: Any, place: str) -> bool | None:
    """Return a boolean, None for null."""
    if value is None or isinstance(value, bool):
        return value
    raise ValueError(f"{place}: expected true or false")


def encode(value: Any) -> str:
    """Write a value: compact, members in their order, HTML characters escaped."""
    plain = msgspec.json.encode(value).decode()
    for character, escape in _ESCAPES.items():
        if character in plain:
            plain = plain.replace(character, escape)
    return plain
