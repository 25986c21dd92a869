"""Reading of DeschedulerConfiguration files: decoded strictly, with defaults, and validated.

Arguments of plugins that are enabled are validated later, when the plugins are created (`engine.framework`).
"""

from collections.abc import Iterator
from pathlib import Path

from koordpy.api import config_file
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError, without_effect
from koordpy.descheduling.catalogue import installed
from koordpy.descheduling.interface import Plugin
from koordpy.lib import duration

from .configuration import DeschedulerConfiguration
from .decoding import decode
from .defaulting import set_defaults
from .validation import validate


def load_file(path: Path, catalogue: Catalogue[Plugin] | None = None) -> DeschedulerConfiguration:
    """Read, default and validate a file. Raises ConfigError naming the file, OSError."""
    try:
        return load(config_file.read(path), catalogue)
    except ConfigError as error:
        raise error.under(path) from None


def load(text: str, catalogue: Catalogue[Plugin] | None = None) -> DeschedulerConfiguration:
    """Read, default and validate a configuration. Raises ConfigError.

    `catalogue` has the plugins whose arguments are decoded; by default those that are installed.
    """
    catalogue = installed() if catalogue is None else catalogue
    given = decode(text, catalogue)
    config = set_defaults(given, catalogue)
    if errors := validate(config):
        raise ConfigError(*errors)
    config._without_effect = (
        *without_effect(given),
        *_interval_without_effect(given),
        *_plugins_without_effect(config, catalogue),
    )
    return config


def _plugins_without_effect(config: DeschedulerConfiguration, catalogue: Catalogue[Plugin]) -> Iterator[str]:
    """Yield arguments of plugins that do not run, which Koordinator accepts too, and that nothing evicts."""
    evicts = False
    for number, profile in enumerate(config.profiles):
        if (sets := profile.plugins) is None:
            continue
        evicts = evicts or bool(sets.deschedule.names or sets.balance.names)
        enabled = {*sets.deschedule.names, *sets.balance.names, *sets.evict.names, *sets.filter.names}
        for entry in profile.plugin_config:
            if entry.name in enabled:
                continue
            why = f"{entry.name} is not enabled"
            if entry.name not in catalogue:
                why = f"it is not installed: {catalogue.missing(entry.name)}"
            yield f"profiles[{number}].pluginConfig of {entry.name} has no effect: {why}"
    if config.profiles and not evicts:
        yield "no profile enables a Deschedule or Balance plugin: rounds evict nothing"


def _interval_without_effect(given: DeschedulerConfiguration) -> list[str]:
    if given.descheduling_interval >= 0:
        return []
    interval = duration.format(given.descheduling_interval)
    return [f"deschedulingInterval {interval} counts as 0: there is one cycle only"]
