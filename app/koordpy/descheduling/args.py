"""The base of descheduling plugins' arguments."""

from typing import Self

from koordpy.api import plugin

API_VERSION = "descheduler/v1alpha2"


class PluginArgs(plugin.PluginArgs):
    """Arguments of a plugin, with Koordinator's names, defaults and validation."""

    def adapted_to_interval(self, interval: int) -> Self:
        """Return the arguments as they are with so much time (nanoseconds, above 0) between two cycles."""
        return self
