"""One running profile: its plugins, created once each, and the two points that a cycle runs.

Source: Koordinator, `pkg/descheduler/framework/runtime/framework.go`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node
from koordpy.api.field_error import FieldError
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.lib.feature_gates import FeatureGates

from .args import PluginArgs
from .config import Profile
from .decisions import Decisions, PluginRun
from .evictor import EvictorProxy, PluginEvictor
from .interface import BalancePlugin, DeschedulePlugin, EvictPlugin, FilterPlugin, Handle, Plugin
from .limiter import EvictionLimiter
from .metrics import PLUGIN_ERRORS
from .nodes import selected

log = logging.getLogger(__name__)

GROUP: Final = "koordpy.descheduling"

P = TypeVar("P", bound=Plugin)


@dataclass(frozen=True)
class Runtime:
    """What all profiles of a descheduler share."""

    cluster: Cluster
    client: Client | None
    events: Recorder | None
    limiter: EvictionLimiter
    decisions: Decisions
    dry_run: bool = False
    interval: int = 0
    """Nanoseconds between two cycles; 0 for a single cycle."""
    gates: FeatureGates = field(default_factory=lambda: FeatureGates({}))


def installed() -> Catalogue[Plugin]:
    """Return the installed plugins. Raises DuplicateName."""
    return Catalogue(GROUP, Plugin)


class Framework:
    """The plugins of one profile; `path` is its place in the file.

    Raises ConfigError for a plugin that is not installed, does not extend its point, is listed twice or has
    invalid arguments, and unless exactly one evict plugin is enabled.
    """

    def __init__(
        self, profile: Profile, catalogue: Catalogue[Plugin], runtime: Runtime, path: str = "profiles[0]"
    ) -> None:
        self.profile = profile
        self.deschedule_plugins: list[DeschedulePlugin] = []
        self.balance_plugins: list[BalancePlugin] = []
        self._decisions = runtime.decisions
        self._proxy = EvictorProxy(runtime.limiter, runtime.decisions, runtime.dry_run)
        args = _read_args(profile, catalogue, path)
        if profile.plugins is None:
            return
        sets = profile.plugins
        enabled = {
            name for point in (sets.deschedule, sets.balance, sets.evict, sets.filter) for name in point.names
        }
        plugins = {
            name: self._make(name, args, catalogue, runtime, path)
            for name in sorted(enabled)
            if name in catalogue
        }
        self.deschedule_plugins = _pick(DeschedulePlugin, sets.deschedule.names, plugins)  # type: ignore[type-abstract]
        self.balance_plugins = _pick(BalancePlugin, sets.balance.names, plugins)  # type: ignore[type-abstract]
        evictors = _pick(EvictPlugin, sets.evict.names, plugins)  # type: ignore[type-abstract]
        self._proxy.filters = _pick(FilterPlugin, sets.filter.names, plugins)  # type: ignore[type-abstract]
        if len(evictors) != 1:
            raise ConfigError(
                "only one evict plugin can be enabled" if evictors else "no evict plugin is enabled"
            )
        self._proxy.evict_plugin = evictors[0]

    def _make(
        self,
        name: str,
        read: Mapping[str, tuple[str, PluginArgs]],
        catalogue: Catalogue[Plugin],
        runtime: Runtime,
        path: str,
    ) -> Plugin:
        type_ = catalogue.load(name, f"{path}.plugins")
        if type_.feature is not None and not runtime.gates.enabled(type_.feature):
            raise ConfigError(
                FieldError(
                    f"{path}.plugins", f"{name} is enabled, and its feature gate {type_.feature} is off"
                )
            )
        default = f"{path}.pluginConfig[{name}].args"
        where, args = read.get(name) or (default, type_.read_args(None, default))
        if runtime.interval > 0:
            args = args.adapted_to_interval(runtime.interval)
        handle = Handle(
            cluster=runtime.cluster,
            client=runtime.client,
            events=runtime.events,
            clock=runtime.cluster.clock,
            evictor=PluginEvictor(self._proxy, name),
            dry_run=runtime.dry_run,
            report=runtime.decisions.report,
            gates=runtime.gates,
            node_selector=self.profile.node_selector,
        )
        return catalogue.make(name, args, handle, where)

    @property
    def evict_plugin(self) -> EvictPlugin | None:
        """The plugin that performs evictions; None only for a profile without plugins."""
        return self._proxy.evict_plugin

    def nodes_of(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes that the profile selects."""
        return selected(nodes, self.profile.node_selector)

    async def run_deschedule_plugins(self, nodes: Sequence[Node]) -> list[str]:
        """Run all Deschedule plugins in order; return the errors of those that failed."""
        return await self._run("Deschedule", nodes, [(p.name, p.deschedule) for p in self.deschedule_plugins])

    async def run_balance_plugins(self, nodes: Sequence[Node]) -> list[str]:
        """Run all Balance plugins in order; return the errors of those that failed."""
        return await self._run("Balance", nodes, [(p.name, p.balance) for p in self.balance_plugins])

    async def _run(
        self,
        point: str,
        nodes: Sequence[Node],
        plugins: Sequence[tuple[str, Callable[[Sequence[Node]], Awaitable[None]]]],
    ) -> list[str]:
        errors = []
        for name, call in plugins:
            run = PluginRun(profile=self.profile.name, plugin=name, point=point, nodes=len(nodes))
            self._decisions.begin_run(run)
            try:
                await call(nodes)
            except Exception as error:  # a plugin's failure does not affect others
                log.exception("profile %s: %s plugin %s failed", self.profile.name, point, name)
                PLUGIN_ERRORS.labels(self.profile.name, name, point).inc()
                run.error = str(error) or type(error).__name__
                errors.append(run.error)
            finally:
                self._decisions.end_run()
        return errors


def _read_args(
    profile: Profile, catalogue: Catalogue[Plugin], path: str
) -> dict[str, tuple[str, PluginArgs]]:
    """Return the arguments of the installed plugins, enabled or not, with their paths."""
    read: dict[str, tuple[str, PluginArgs]] = {}
    problems: list[object] = []
    names = [entry.name for entry in profile.plugin_config]
    for index, entry in enumerate(profile.plugin_config):
        where = f"{path}.pluginConfig[{index}]"
        if entry.name in names[:index]:
            problems.append(FieldError(where, f"repeated config for plugin {entry.name}"))
            continue
        if entry.name not in catalogue:
            continue
        try:
            type_ = catalogue.load(entry.name, f"{where}.name")
            read[entry.name] = f"{where}.args", type_.read_args(entry.args, f"{where}.args")
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(*problems)
    return read


def _pick(interface: type[P], names: Sequence[str], plugins: Mapping[str, Plugin]) -> list[P]:
    point = interface.__name__
    picked: dict[str, P] = {}
    for name in names:
        plugin = plugins.get(name)
        if plugin is None:
            raise ConfigError(f'{point} "{name}" does not exist')
        if not isinstance(plugin, interface):
            raise ConfigError(f'plugin "{name}" does not extend {point} plugin')
        if name in picked:
            raise ConfigError(f'plugin "{name}" already registered as "{point}"')
        picked[name] = plugin
    return list(picked.values())
