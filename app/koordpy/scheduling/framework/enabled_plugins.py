"""The plugins of a profile, and those enabled at each extension point."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from koordpy.scheduling.interface import Plugin

T = TypeVar("T")


@dataclass(frozen=True)
class EnabledPlugins:
    """The plugins of a profile in the order of construction, and those enabled at each point, in order."""

    plugins: Sequence[Plugin]
    enabled: Mapping[str, Sequence[Plugin]]
    """By point, see `koordpy.scheduling.profiles.config.POINTS`."""

    def at(self, point: str, role: type[T]) -> list[tuple[str, T]]:
        """Return the plugins enabled at a point that have a role there, with their names."""
        return [(plugin.name, plugin) for plugin in self.enabled.get(point, ()) if isinstance(plugin, role)]

    def having(self, role: type[T]) -> list[tuple[str, T]]:
        """Return all plugins of the profile that have a role, with their names."""
        return [(plugin.name, plugin) for plugin in self.plugins if isinstance(plugin, role)]
