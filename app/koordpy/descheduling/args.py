"""The base of descheduling plugins' arguments."""

from typing import Self

from koordpy.api.config_model import ConfigModel

API_VERSION = "descheduler/v1alpha2"


class PluginArgs(ConfigModel):
    """Arguments of a plugin. Decoding checks names and types; a plugin's constructor checks the values."""

    def adapted_to_interval(self, interval: int) -> Self:
        """Return the arguments as they are with so much time (nanoseconds, above 0) between two cycles."""
        return self
