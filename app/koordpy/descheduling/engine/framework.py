"""One running profile: its plugins, created once each, and the two points that a cycle runs.

Source: Koordinator, `pkg/descheduler/framework/runtime/framework.go`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, TypeVar

from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.field_error import FieldError, aggregate
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.config.configuration import Profile
from koordpy.descheduling.explain.decisions import Decisions, PluginRun
from koordpy.descheduling.explain.extracts import Verdict
from koordpy.descheduling.interface import (
    SUCCESS,
    BalancePlugin,
    DeschedulePlugin,
    EvictingPlugin,
    EvictPlugin,
    FilterPlugin,
    Handle,
    Plugin,
    SharedObjects,
    Status,
    Task,
)
from koordpy.descheduling.metrics import PLUGIN_ERRORS
from koordpy.descheduling.proof.proving import ProfileProof, Proofs
from koordpy.descheduling.toolkit.nodes import selected
from koordpy.lib import supervise
from koordpy.lib.feature_gates import FeatureGates

from .evictor import EvictorProxy, PluginEvictor
from .limiter import EvictionLimiter

log = logging.getLogger(__name__)

GROUP: Final = "koordpy.descheduling"

P = TypeVar("P", bound=Plugin)


class Tasks:
    """The loops of plugins that run while this process leads."""

    def __init__(self) -> None:
        self._tasks: list[tuple[str, Task]] = []

    def __bool__(self) -> bool:
        return bool(self._tasks)

    def add(self, name: str, task: Task) -> None:
        """Add a loop; its name appears in logs and metrics."""
        self._tasks.append((name, task))

    async def run(self) -> None:
        """Run all loops until cancelled; one that fails is logged, counted and started again."""
        async with asyncio.TaskGroup() as group:
            for name, task in self._tasks:
                group.create_task(supervise.forever(name, task), name=name)


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
    tasks: Tasks = field(default_factory=Tasks)
    identity: str = ""
    """The Lease of the descheduler, `namespace/name`: the same for every process that may lead."""
    proofs: Proofs | None = None
    """For profiles that prove evictions; None where no profile does."""
    hypothetical: bool = False
    """Whether metrics do not count what happens."""
    shared: SharedObjects = field(default_factory=SharedObjects)


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
        self._decisions, self._hypothetical = runtime.decisions, runtime.hypothetical
        self._proxy = EvictorProxy(
            runtime.limiter, runtime.decisions, runtime.dry_run, is_logged=not runtime.hypothetical
        )
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
        if profile.proof is not None and profile.proof.enabled and runtime.proofs is not None:
            evicting = {name: each for name, each in plugins.items() if isinstance(each, EvictingPlugin)}
            self._proxy.proof = ProfileProof(profile.name, profile.proof, runtime.proofs, evicting)

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
            plugins=self,
            run_while_leading=runtime.tasks.add,
            profile=self.profile.name,
            identity=runtime.identity,
            node_selector=self.profile.node_selector,
            shared=runtime.shared,
        )
        return catalogue.make(name, args, handle, where)

    @property
    def evict_plugin(self) -> EvictPlugin | None:
        """The plugin that performs evictions; None only for a profile without plugins."""
        return self._proxy.evict_plugin

    def verdict(self, pod: Pod) -> Verdict:
        """Return whether the profile's filter plugins allow evicting a pod at the moment, and why not."""
        against = self._proxy.reason_now(pod)
        if against is None:
            return Verdict(profile=self.profile.name, evictable=True)
        by, reason = against
        return Verdict(profile=self.profile.name, evictable=False, by=by, reason=reason)

    def nodes_of(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes that the profile selects."""
        return selected(nodes, self.profile.node_selector)

    async def run_deschedule_plugins(self, nodes: Sequence[Node]) -> Status:
        """Run all Deschedule plugins in order; the status has the errors of those that failed."""
        return await self._run("Deschedule", nodes, [(p.name, p.deschedule) for p in self.deschedule_plugins])

    async def run_balance_plugins(self, nodes: Sequence[Node]) -> Status:
        """Run all Balance plugins in order; the status has the errors of those that failed."""
        return await self._run("Balance", nodes, [(p.name, p.balance) for p in self.balance_plugins])

    async def _run(
        self,
        point: str,
        nodes: Sequence[Node],
        plugins: Sequence[tuple[str, Callable[[Sequence[Node]], Awaitable[Status]]]],
    ) -> Status:
        errors = []
        for name, call in plugins:
            run = PluginRun(profile=self.profile.name, plugin=name, point=point, nodes=len(nodes))
            self._decisions.begin_run(run)
            try:
                status = await call(nodes)
                run.error = status.error if isinstance(status, Status) else _not_a_status(status)
            except Exception as error:  # a plugin's failure does not affect others
                log.exception("profile %s: %s plugin %s failed", self.profile.name, point, name)
                run.error = str(error) or type(error).__name__
            finally:
                self._decisions.end_run()
            if run.error:
                if not self._hypothetical:
                    PLUGIN_ERRORS.labels(self.profile.name, name, point).inc()
                errors.append(run.error)
        return Status(aggregate(errors)) if errors else SUCCESS


def _not_a_status(value: object) -> str:
    return f"the plugin returned {value!r}, expected a Status, such as SUCCESS"


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
