"""Why a plugin cannot be used: the same errors for every kind of plugin.

Each message names the entry point and its group, the distribution that installs it, what was found there and
what was expected; where a configuration asks for the plugin, it begins with the path in that configuration.
"""

from .config_model import ConfigError


class PluginError(ConfigError):
    """A plugin cannot be used."""


class NotInstalled(PluginError, KeyError):
    """No distribution installs a plugin of that name; the message names those that are installed."""

    __str__ = ConfigError.__str__  # KeyError shows the message as a quoted literal


class ImportFailed(PluginError):
    """The module that an entry point names, or the object in it, cannot be imported."""


class NotAPlugin(PluginError):
    """What an entry point names is not a complete plugin class of the kind that its group is for."""


class NameMismatch(PluginError):
    """A plugin class has another name than the entry point that it is installed under."""


class DuplicateName(PluginError):
    """Two different plugins are installed under one name."""


class GateConflict(PluginError):
    """A plugin needs a feature gate that does not exist, or declares one that exists already."""


class NotMade(PluginError):
    """The constructor of a plugin refuses its arguments, or fails."""
