"""Why a plugin cannot be used: the same errors for every kind of plugin.

Each message names the entry point and its group, the distribution that installs it, what was found there and
what was expected; if a configuration names the plugin, it begins with the path in that configuration.
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
    """The object of an entry point is not a complete plugin class of its group's kind."""


class NameMismatch(PluginError):
    """A plugin class has another name than its entry point."""


class DuplicateName(PluginError):
    """Two different plugins are installed under one name."""


class GateConflict(PluginError):
    """A plugin needs a feature gate that does not exist, or declares one that already exists."""


class NotMade(PluginError):
    """The constructor of a plugin rejects its arguments, or fails."""
