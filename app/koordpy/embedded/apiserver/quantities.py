"""Quantities in documents: a wrong one is refused with status 400."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from koordpy.api import canonical_quantities
from koordpy.api.canonical_quantities import NotAQuantity

from .errors import bad_request


@contextmanager
def refused() -> Iterator[None]:
    """Turn NotAQuantity into an ApiError (400)."""
    try:
        yield
    except NotAQuantity as error:
        raise bad_request(str(error)) from None


def settle(holder: dict[str, Any], name: str, kind: str, path: str) -> None:
    """Make all quantities of a resource list canonical, in place. Raises ApiError (400)."""
    with refused():
        canonical_quantities.settle(holder, name, kind, path)
