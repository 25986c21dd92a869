"""One running profile: its plugins, created once each, and the two points that a cycle runs.

Source: Koordinator, `pkg/descheduler/framework/runtime/framework.go`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from koordpy.api import selector_errors
from koordpy.api.catalogue import Catalogue
from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.api.field_error import aggregate
from koordpy.api.plugin_errors import NotInstalled
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.descheduling.args import PluginArgs
from koordpy.descheduling.catalogue import GROUP, installed
from koordpy.descheduling.config.configuration import PluginConfig, Profile
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
from koordpy.descheduling.metrics import CANDIDATES, PLUGIN_ERRORS
from koordpy.descheduling.proof.proving import ProfileProof, Proofs
from koordpy.descheduling.toolkit.nodes import selected
from koordpy.lib import supervise
from koordpy.lib.feature_gates import FeatureGates

from .evictor import EvictorProxy, PluginEvictor, described
from .limiter import EvictionLimiter

__all__ = ["GROUP", "Framework", "Runtime", "Tasks", "installed"]

log = logging.getLogger(__name__)

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
    copies_args: bool = False
    """Whether the arguments of plugins are copied whole after they are read, as koord-descheduler does."""
    hypothetical: bool = False
    """Whether metrics do not count what happens."""
    shared: SharedObjects = field(default_factory=SharedObjects)


class Framework:
    """The plugins of one profile.

    Raises ConfigError for a plugin that is not installed, does not extend its point, is listed twice or has
    invalid arguments, and unless exactly one evict plugin is enabled.
    """

    def __init__(self, profile: Profile, catalogue: Catalogue[Plugin], runtime: Runtime) -> None:
        self.profile = profile
        self.deschedule_plugins: list[DeschedulePlugin] = []
        self.balance_plugins: list[BalancePlugin] = []
        self._decisions, self._hypothetical = runtime.decisions, runtime.hypothetical
        self._proxy = EvictorProxy(
            runtime.limiter,
            runtime.decisions,
            runtime.dry_run,
            is_logged=not runtime.hypothetical,
            profile=profile.name,
        )
        self._completed: list[PluginConfig] = []
        documents = _documents(profile)
        if profile.plugins is None:
            return
        sets = profile.plugins
        names = {*sets.deschedule.names, *sets.balance.names, *sets.evict.names, *sets.filter.names}
        plugins = {}
        for name in sorted(name for name in names if name in catalogue):
            try:
                plugins[name] = self._make(name, documents.get(name), catalogue, runtime)
            except ConfigError as error:
                raise type(error)(f'initializing plugin "{name}": {aggregate(error.problems)}') from error
        pick = _Picker(plugins, catalogue)
        self.deschedule_plugins = pick(DeschedulePlugin, sets.deschedule.names)  # type: ignore[type-abstract]
        self.balance_plugins = pick(BalancePlugin, sets.balance.names)  # type: ignore[type-abstract]
        evictors = pick(EvictPlugin, sets.evict.names)  # type: ignore[type-abstract]
        self._proxy.filters = pick(FilterPlugin, sets.filter.names)  # type: ignore[type-abstract]
        if len(evictors) != 1:
            raise ConfigError(
                "only one evict plugin can be enabled" if evictors else "no evict plugin is enabled"
            )
        self._proxy.evict_plugin = evictors[0]
        if profile.proof is not None and profile.proof.enabled and runtime.proofs is not None:
            evicting = {name: each for name, each in plugins.items() if isinstance(each, EvictingPlugin)}
            self._proxy.proof = ProfileProof(profile.name, profile.proof, runtime.proofs, evicting)

    def _make(self, name: str, document: object, catalogue: Catalogue[Plugin], runtime: Runtime) -> Plugin:
        """Create a plugin; its arguments are decoded already or a document."""
        type_ = catalogue.load(name)
        if type_.feature is not None and not runtime.gates.enabled(type_.feature):
            raise ConfigError(f"{name} is enabled, and its feature gate {type_.feature} is off")
        if isinstance(document, PluginArgs):
            args = document
            if problems := list(args.problems()):
                raise ConfigError(*problems)
        else:
            strict = type_.args_type.model_config.get("extra") == "forbid"
            args = type_.read_args(document if strict else _without_type(document), "")
        if runtime.interval > 0:
            args = args.adapted_to_interval(runtime.interval)
        if document is not None:
            known = isinstance(document, PluginArgs)
            self._completed.append(PluginConfig(name=name, args=args if known else document))
        if runtime.copies_args:
            args = args.copied_whole()
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
            not_evicted=_nothing if runtime.proofs is None else runtime.proofs.not_evicted,
        )
        return catalogue.make(name, args, handle)

    @property
    def completed_profile(self) -> Profile:
        """The profile with the arguments of its plugins, by name, as they are in effect.

        Plugins that are not enabled are left out, and those without arguments.
        """
        return self.profile.model_copy(update={"plugin_config": self._completed})

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

    @property
    def selector_error(self) -> str:
        """What is wrong with the profile's selector of nodes: Koordinator too finds out in every cycle."""
        selector = self.profile.node_selector
        return "" if selector is None else selector_errors.reason(selector)

    def nodes_of(self, nodes: Sequence[Node]) -> list[Node]:
        """Return the nodes that the profile selects; none if its selector is invalid."""
        if self.selector_error:
            return []
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
                run.error = described(point, name, error)
            finally:
                self._decisions.end_run()
            if not self._hypothetical:
                self._count(run)
            if run.error:
                errors.append(run.error)
        return Status(aggregate(errors)) if errors else SUCCESS

    @staticmethod
    def _count(run: PluginRun) -> None:
        if run.error:
            PLUGIN_ERRORS.labels(run.profile, run.plugin, run.point).inc()
        for attempts in run.attempts:
            CANDIDATES.labels(run.plugin, attempts.outcome).inc(attempts.pods)
        for others in run.not_evicted_counts:
            CANDIDATES.labels(run.plugin, others.outcome).inc(others.pods)


def _nothing(uid: str) -> None:
    """Take a report that no proof waits for."""


def _not_a_status(value: object) -> str:
    return f"the plugin returned {value!r}, expected a Status, such as SUCCESS"


def _documents(profile: Profile) -> dict[str, object]:
    """Return the arguments of the plugins by name; None for an entry without any."""
    documents: dict[str, object] = {}
    for entry in profile.plugin_config:
        if entry.name in documents:
            raise ConfigError(f"repeated config for plugin {entry.name}")
        documents[entry.name] = entry.args
    return documents


def _without_type(document: object) -> object:
    """Return a document without apiVersion and kind, which are ignored where unknown fields are."""
    if not isinstance(document, dict):
        return document
    return {
        name: value
        for name, value in document.items()
        if name not in ("apiVersion", "kind") or not isinstance(value, str)
    }


@dataclass(frozen=True)
class _Picker:
    """Finds the plugins of a point among those that were created."""

    plugins: Mapping[str, Plugin]
    catalogue: Catalogue[Plugin]

    def __call__(self, interface: type[P], names: Sequence[str]) -> list[P]:
        point = interface.__name__
        picked: dict[str, P] = {}
        for name in names:
            plugin = self.plugins.get(name)
            if plugin is None:
                raise NotInstalled(f'{point} "{name}" does not exist; {self.catalogue.missing(name)}')
            if not isinstance(plugin, interface):
                raise ConfigError(f'plugin "{name}" does not extend {point} plugin')
            if name in picked:
                raise ConfigError(f'plugin "{name}" already registered as "{point}"')
            picked[name] = plugin
        return list(picked.values())
