"""The base of descheduling plugins' arguments."""

from typing import Self

from koordpy.api import plugin

API_VERSION = "descheduler/v1alpha2"


class PluginArgs(plugin.PluginArgs):
    """Arguments of a plugin, with Koordinator's names, defaults and validation."""

    def adapted_to_interval(self, interval: int) -> Self:
        """Return the arguments adapted to the interval between two cycles (nanoseconds, above 0)."""
        return self
