"""Runs a configuration with another evictor in place of one that it names.

Koordinator's shipped descheduler configuration evicts through MigrationController. Where that plugin is not
installed, nothing is evicted; `MigrationController=DefaultEvictor` as a substitute is the explicit decision
to evict pods directly, without reserving a place for them first. Only the Evict and Filter points are
changed; the arguments of the replaced plugin have no effect.
"""

import logging
from collections.abc import Mapping

from koordpy.api.config_model import ConfigError

from .configuration import DeschedulerConfiguration, Profile
from .plugin_set import PluginSet

log = logging.getLogger(__name__)


def parse(text: str) -> dict[str, str]:
    """Read `NAME=INSTEAD,...` from a command line; raise ConfigError naming the invalid part."""
    substitutes = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, _, instead = (piece.strip() for piece in part.partition("="))
        if not name or not instead:
            raise ConfigError(f"evictor substitute {part!r}: expected NAME=INSTEAD")
        substitutes[name] = instead
    return substitutes


def substitute(config: DeschedulerConfiguration, substitutes: Mapping[str, str]) -> DeschedulerConfiguration:
    """Return a defaulted configuration with evictors replaced; replacements are logged."""
    profiles = [_substituted(profile, substitutes) for profile in config.profiles]
    return config.model_copy(update={"profiles": profiles})


def _substituted(profile: Profile, substitutes: Mapping[str, str]) -> Profile:
    if profile.plugins is None:
        return profile
    points = {point: getattr(profile.plugins, point).names for point in ("evict", "filter")}
    replaced = {name for names in points.values() for name in names if name in substitutes}
    if not replaced:
        return profile
    for name in sorted(replaced):
        log.warning("profile %s: %s evicts instead of %s", profile.name, substitutes[name], name)
    for entry in profile.plugin_config:
        if entry.name in replaced and entry.args:
            fields = ", ".join(sorted(entry.args.keys() - {"apiVersion", "kind"}))
            log.warning("profile %s: args of %s have no effect: %s", profile.name, entry.name, fields)
    sets = {
        point: PluginSet.of(list(dict.fromkeys(substitutes.get(name, name) for name in names)))
        for point, names in points.items()
    }
    return profile.model_copy(
        update={
            "plugins": profile.plugins.model_copy(update=sets),
        }
    )
