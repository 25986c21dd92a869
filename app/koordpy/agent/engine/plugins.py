"""The installed plugins of the node agent, of all kinds: how they are found and constructed, their flags."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any, Final

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.interface.collector import Collector
from koordpy.agent.interface.flags import FlagSet, FlagValue
from koordpy.agent.interface.gates import GATES
from koordpy.agent.interface.handle import Handle
from koordpy.agent.interface.hook import Hook
from koordpy.agent.interface.metrics import COLLECT_INTERVAL
from koordpy.agent.interface.node_plugin import NodePlugin
from koordpy.agent.interface.plugin import QOSPlugin
from koordpy.agent.interface.service import DeclaresFlags
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.field_error import FieldError, shown
from koordpy.api.plugin_errors import DuplicateName
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.lib.nearest import suggestion

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

    def build(self, args: Mapping[str, Mapping[str, Any]], handle: Handle) -> list[NodePlugin]:
        """Create all plugins, with their arguments by name. Raises ConfigError."""
        known = {name for name, _ in self}
        for name in args:
            if name not in known:
                groups = " or ".join(self.catalogues)
                hint = suggestion(name, known) if known else "none is installed"
                message = (
                    f"got {shown(name)}, expected an installed plugin of entry point group {groups}; {hint}"
                )
                raise ConfigError(FieldError(_ARGS, message))
        return [
            catalogue.make(
                name,
                catalogue[name].read_args(args.get(name), path := f"{_ARGS}.{name}"),
                _named(handle, name),
                path,
            )
            for name, catalogue in self
        ]


def _named(handle: Handle, plugin: str) -> Handle:
    """Return a handle with which a plugin's name is remembered with what it changes."""
    if not isinstance(handle.executor, Executor):
        return handle
    return replace(handle, executor=handle.executor.of(plugin))


def flags_of(types: Iterable[type[DeclaresFlags]], given: Mapping[str, FlagValue] | None = None) -> FlagSet:
    """Return the flags of the agent itself and of these types, some of them set. Raises FlagError."""
    flags = FlagSet()
    flags.declare(COLLECT_INTERVAL, timedelta(seconds=1), "time between two measurements of usage")
    for type_ in types:
        type_.init_flags(flags)
    for name, value in (given or {}).items():
        flags.set(name, value)
    return flags
