"""Which plugins are enabled at a point, by the user's choice and the defaults.

Source: Koordinator, `pkg/descheduler/apis/config/v1alpha2/default_plugins.go`.
"""

from collections.abc import Sequence

from koordpy.api import plugin_set
from koordpy.api.config_model import ConfigModel


class PluginName(ConfigModel):
    """A plugin by name."""

    name: str = ""


class PluginSet(ConfigModel):
    """Plugins switched on and off; `*` in `disabled` means every default."""

    enabled: list[PluginName] = []
    disabled: list[PluginName] = []

    @property
    def names(self) -> list[str]:
        """The enabled plugins in order."""
        return [plugin.name for plugin in self.enabled]

    @classmethod
    def of(cls, names: Sequence[str]) -> "PluginSet":
        """Make a set of enabled plugins."""
        return cls(enabled=[PluginName(name=name) for name in names])


def merge(defaults: Sequence[str], custom: PluginSet) -> PluginSet:
    """Return the defaults that the user does not disable, in order, then the user's own plugins in order.

    `disabled` removes defaults only, never what the user enables.
    """
    disabled = {plugin.name for plugin in custom.disabled}
    return PluginSet(enabled=plugin_set.merge(PluginSet.of(defaults).enabled, custom.enabled, disabled))
