"""The installed plugins of the node agent, of all kinds: how they are found and constructed, their flags."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.interface.collector import Collector
from koordpy.agent.interface.flags import FlagError, FlagSet, FlagValue
from koordpy.agent.interface.gates import GATES, KOORDLET
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.hook import Hook
from koordpy.agent.interface.metrics import COLLECT_INTERVAL, Metrics
from koordpy.agent.interface.node_plugin import NodePlugin
from koordpy.agent.interface.plugin import QOSPlugin
from koordpy.agent.interface.service import DeclaresFlags
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.field_error import FieldError, shown
from koordpy.api.plugin_errors import DuplicateName
from koordpy.lib.feature_gates import FeatureGateError, FeatureSpec, parse, unrecognized
from koordpy.lib.nearest import suggestion

QOS_EXTENSION_PLUGINS: Final = "qos-extension-plugins"
"""The flag that switches third-party plugins by their gates, besides `--feature-gates`."""

_ARGS: Final = "agent.args"

GROUPS: Final[Mapping[str, type[NodePlugin]]] = {
    "koordpy.collectors": Collector,
    "koordpy.hooks": Hook,
    "koordpy.qos": QOSPlugin,
}
"""The entry point groups of the node agent's plugins with their base classes, in the order of their start."""


@dataclass(frozen=True)
class Installed:
    """The plugins by entry point group. No two have the same name, because arguments go by names alone."""

    catalogues: Mapping[str, Catalogue[NodePlugin]]

    @classmethod
    def find(cls) -> "Installed":
        """Return the installed plugins. Raises DuplicateName."""
        return cls._of({group: Catalogue(group, base) for group, base in GROUPS.items()})

    @classmethod
    def of(cls, *types: type[NodePlugin]) -> "Installed":
        """Return only these plugins, ignoring installed ones. Raises DuplicateName."""
        return cls._of(
            {
                group: Catalogue.of(group, base, [type_ for type_ in types if issubclass(type_, base)])
                for group, base in GROUPS.items()
            }
        )

    @classmethod
    def _of(cls, catalogues: Mapping[str, Catalogue[NodePlugin]]) -> "Installed":
        groups: dict[str, str] = {}
        for group, catalogue in catalogues.items():
            for name in catalogue:
                if name in groups:
                    raise DuplicateName(
                        f"{name!r} is a plugin of group {groups[name]} and another of group {group}"
                    )
                groups[name] = group
        return cls(catalogues)

    def __iter__(self) -> Iterator[tuple[str, Catalogue[NodePlugin]]]:
        """Yield the name of every plugin with the catalogue that has it."""
        for catalogue in self.catalogues.values():
            for name in catalogue:
                yield name, catalogue

    def types(self) -> list[type[NodePlugin]]:
        """Import and return all plugins. Raises PluginError."""
        return [catalogue[name] for name, catalogue in self]

    def gate_specs(self) -> dict[str, FeatureSpec]:
        """Return the gates of the node agent, with those that plugins declare. Raises PluginError."""
        specs = dict(GATES)
        for catalogue in self.catalogues.values():
            specs = catalogue.feature_gates(specs)
        return specs

    def extension_gates(self, flags: FlagSet) -> dict[str, bool]:
        """Return the gates that `--qos-extension-plugins` sets. Raises FlagError.

        They are those that third-party collectors and QoS plugins declare, not koordlet's.
        """
        try:
            given = parse(flags.text(QOS_EXTENSION_PLUGINS))
            known = {
                name
                for type_ in self.types()
                if issubclass(type_, Collector | QOSPlugin)
                for name in type_.feature_gates
            } - KOORDLET.keys()
            for name in given:
                if name not in known:
                    raise unrecognized(name, known)
        except FeatureGateError as error:
            raise FlagError(f"flag {QOS_EXTENSION_PLUGINS}: {error}") from None
        return given

    def check(self, args: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise ConfigError for arguments of a plugin that is not installed, or that it does not take."""
        known = {name for name, _ in self}
        for name in args:
            if name not in known:
                groups = " or ".join(self.catalogues)
                hint = suggestion(name, known) if known else "none is installed"
                message = (
                    f"got {shown(name)}, expected an installed plugin of entry point group {groups}; {hint}"
                )
                raise ConfigError(FieldError(_ARGS, message))
        for name, catalogue in self:
            catalogue[name].read_args(args.get(name), f"{_ARGS}.{name}")

    def type(self, name: str) -> type[NodePlugin]:
        """Return a plugin's class. Raises PluginError, KeyError."""
        return self._catalogue(name)[name]

    def maker(self, name: str) -> Callable[[Handle, Mapping[str, Any]], NodePlugin]:
        """Return a function that creates a plugin with its arguments. It raises ConfigError."""
        catalogue, path = self._catalogue(name), f"{_ARGS}.{name}"

        def make(handle: Handle, args: Mapping[str, Any]) -> NodePlugin:
            return catalogue.make(name, catalogue[name].read_args(args, path), _named(handle, name), path)

        return make

    def _catalogue(self, name: str) -> Catalogue[NodePlugin]:
        return next(catalogue for known, catalogue in self if known == name)


def _named(handle: Handle, plugin: str) -> Handle:
    """Return a handle with which a plugin's name is remembered with what it changes."""
    if not isinstance(handle.executor, Executor):
        return handle
    return replace(handle, executor=handle.executor.of(plugin))


def declare_series(types: Iterable[type[NodePlugin]], metrics: Metrics) -> None:
    """Declare the kinds of series of collectors. Raises MetricError if another has one of the same name."""
    for type_ in types:
        if issubclass(type_, Collector):
            for kind in type_.kinds:
                metrics.declare(kind)


def flags_of(types: Iterable[type[DeclaresFlags]], given: Mapping[str, FlagValue] | None = None) -> FlagSet:
    """Return the flags of the agent itself and of these types, some of them set. Raises FlagError."""
    flags = FlagSet()
    flags.declare(COLLECT_INTERVAL, timedelta(seconds=1), "time between two measurements of usage")
    flags.declare(QOS_EXTENSION_PLUGINS, "", "gates of third-party QoS plugins, such as A=true,B=false")
    for type_ in types:
        type_.init_flags(flags)
    for name, value in (given or {}).items():
        flags.set(name, value)
    return flags
