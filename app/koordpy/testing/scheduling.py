"""Runs scheduling plugins on a cluster described by a test, one attempt at a time.

>>> from koordpy.testing.cluster import cluster
>>> from koordpy.testing.objects import node, pod
>>> from koordpy.testing.scheduling import Scheduling
>>> scheduling = Scheduling(cluster(node("small", cpu=1), node("large")), in_tree=True)
>>> found = scheduling.find(pod("web", cpu=4))
>>> found.fits, found.refused["small"]
(['large'], 'Insufficient cpu')
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec

from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.cycle.plans import Plans
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Bind, Binding, Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plan import PLAN
from koordpy.scheduling.interface.status import SUCCESS, Code, Status
from koordpy.scheduling.profiles.config import PluginConfig, PluginRef, Plugins, PluginSet, Profile
from koordpy.scheduling.profiles.config import SchedulerConfiguration as Configuration
from koordpy.scheduling.profiles.registry import Place, build, installed

from .cluster import settle


class AttemptFailed(AssertionError):
    """An attempt failed unexpectedly: a point raised, or returned an Error."""


@dataclass
class Found:
    """The result of filtering and scoring."""

    fits: list[str] = field(default_factory=list)
    """The nodes that the pod fits, by name, in the order of the cluster."""
    refused: dict[str, str] = field(default_factory=dict)
    """The rejection messages by node."""
    statuses: dict[str, Status] = field(default_factory=dict)
    """The same with code and plugin."""
    scores: dict[str, int] = field(default_factory=dict)
    """The weighted total of each node that fits."""
    scores_by_plugin: dict[str, dict[str, int]] = field(default_factory=dict)
    """Normalised scores with the plugin's weight, by plugin, then node."""
    plan: dict[str, str] = field(default_factory=dict)
    """The nodes that FindOneNode has planned for pods, by `namespace/name`, where it answered with a plan."""

    @property
    def best(self) -> str:
        """The node with the highest total, the first by name if several; empty if no node fits."""
        return min(self.fits, key=lambda name: (-self.scores.get(name, 0), name), default="")


@dataclass
class Placed:
    """Where a pod was bound, with its annotations and labels; or why it was not."""

    node: str = ""
    annotations: dict[str, str] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    status: Status = SUCCESS
    waits: dict[str, float] = field(default_factory=dict)
    """The Permit plugins that made the pod wait, with their timeouts; it was not bound then."""


class Scheduling:
    """One profile with the given plugins, on one cluster.

    Plugins are classes, or names of installed ones. `args` are the plugins' arguments by name, as in a
    configuration file; `weights` those of Score. With `in_tree` kube-scheduler's default plugins run as well.
    """

    def __init__(
        self,
        cluster: Cluster,
        *plugins: type[Plugin] | str,
        args: Mapping[str, Mapping[str, Any]] | None = None,
        weights: Mapping[str, int] | None = None,
        in_tree: bool = False,
        gates: FeatureGates | None = None,
    ) -> None:
        given = [plugin if isinstance(plugin, str) else plugin.name for plugin in plugins]
        classes = dict(installed()) | {p.name: p for p in plugins if not isinstance(p, str)}
        classes["DefaultBinder"] = _Binder
        refs = tuple(PluginRef(name=name, weight=(weights or {}).get(name, 1)) for name in given)
        config = tuple(
            PluginConfig(name=name, args=dict(document)) for name, document in (args or {}).items()
        )
        profile = Profile(plugins=Plugins(multi_point=PluginSet(enabled=refs)), plugin_config=config)
        self.cluster = cluster
        self.handle = Handle(cluster)
        profiles = build(
            Configuration(profiles=(profile,)),
            lambda _: self.handle,
            place=Place.EXTENDER,
            classes=classes,
            gates=gates,
        )
        framework = profiles.whole_of("") if in_tree else profiles.of("")
        assert framework is not None
        self.framework: Framework = framework
        self._plans = Plans((framework,), self.handle)
        settle(cluster)

    def plugin(self, name: str) -> Plugin:
        """Return a plugin's instance."""
        return next(plugin for plugin in self.framework.plugins if plugin.name == name)

    def find(self, pod: Pod) -> Found:
        """Filter and score all nodes for a pod; nothing is allocated. Raises AttemptFailed."""
        return self._find(self.framework.new_state(), pod)

    def _find(self, state: CycleState, pod: Pod) -> Found:
        nodes = self.cluster.nodes.all()
        outcome = self.framework.find_feasible(state, pod, nodes)
        broken = outcome.error
        if broken is None and outcome.prefilter.code is Code.ERROR:
            broken = outcome.prefilter
        if broken is not None:
            raise AttemptFailed(f"filtering nodes for pod {pod.metadata.key}: {broken.message}")
        found = Found()
        if not outcome.prefilter.is_success:
            found.statuses = dict.fromkeys(nodes.names, outcome.prefilter)
        else:
            found.statuses = {name: status for status, names in outcome.failed() for name in names}
            found.fits = list(outcome.kept.names)
        found.refused = {name: status.message for name, status in found.statuses.items()}
        plan = state.read(PLAN)
        if plan is not None:
            found.plan = {each.pod.metadata.key: each.node_name for each in plan.pods}
        if found.fits and self.framework.scores:
            scores, status = self.framework.run_score(state, pod, outcome.kept)
            if scores is None:
                raise AttemptFailed(f"scoring nodes for pod {pod.metadata.key}: {status.message}")
            found.scores = dict(zip(found.fits, scores.total.tolist(), strict=True))
            found.scores_by_plugin = {
                plugin: dict(zip(found.fits, values.tolist(), strict=True))
                for plugin, values in scores.by_plugin.items()
            }
        return found

    async def place(self, pod: Pod, node: str = "") -> Placed:
        """Run a whole cycle, from filtering to a bound pod in the cluster's store.

        The best node is used, or the named one. A failure after Filter rolls everything back. A plan of
        FindOneNode applies to its pods that are placed later, until the placement of one of them fails.
        """
        framework, state = self.framework, self.framework.new_state()
        self.cluster.store(Pod).apply(pod)
        self._plans.begin(state, pod, self.cluster.nodes.all())
        found = self._find(state, pod)
        node = node or found.best
        if node not in found.fits:
            self._plans.failed(pod)
            return Placed(status=found.statuses.get(node, Status.unschedulable("no node fits")))
        self._plans.found(state, pod)
        with Placement(framework, state, pod, node) as placement:
            status = placement.reserve()
            if status.is_success:
                status = placement.permit()
            if status.code is Code.WAIT:
                return Placed(status=status, waits=dict(placement.waits))
            if status.is_success:
                status = await placement.pre_bind()
            binding = placement.binding
            if status.is_success:
                bind = framework.run_bind(state, placement.pod, binding)
                status = await placement.write(bind)
        if not status.is_success:
            self._plans.failed(pod)
            return Placed(status=status)
        placement.post_bind()
        return Placed(node, binding.annotations, binding.labels)


class _Binder(Plugin, Bind):
    """Binds as the watch would show it."""

    name = "DefaultBinder"

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Store the bound pod."""
        annotations = {**pod.metadata.annotations, **binding.annotations}
        labels = {**pod.metadata.labels, **binding.labels}
        self.handle.cluster.store(Pod).apply(
            msgspec.structs.replace(
                pod,
                metadata=msgspec.structs.replace(pod.metadata, annotations=annotations, labels=labels),
                spec=msgspec.structs.replace(pod.spec, node_name=binding.node_name),
                status=msgspec.structs.replace(pod.status, phase="Running"),
            )
        )
        return SUCCESS


# --- expectations --------------------------------------------------------------------------------


def assert_fits(found: Found, *nodes: str) -> None:
    """Expect that the pod fits these nodes and no others."""
    wrong = sorted(set(nodes) ^ set(found.fits))
    told = "; ".join(f"{name}: {found.refused.get(name, 'fits')}" for name in wrong)
    assert not wrong, f"expected nodes {sorted(nodes)} to fit, got {sorted(found.fits)} ({told})"


def assert_refused(found: Found, node: str, because: str, *, by: str = "") -> None:
    """Expect that a node is rejected with a message that contains a text, by a plugin if one is named."""
    assert node in found.statuses, (
        f"expected node {node} to be refused because of {because!r}, but it "
        f"{'fits' if node in found.fits else 'is not in the cluster'}"
    )
    status = found.statuses[node]
    assert because in status.message, f"node {node}: expected {because!r} in {status.message!r}"
    assert by in ("", status.plugin), f"node {node}: expected plugin {by} to refuse it, got {status.plugin}"


def assert_prefers(found: Found, node: str, *, over: str) -> None:
    """Expect that a node has a higher total than another one."""
    for name in (node, over):
        assert name in found.scores, f"node {name} has no score: {found.refused.get(name, 'unknown node')}"
    mine, other = found.scores[node], found.scores[over]
    told = {plugin: (s[node], s[over]) for plugin, s in found.scores_by_plugin.items()}
    assert mine > other, f"expected {node} ({mine}) before {over} ({other}); by plugin: {told}"
