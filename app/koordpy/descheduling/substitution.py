"""Run a configuration without a plugin that it names, by naming another one in its place.

Koordinator's shipped descheduler configuration evicts through MigrationController. Where that plugin is not
installed, the descheduler does not start and says so; `MigrationController=DefaultEvictor` as a substitute is
the explicit decision to evict pods directly, without reserving a place for them first. Only the Evict and
Filter points are touched, and the arguments of the plugin that is replaced are left out.
"""

import logging
from collections.abc import Mapping

from .config import DeschedulerConfiguration
from .config_model import ConfigError
from .plugin_set import PluginSet

log = logging.getLogger(__name__)


def parse(text: str) -> dict[str, str]:
    """Read `NAME=INSTEAD,...` as given on a command line; raise ConfigError naming the part that is wrong."""
    substitutes = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, instead = (piece.strip() for piece in part.partition("="))
        if not name or not instead:
            raise ConfigError(f"evictor substitute {part!r}: expected NAME=INSTEAD")
        substitutes[name] = instead
    return substitutes


def substitute(config: DeschedulerConfiguration, substitutes: Mapping[str, str]) -> DeschedulerConfiguration:
    """Return a copy of a defaulted configuration with evictors replaced; what is replaced is logged."""
    if not substitutes:
        return config
    config = config.model_copy(deep=True)
    for profile in config.profiles:
        if profile.plugins is None:
            continue
        replaced: set[str] = set()
        for point in ("evict", "filter"):
            names = getattr(profile.plugins, point).names
            replaced.update(name for name in names if name in substitutes)
            instead = dict.fromkeys(substitutes.get(name, name) for name in names)
            setattr(profile.plugins, point, PluginSet.of(list(instead)))
        for name in sorted(replaced):
            log.warning("profile %s: %s evicts instead of %s", profile.name, substitutes[name], name)
        for entry in profile.plugin_config:
            if entry.name in replaced and entry.args:
                fields = ", ".join(sorted(entry.args.keys() - {"apiVersion", "kind"}))
                log.warning("profile %s: args of %s have no effect: %s", profile.name, entry.name, fields)
        profile.plugin_config = [entry for entry in profile.plugin_config if entry.name not in replaced]
    return config
