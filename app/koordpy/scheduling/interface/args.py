"""The base of scheduling plugins' arguments: Koordinator's (or Kubernetes') names, defaults, validation."""

from collections.abc import Iterable

from koordpy.api import config_model
from koordpy.api.config_model import ConfigError, ConfigModel
from koordpy.api.field_error import FieldError

API_VERSION = "kubescheduler.config.k8s.io/v1"


class PluginArgs(ConfigModel):
    """Base of plugins' arguments."""

    def problems(self) -> Iterable[FieldError]:
        """Return what is wrong with values that have the right type."""
        return ()


class NoArgs(PluginArgs):
    """The arguments of a plugin that takes none."""


def read_args(args_type: type[PluginArgs], plugin: str, document: object, path: str) -> PluginArgs:
    """Read and validate a plugin's arguments, `apiVersion` and `kind` included. Raises ConfigError."""
    args = config_model.read_args(args_type, document, path, api_version=API_VERSION, kind=f"{plugin}Args")
    problems = [problem.under(path) for problem in args.problems()]
    if problems:
        raise ConfigError(*problems)
    return args
