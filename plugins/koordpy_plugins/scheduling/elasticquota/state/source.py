"""Where controllers and the REST API find the quota trees."""

from typing import Protocol

from .managers import Managers


class Trees(Protocol):
    """The quota trees of the cluster."""

    @property
    def managers(self) -> Managers:
        """All trees, up to date. Ask again in every cycle: they may be rebuilt."""
        ...
