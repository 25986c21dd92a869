"""Reading of DeschedulerConfiguration files: decoded strictly, with defaults, and validated.

Arguments of plugins that are enabled are validated later, when the plugins are created (`engine.framework`).
"""

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
    config._without_effect = (*without_effect(given), *_interval_without_effect(given))
    return config


def _interval_without_effect(given: DeschedulerConfiguration) -> list[str]:
    if given.descheduling_interval >= 0:
        return []
    interval = duration.format(given.descheduling_interval)
    return [f"deschedulingInterval {interval} counts as 0: there is one cycle only"]
