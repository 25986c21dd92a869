"""A configuration as it runs, as koord-descheduler's `--write-config-to` writes it.

Source: Koordinator, `cmd/koord-descheduler/app/options/configfile.go` (`LogOrWriteConfig`).
"""

from pathlib import Path
from typing import Any, Final

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.args import API_VERSION
from koordpy.descheduling.catalogue import installed
from koordpy.descheduling.config.configuration import KIND, DeschedulerConfiguration
from koordpy.descheduling.config.loading import load, load_file
from koordpy.descheduling.interface import Plugin
from koordpy.lib.feature_gates import FeatureGates

from .descheduler import Descheduler

_EMPTY: Final = f"apiVersion: {API_VERSION}\nkind: {KIND}\n"


def completed(file: Path | None = None) -> dict[str, Any]:
    """Return a configuration with its defaults and the profiles that run; without a file, the defaults.

    Raises ConfigError for a configuration that cannot run, OSError.
    """
    catalogue = installed()
    config = load(_EMPTY, catalogue) if file is None else load_file(file, catalogue)
    try:
        built = inspected(config, catalogue)
    except ConfigError as error:
        raise (error if file is None else error.under(file)) from None
    profiles = [
        made.model_copy(update={"proof": profile.proof})
        for made, profile in zip(built.completed.profiles, config.profiles, strict=True)
    ]
    return config.model_copy(update={"profiles": profiles}).written()


def inspected(
    config: DeschedulerConfiguration, catalogue: Catalogue[Plugin], gates: FeatureGates | None = None
) -> Descheduler:
    """Create the descheduler of a configuration to inspect it: without an API server, and without proofs.

    Raises ConfigError for a configuration that cannot run.
    """
    unproved = [profile.model_copy(update={"proof": None}) for profile in config.profiles]
    return Descheduler(config.model_copy(update={"profiles": unproved}), catalogue, Cluster(), gates=gates)
