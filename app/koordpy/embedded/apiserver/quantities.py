"""Quantities in documents: validated and converted to canonical form as by kube-apiserver."""

from functools import lru_cache
from typing import Any

from koordpy.api import quantity

from .errors import ApiError, bad_request

Document = dict[str, Any]


@lru_cache(maxsize=1 << 14)
def _canonical(value: str | int | float) -> str:
    return quantity.from_wire(value).canonical()


def canonical(value: Any, kind: str, path: str) -> str:
    """Return the canonical text of a quantity; raise ApiError (400)."""
    try:
        if isinstance(value, bool) or not isinstance(value, str | int | float):
            raise ValueError("expected a quantity")
        return _canonical(value)
    except ValueError as error:
        raise _refused(kind, path, error) from None


def _refused(kind: str, path: str, error: ValueError) -> ApiError:
    return bad_request(f'{kind} in version "v1" cannot be handled as a {kind}: {path}: {error}')


def settle(holder: Document, name: str, kind: str, path: str) -> None:
    """Make all quantities of a resource list canonical, in place."""
    amounts = holder.get(name)
    if not amounts:
        return
    if not isinstance(amounts, dict):
        raise bad_request(f"{kind}: {path}{name} must be an object")
    for resource, value in amounts.items():
        amounts[resource] = canonical(value, kind, f"{path}{name}[{resource}]")
