"""Quantities in documents: validated and converted to canonical form as by kube-apiserver."""

from typing import Any

from koordpy.api import quantity
from koordpy.lib.bounded_cache import cached, text_size

Document = dict[str, Any]


class NotAQuantity(ValueError):
    """A value is not a quantity; the message is kube-apiserver's."""


@cached("canonical_quantities", 2 << 20, text_size)
def _canonical(value: str | int | float) -> str:
    return quantity.from_wire(value).canonical()


def canonical(value: Any, kind: str, path: str) -> str:
    """Return the canonical text of a quantity; raise NotAQuantity."""
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("expected a quantity")
        return _canonical(value)
    except ValueError as error:
        raise _refused(kind, path, error) from None


def _refused(kind: str, path: str, error: ValueError) -> "NotAQuantity":
    return NotAQuantity(f'{kind} in version "v1" cannot be handled as a {kind}: {path}: {error}')


def settle(holder: Document, name: str, kind: str, path: str) -> None:
    """Make all quantities of a resource list canonical, in place."""
    amounts = holder.get(name)
    if not amounts:
        return
    if not isinstance(amounts, dict):
        raise NotAQuantity(f"{kind}: {path}{name} must be an object")
    for resource, value in amounts.items():
        amounts[resource] = canonical(value, kind, f"{path}{name}[{resource}]")
