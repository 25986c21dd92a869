"""Runs one plugin of the controller noderesource on a node in memory."""

from collections.abc import Mapping, Sequence
from typing import TypeVar

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.slo.colocation import DEFAULT, ColocationStrategy
from koordpy.cluster.cluster import Cluster
from koordpy.controllers.interface import Handle as ControllerHandle
from koordpy.controllers.noderesource.interface import (
    Handle,
    Inputs,
    NodePrepare,
    NodeResource,
    NodeResourcePlugin,
    ResourceCalculate,
)
from koordpy.controllers.slo.node_state import NodeState
from koordpy.lib.feature_gates import FeatureGates

from .cluster import settle

P = TypeVar("P", bound=NodeResourcePlugin)


def set_up(plugin: type[P], cluster: Cluster, *, gates: Mapping[str, bool] | None = None) -> P:
    """Take a plugin through construction and `setup`. Raises ConfigError, FeatureGateError."""
    controller = ControllerHandle(cluster, FeatureGates(plugin.feature_gates, gates), clock=cluster.clock)
    made = plugin.make(Handle(controller, lambda _: None, lambda: None), None)
    made.setup()
    settle(cluster)
    return made


def updated(
    plugin: NodeResourcePlugin,
    node: Node,
    *,
    metric: NodeMetric | None = None,
    pods: Sequence[Pod] = (),
    strategy: ColocationStrategy = DEFAULT,
) -> NodeState:
    """Return what a node becomes by the results of a plugin alone. Raises PluginError.

    `metric` is its NodeMetric, `pods` are those on it; the node itself stays as it is.
    """
    state, result = NodeState.of(node).copy(), NodeResource()
    if isinstance(plugin, ResourceCalculate):
        inputs = Inputs(metric or NodeMetric(), pods)
        result.set(plugin.calculate(strategy, state.copy(), inputs))
    if isinstance(plugin, NodePrepare):
        plugin.prepare(strategy, state, result)
    return state
