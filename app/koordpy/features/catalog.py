"""All installed features, derived from what their plugins declare and from what they follow when created.

A plugin requests the stores that it follows from its cluster when it is created; the cluster here is not
connected, so nothing happens. Third-party plugins are found like the in-tree ones.
"""

import random
from collections.abc import Callable, Iterator
from functools import cache, partial
from pathlib import Path
from typing import Final

from koordpy import data
from koordpy.admission import config as admission_config
from koordpy.admission import gates as admission_gates
from koordpy.admission.handler import Handle as AdmissionHandle
from koordpy.admission.handler import Handler
from koordpy.admission.paths import webhook_path
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.engine.plugins import Installed as AgentPlugins
from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.interface import CgroupLayout, FlagSet, NodePlugin
from koordpy.agent.interface import Handle as AgentHandle
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.states.informer import StatesInformer
from koordpy.api.core import Node, Pod
from koordpy.api.needs import Needs, Right
from koordpy.api.plugin import PluginArgs
from koordpy.api.scheme import Resource, resource_of
from koordpy.cluster.cluster import Cluster
from koordpy.compose import trial_scheduling
from koordpy.controllers import host as controller_host
from koordpy.controllers.interface import Controller
from koordpy.controllers.interface import Handle as ControllerHandle
from koordpy.descheduling.engine import framework as descheduling
from koordpy.descheduling.engine.evictor import EvictorProxy, PluginEvictor
from koordpy.descheduling.engine.limiter import EvictionLimiter
from koordpy.descheduling.explain.decisions import Decisions
from koordpy.descheduling.interface import Handle as DeschedulingHandle
from koordpy.descheduling.interface import NoPlugins
from koordpy.descheduling.interface import Plugin as DeschedulingPlugin
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.extender import light
from koordpy.scheduling.interface import (
    BeforeFilter,
    BeforePreFilter,
    BeforeScore,
    ControllerProvider,
    EnqueueExtensions,
    Filter,
    FindOneNode,
    NodeTransformer,
    PlansJobs,
    Plugin,
    PostFilter,
    Preempt,
    PreEnqueue,
    PreFilter,
    PreScore,
    ResizePod,
    Score,
)
from koordpy.scheduling.interface.handle import Handle as SchedulingHandle
from koordpy.scheduling.profiles import config as scheduling_config
from koordpy.scheduling.profiles import registry
from koordpy.scheduling.profiles.in_tree import IN_TREE
from koordpy.settings import Settings

from .agent_services import AGENT_SERVICES
from .feature import Feature, Part, followed
from .parts import NETWORK_TOPOLOGY, SCHEDULE_EXPLANATIONS, follows

_FILTER = (PreFilter, Filter, BeforePreFilter, BeforeFilter, NodeTransformer, FindOneNode)
_PRIORITIZE = (PreScore, Score, BeforeScore)
_BIND = (*(role for _, role in light.NOT_CALLED), ResizePod)

NO_CHANCE = random.Random(0)
"""For plugins that are created to be inspected and decide nothing."""


def features() -> list[Feature]:
    """Return all installed features, by part and name. Raises ConfigError."""
    found = [*_webhooks(), *_extender(), *_controllers(), *_descheduler(), *_agent()]
    order = list(Part)
    return sorted(found, key=lambda feature: (order.index(feature.part), feature.name))


def verbs_of(plugin: type[Plugin]) -> tuple[str, ...]:
    """Return the extender verbs without which a plugin is not called."""
    by_verb = (("filter", _FILTER), ("prioritize", _PRIORITIZE), ("preempt", (Preempt,)), ("bind", _BIND))
    verbs = {verb for verb, roles in by_verb if issubclass(plugin, roles)}
    if issubclass(plugin, PreEnqueue) and plugin.name not in IN_TREE:
        verbs.add("filter")
    return tuple(verb for verb, _ in by_verb if verb in verbs)


UNKNOWN_WITHOUT_ARGUMENTS = "arguments: it has no defaults for them, so what it follows is not known"


def scheduling_plugin(plugin: type[Plugin], args: PluginArgs | None = None) -> Feature:
    """Return what a scheduling plugin needs with these arguments, by default its default arguments."""
    cluster = Cluster()

    def make() -> None:
        given = plugin.read_args(None, plugin.name) if args is None else args
        plugin(given, SchedulingHandle(cluster))

    elsewhere = _elsewhere(plugin.needs, make)
    shipped = _shipped_plugins()
    verbs = verbs_of(plugin)
    return Feature(
        part=Part.EXTENDER,
        name=plugin.name,
        follows=followed({store.type for store in cluster.stores} | set(plugin.needs.later)),
        rights=tuple(dict.fromkeys((*plugin.needs.rights, *_rights_of_points(plugin)))),
        verbs=verbs,
        elsewhere=elsewhere,
        on_by_default=plugin.name in shipped,
        leads=plugin.needs.leads or issubclass(plugin, LEADING_POINTS),
        in_light_mode=plugin.watch_suffices or "bind" not in verbs,
    )


PROOF: Final = "proof before eviction"

LEADING_POINTS: Final = (ControllerProvider, EnqueueExtensions, PreEnqueue)
"""The work for these extension points is done by the leader alone."""


def _rights_of_points(plugin: type[Plugin]) -> Iterator[Right]:
    """Yield the rights for what koordpy writes on behalf of a plugin with certain extension points."""
    if plugin.name in IN_TREE:
        return
    if issubclass(plugin, EnqueueExtensions | PreEnqueue):
        yield Right("patch", "pods")  # to be tried again; gates
    if issubclass(plugin, PreEnqueue | PlansJobs) or (
        issubclass(plugin, PostFilter) and plugin.beside_kube_scheduler
    ):
        yield Right("patch", "pods/status")  # conditions, nominations
    if issubclass(plugin, PreEnqueue):
        yield Right("create", "events", "events.k8s.io")
        yield Right("patch", "events", "events.k8s.io")


def _elsewhere(needs: Needs, make: Callable[[], object]) -> tuple[str, ...]:
    """Create a plugin, so that it requests what it follows; return what it needs elsewhere.

    A third-party plugin may have no defaults for its arguments; then the return value states that.
    """
    try:
        make()
    except ValueError:  # ConfigError, pydantic's ValidationError, and what a plugin raises for bad values
        return (*needs.elsewhere, UNKNOWN_WITHOUT_ARGUMENTS)
    return needs.elsewhere


def handler(plugin: type[Handler], args: PluginArgs | None = None) -> Feature:
    """Return what an admission handler needs with these arguments, by default its default arguments."""
    cluster = Cluster()
    specs = {**admission_gates.SPECS, **plugin.feature_gates}
    everything = FeatureGates(specs, dict.fromkeys(specs, True))
    offline = AdmissionHandle(cluster, everything, NO_CHANCE)
    elsewhere = _elsewhere(
        plugin.needs, lambda: plugin(plugin.read_args(None, "args") if args is None else args, offline)
    )
    path_gate = webhook_path(plugin.path).gate
    gates = tuple(
        dict.fromkeys(
            gate
            for gate in (path_gate, plugin.feature, plugin.disabled_by and f"-{plugin.disabled_by}")
            if gate
        )
    )
    defaults = FeatureGates(specs)
    return Feature(
        part=Part.ADMISSION,
        name=plugin.identity(),
        follows=followed({store.type for store in cluster.stores} | set(plugin.needs.later)),
        rights=plugin.needs.rights,
        webhooks=(plugin.path,),
        gates=gates,
        on_by_default=(path_gate is None or defaults.enabled(path_gate)) and plugin.is_enabled(defaults),
        elsewhere=elsewhere,
    )


def _webhooks() -> Iterator[Feature]:
    for plugin in admission_config.installed().values():
        yield handler(plugin)


def _extender() -> Iterator[Feature]:
    for plugin in registry.installed().values():
        yield scheduling_plugin(plugin)
    yield from (NETWORK_TOPOLOGY, SCHEDULE_EXPLANATIONS)


@cache
def _shipped_plugins() -> frozenset[str]:
    """Return the plugins that the shipped profiles run besides kube-scheduler's own."""
    config = scheduling_config.load(data.deploy("scheduler", "koordpy-profiles.yaml"))
    handle = SchedulingHandle(Cluster())
    profiles = registry.build(config, lambda _: handle.sibling(), place=registry.Place.EXTENDER)
    return frozenset(p.name for framework in profiles.frameworks.values() for p in framework.plugins)


def frame_follows(part: Part) -> tuple[Resource, ...]:
    """Return what a part follows whichever of its features are enabled.

    The extender also runs kube-scheduler's own plugins, when it simulates kube-scheduler's decisions.
    """
    types = set(followed(follows(part, Settings())))
    if part is Part.EXTENDER:
        for name, plugin in registry.installed().items():
            if name in IN_TREE:
                types |= set(scheduling_plugin(plugin).follows)
    return tuple(sorted(types, key=lambda found: (found.group, found.plural)))


def _controllers() -> Iterator[Feature]:
    installed = controller_host.installed()
    gates = controller_host.feature_gates(installed)
    for name, type_ in installed.items():
        cluster = Cluster()
        handle = controller_handle(gates, cluster)
        elsewhere = _elsewhere(type_.needs, partial(_set_up, type_, handle))
        whole = {store.type for store in cluster.stores if not store.selector.namespace}
        yield Feature(
            part=Part.CONTROLLERS,
            name=name,
            follows=followed(whole | set(type_.needs.later)),
            rights=(*type_.needs.rights, *_in_namespaces(cluster)),
            gates=(type_.feature,) if type_.feature else (),
            on_by_default=type_.feature is None or gates.enabled(type_.feature),
            elsewhere=elsewhere,
        )


def _in_namespaces(cluster: Cluster) -> Iterator[Right]:
    """Yield the rights to follow what is followed in one namespace alone."""
    for store in cluster.stores:
        selector, resource = store.selector, resource_of(store.type)
        name = selector.fields.removeprefix("metadata.name=") if "metadata.name=" in selector.fields else ""
        if selector.namespace:
            for verb in ("list", "watch"):
                yield Right(verb, resource.plural, resource.group, selector.namespace, name)


def _set_up(type_: type[Controller], handle: ControllerHandle) -> None:
    type_.make(handle).setup()


def _descheduler() -> Iterator[Feature]:
    yield proof()
    installed = descheduling.installed()
    gates = FeatureGates(installed.feature_gates({}))
    for name, type_ in installed.items():
        cluster = Cluster()
        elsewhere = _elsewhere(type_.needs, partial(_make, type_, descheduling_handle(cluster, gates)))
        yield Feature(
            part=Part.DESCHEDULER,
            name=name,
            follows=followed({store.type for store in cluster.stores} | {Node, Pod, *type_.needs.later}),
            rights=type_.needs.rights,
            gates=(type_.feature,) if type_.feature else (),
            on_by_default=None,
            elsewhere=elsewhere,
        )


@cache
def proof() -> Feature:
    """Return what proofs of evictions need with the shipped scheduling profiles."""
    return Feature(
        part=Part.DESCHEDULER,
        name=PROOF,
        follows=followed(trial_scheduling.follows(Settings())),
        rights=(Right("patch", "pods"),),
        on_by_default=None,
        elsewhere=("proof in a profile; follows what the plugins of the scheduling profiles follow",),
    )


def _make(type_: type[DeschedulingPlugin], handle: DeschedulingHandle) -> None:
    type_.make(handle)


def controller_handle(chosen: FeatureGates, cluster: Cluster | None = None) -> ControllerHandle:
    """Return a handle for controllers that are created to be inspected."""
    return ControllerHandle(cluster or Cluster(), chosen)


def descheduling_handle(cluster: Cluster, gates: FeatureGates) -> DeschedulingHandle:
    """Return a handle for descheduling plugins that are created to be inspected."""
    proxy = EvictorProxy(EvictionLimiter(), Decisions(), dry_run=True)
    return DeschedulingHandle(
        cluster=cluster,
        client=None,
        events=None,
        clock=cluster.clock,
        evictor=PluginEvictor(proxy, ""),
        dry_run=True,
        report=lambda _: None,
        gates=gates,
        plugins=NoPlugins(),
        run_while_leading=lambda name, task: None,
    )


def _agent() -> Iterator[Feature]:
    installed = AgentPlugins.find()
    gates = FeatureGates(installed.gate_specs())
    yield from AGENT_SERVICES
    for type_ in installed.types():
        cluster = Cluster()
        handle = _on_a_node(cluster, gates, flags_of([type_]))
        elsewhere = _elsewhere(type_.needs, partial(_set_up_on_a_node, type_, handle))
        yield Feature(
            part=Part.AGENT,
            name=type_.name,
            follows=followed({store.type for store in cluster.stores} | set(type_.needs.later)),
            rights=type_.needs.rights,
            gates=(switches := (type_.feature,) if type_.feature else type_.features),
            on_by_default=not switches or any(gates.enabled(gate) for gate in switches),
            elsewhere=elsewhere,
            privileges=type_.needs.privileges,
        )


def _set_up_on_a_node(type_: type[NodePlugin], handle: AgentHandle) -> None:
    type_.make(handle).setup()


def _on_a_node(cluster: Cluster, gates: FeatureGates, flags: FlagSet) -> AgentHandle:
    """Return a handle for plugins that are created to be inspected; no node is behind it."""
    layout, files = CgroupLayout(systemd=True), CgroupFiles(Path("/sys/fs/cgroup"), Version.V2)
    return AgentHandle(
        node_name="node",
        states=StatesInformer(cluster, "node", layout),
        metrics=MetricCache(cluster.clock),
        layout=layout,
        cgroups=files,
        executor=Executor(files, cluster.clock),
        cluster=cluster,
        gates=gates,
        flags=flags,
        clock=cluster.clock,
        rng=NO_CHANCE,
    )
