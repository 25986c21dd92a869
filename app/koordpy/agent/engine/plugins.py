"""The installed plugins of the node agent, of all kinds: how they are found and constructed, their flags."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.metadata import EntryPoint
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
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.metrics.plugin_metrics import PluginMetrics
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.field_error import FieldError, shown
from koordpy.api.plugin_errors import DuplicateName, PluginError
from koordpy.lib.entry_points import distribution_name, entry_points
from koordpy.lib.feature_gates import FeatureGateError, FeatureSpec, parse, unrecognized
from koordpy.lib.nearest import suggestion

from .time_limit import time_limit

log = logging.getLogger(__name__)

QOS_EXTENSION_PLUGINS: Final = "qos-extension-plugins"
"""The flag that switches third-party plugins by their gates, besides `--feature-gates`."""

IMPORT_SECONDS: Final = 60.0
"""How long the package of a plugin may take to be imported."""

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
    broken: Mapping[str, PluginError] = field(default_factory=dict)
    """Why installed plugins cannot be used, by `KIND/NAME`; only `usable` leaves them out."""

    @classmethod
    def find(cls) -> "Installed":
        """Return the installed plugins. Raises DuplicateName."""
        return cls._of({group: Catalogue(group, base) for group, base in GROUPS.items()})

    @classmethod
    def usable(cls, services: Iterable[type[DeclaresFlags]] = ()) -> "Installed":
        """Return the installed plugins that can be imported and do not contradict others.

        A broken package takes only its own plugins away: `broken` has the reasons. `services` have flags that
        no plugin may declare with another default. Of two plugins that contradict each other koordpy's own is
        used, else the first by name.
        """
        flags, gates = flags_of(services), dict(GATES)
        names: dict[str, EntryPoint] = {}
        accepted: dict[str, list[EntryPoint]] = {group: [] for group in GROUPS}
        broken: dict[str, PluginError] = {}
        for group, point in _entry_points():
            known = names.get(point.name)
            if known is not None and (known.group, known.value) == (group, point.value):
                continue  # the same distribution is on the path twice
            try:
                if known is not None:
                    raise DuplicateName(
                        f"{point.name!r} is a plugin of group {known.group} ({known.value}) and another of "
                        f"group {group} ({point.value})"
                    )
                catalogue = Catalogue(group, GROUPS[group], [point])
                with time_limit(IMPORT_SECONDS):
                    type_ = catalogue[point.name]
                    trial = flags.copy()
                    type_.init_flags(trial)
                gates, flags = catalogue.feature_gates(gates), trial
            except PluginError as error:
                reason = error
            except Exception as error:
                reason = PluginError(f"plugin {point.name!r} of group {group} ({point.value}): {error}")
                reason.__cause__ = error
            else:
                names[point.name] = point
                accepted[group].append(point)
                continue
            origin = "" if known is None else f" of {point.value}"
            broken[f"{group.rpartition('.')[2]}/{point.name}{origin}"] = reason
        found = {group: Catalogue(group, base, accepted[group]) for group, base in GROUPS.items()}
        return cls(found, broken)

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

    def slo_extensions(self) -> dict[str, Any]:
        """Return the defaults of NodeSLO `extensions` of all plugins. Raises DuplicateName, PluginError."""
        found: dict[str, Any] = {}
        owners: dict[str, str] = {}
        for type_ in self.types():
            for key, default in type_.slo_extensions.items():
                if key in found and found[key] != default:
                    raise DuplicateName(
                        f"key {key!r} of NodeSLO extensions has a default of plugin {owners[key]} "
                        f"and another of plugin {type_.name}"
                    )
                found[key], owners[key] = default, type_.name
        return found

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
            for name in [each for each in given if each not in known]:
                if not self.broken:
                    raise unrecognized(name, known)
                log.warning("flag %s: no plugin that can be used declares %s", QOS_EXTENSION_PLUGINS, name)
                del given[name]
        except FeatureGateError as error:
            raise FlagError(f"flag {QOS_EXTENSION_PLUGINS}: {error}") from None
        return given

    def check(self, args: Mapping[str, Mapping[str, Any]]) -> None:
        """Raise ConfigError for arguments of a plugin that is not installed, or that it does not take."""
        known = {name for name, _ in self}
        broken = {name.partition("/")[2] for name in self.broken}
        for name in args:
            if name not in known and name not in broken:
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


def _entry_points() -> list[tuple[str, EntryPoint]]:
    """Return the entry points with their groups, koordpy's own first."""
    order = list(GROUPS)
    found = [(group, point) for group in order for point in entry_points(group)]

    def rank(each: tuple[str, EntryPoint]) -> tuple[bool, int, str]:
        return distribution_name(each[1]) != "koordpy", order.index(each[0]), each[1].name

    return sorted(found, key=rank)


def _named(handle: Handle, plugin: str) -> Handle:
    """Return a handle with which a plugin's name is remembered with what it changes and measures."""
    if isinstance(handle.executor, Executor):
        handle = replace(handle, executor=handle.executor.of(plugin))
    if isinstance(handle.metrics, MetricCache):
        handle = replace(handle, metrics=PluginMetrics(handle.metrics, plugin))
    return handle


def declare_series(types: Iterable[type[NodePlugin]], metrics: Metrics) -> None:
    """Declare the kinds of series of collectors. Raises MetricError if another has one of the same name."""
    for type_ in types:
        if issubclass(type_, Collector):
            for kind in type_.kinds:
                metrics.declare(kind)


def flags_of(
    types: Iterable[type[DeclaresFlags]],
    given: Mapping[str, FlagValue] | None = None,
    *,
    ignore_unknown: bool = False,
) -> FlagSet:
    """Return the flags of the agent itself and of these types, some of them set. Raises FlagError.

    With `ignore_unknown` flags that nothing declares are named in the log and ignored.
    """
    flags = FlagSet()
    flags.declare(COLLECT_INTERVAL, timedelta(seconds=1), "time between two measurements of usage")
    flags.declare(QOS_EXTENSION_PLUGINS, "", "gates of third-party QoS plugins, such as A=true,B=false")
    for type_ in types:
        type_.init_flags(flags)
    for name, value in (given or {}).items():
        if ignore_unknown and name not in flags:
            log.warning("flag %s is ignored: no plugin that can be used declares it", name)
        else:
            flags.set(name, value)
    return flags
