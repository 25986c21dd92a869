"""What each plugin has in the metric cache, counted in bytes."""

from dataclasses import dataclass, field
from typing import Final

from .blocks import BLOCK_BYTES

SERIES_BYTES: Final = 1024
"""What a series costs beside its blocks, as counted against the limit: its objects and its names."""


@dataclass
class Share:
    """What one plugin has in the cache; the name "" is the agent's own."""

    name: str = ""
    blocks: int = 0
    series: int = 0
    evicted: int = 0
    """How many times points of this plugin were dropped because of the limit of the cache."""
    kinds: set[str] = field(default_factory=set)
    facts: set[str] = field(default_factory=set)

    @property
    def bytes(self) -> int:
        """What the plugin's series take, as counted against the limit of the cache."""
        return self.blocks * BLOCK_BYTES + self.series * SERIES_BYTES
