"""The installed descheduling plugins."""

from typing import Final

from koordpy.api.catalogue import Catalogue

from .interface import Plugin

GROUP: Final = "koordpy.descheduling"


def installed() -> Catalogue[Plugin]:
    """Return the installed plugins. Raises DuplicateName."""
    return Catalogue(GROUP, Plugin)
