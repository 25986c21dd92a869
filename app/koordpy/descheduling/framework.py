"""One profile at work: its plugins, made once each, and the two points that a cycle runs.

Source: Koordinator, `pkg/descheduler/framework/runtime/framework.go`.
"""

import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from koordpy.api import config_model
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder

from .args import API_VERSION, PluginArgs
from .config import Profile
from .decisions import Decisions, PluginRun
from .evictor import EvictorProxy, PluginEvictor
from .interface import BalancePlugin, DeschedulePlugin, EvictPlugin, FilterPlugin, Handle, Plugin
from .limiter import EvictionLimiter
from .metrics import PLUGIN_ERRORS
from .nodes import selected
from .registry import Registry

log = logging.getLogger(__name__)

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
    """Nanoseconds between two cycles; 0: one cycle only."""


class Framework:
    """The plugins of one profile.

    Raises ConfigError for a plugin that is not installed, does not extend its point, is listed twice,
    refuses its arguments, and when not exactly one evict plugin is enabled.
    """

    def __init__(self, profile: Profile, registry: Registry, runtime: Runtime) -> None:
        self.profile = profile
        self.deschedule_plugins: list[DeschedulePlugin] = []
        self.balance_plugins: list[BalancePlugin] = []
        self._decisions = runtime.decisions
        self._proxy = EvictorProxy(runtime.limiter, runtime.decisions, runtime.dry_run)
        if profile.plugins is None:
            return
        args = _args_by_name(profile)
        sets = profile.plugins
        enabled = {
            name for point in (sets.deschedule, sets.balance, sets.evict, sets.filter) for name in point.names
        }
        plugins = {
            name: _make(name, args.get(name), registry, self._handle(name, runtime), runtime.interval)
            for name in sorted(enabled)
            if name in registry
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

    def _handle(self, name: str, runtime: Runtime) -> Handle:
        return Handle(
            runtime.cluster,
            runtime.client,
            runtime.events,
            runtime.cluster.clock,
            PluginEvictor(self._proxy, name),
            runtime.dry_run,
            runtime.decisions.report,
        )

    @property
    def evict_plugin(self) -> EvictPlugin | None:
        """The plugin that carries evictions out; None only for a profile without plugins."""
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
            except Exception as error:  # a plugin's failure is its own
                log.exception("profile %s: %s plugin %s failed", self.profile.name, point, name)
                PLUGIN_ERRORS.labels(self.profile.name, name, point).inc()
                run.error = str(error) or type(error).__name__
                errors.append(run.error)
            finally:
                self._decisions.end_run()
        return errors


def decode_args(name: str, raw: Mapping[str, Any] | None, registry: Registry) -> PluginArgs | None:
    """Read a plugin's arguments, with defaults; None for a plugin that takes them raw or is not installed.

    Raises ConfigError for an unknown field, a value of another type, or another plugin's kind.
    """
    factory = registry.get(name)
    if factory is None or factory.args_type is None:
        return None
    return config_model.read_args(
        factory.args_type,
        raw or {},
        f"pluginConfig[{name}].args",
        api_version=API_VERSION,
        kind=f"{name}Args",
    )


def _args_by_name(profile: Profile) -> dict[str, dict[str, Any] | None]:
    args: dict[str, dict[str, Any] | None] = {}
    for entry in profile.plugin_config:
        if entry.name in args:
            raise ConfigError(f"repeated config for plugin {entry.name}")
        args[entry.name] = entry.args
    return args


def _make(name: str, raw: dict[str, Any] | None, registry: Registry, handle: Handle, interval: int) -> Plugin:
    factory = registry.get(name)
    if factory is None:
        raise ConfigError(f"no plugin named {name} exists")
    try:
        args = decode_args(name, raw, registry)
        if args is not None and interval > 0:
            args = args.adapted_to_interval(interval)
        return factory(raw if args is None else args, handle)
    except ValueError as error:
        raise ConfigError(f'initializing plugin "{name}": {error}') from error


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
