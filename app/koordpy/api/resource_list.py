"""Resource lists of objects, and those that annotations hold as JSON text, as Go code reads and writes them.

Source: Kubernetes, `k8s.io/api/core/v1` (ResourceList) and `k8s.io/apimachinery/pkg/api/resource`.
"""

import json
from collections.abc import Mapping

import msgspec

from . import quantity
from .quantity import Quantity, WireQuantity, parse_json
from .scheme import MALFORMED, DecodeError

Quantities = dict[str, Quantity]

_ENCODE = json.JSONEncoder(separators=(",", ":"), ensure_ascii=False).encode
_DECODER = msgspec.json.Decoder(dict[str, msgspec.Raw] | None)


def from_wire(amounts: Mapping[str, WireQuantity]) -> Quantities:
    """Read the amounts of a resource list of an object. Raises QuantityError."""
    return {name: quantity.from_wire(amount) for name, amount in amounts.items()}


def members(text: str) -> dict[str, str] | None:
    """Return the JSON texts of the members of an object, None for null. Raises DecodeError."""
    try:
        decoded = _DECODER.decode(text.encode())
    except MALFORMED as error:
        raise DecodeError(str(error)) from None
    return None if decoded is None else {name: bytes(raw).decode() for name, raw in decoded.items()}


def parse(text: str) -> Quantities | None:
    """Read the JSON text of a resource list, None for null. Raises DecodeError."""
    decoded = members(text)
    if decoded is None:
        return None
    try:
        return {name: parse_json(raw) for name, raw in decoded.items()}
    except ValueError as error:
        raise DecodeError(str(error)) from None


def text(amounts: Mapping[str, Quantity] | None) -> str:
    """Write a resource list as JSON: sorted, compact; None is null."""
    written = None if amounts is None else {name: str(amounts[name]) for name in sorted(amounts)}
    return _ENCODE(written)
