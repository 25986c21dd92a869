"""The interface of noderesource plugins: the stages that they implement, and what they are given.

A plugin is a class named by an entry point of group `koordpy.noderesources`. It is constructed once with its
arguments and a `Handle`, and implements any of the stages below. For each node and each reconciliation the
engine calls, in the order of the plugins: `calculate` (or `reset`, where colocation is off), `pre_update`,
then for every attempt to write `prepare`, and before the first `need_sync` and `need_sync_meta`.

An exception of a stage is logged and counted, and the other plugins go on. What a plugin failed to calculate
is missing in the result. Source: Koordinator, `pkg/slo-controller/noderesource/framework/extender_plugin.go`.
"""

import random
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import KubeObject
from koordpy.api.plugin import BasePlugin, PluginArgs
from koordpy.api.slo.colocation import ColocationStrategy
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import Clock
from koordpy.lib.feature_gates import FeatureGates

from ..interface import Handle as ControllerHandle
from ..slo.node_state import NodeState
from .demand import Demand, PodFacts, demand_of
from .node_amounts import NodeAmounts, amounts_of
from .node_resource import NodeResource as NodeResource
from .node_resource import ResourceItem as ResourceItem


class PluginError(Exception):
    """A stage cannot be run for a node; the message says why."""


@dataclass
class Handle:
    """What plugins may use. `enqueue` has a node reconciled, `enqueue_all` every node."""

    controller: ControllerHandle
    enqueue: Callable[[str], None]
    enqueue_all: Callable[[], None]

    @property
    def cluster(self) -> Cluster:
        """The view of the cluster."""
        return self.controller.cluster

    @property
    def client(self) -> Client:
        """Writes to the API server."""
        return self.controller.client

    @property
    def gates(self) -> FeatureGates:
        """The feature gates of the process."""
        return self.controller.gates

    @property
    def clock(self) -> Clock:
        """Time."""
        return self.controller.clock

    @property
    def rng(self) -> random.Random:
        """Randomness."""
        return self.controller.rng

    @property
    def sleep(self) -> Callable[[float], Awaitable[None]]:
        """Waiting."""
        return self.controller.sleep

    def report(self, regarding: KubeObject, reason: str, message: str) -> None:
        """Record a warning about an object."""
        self.controller.report(regarding, reason, message)


@dataclass
class Inputs:
    """What is known of a node's load: its NodeMetric (an empty one if there is none) and its pods.

    `demand` has their sums, which are kept between reconciliations where nothing changed.
    """

    node_metric: NodeMetric = field(default_factory=NodeMetric)
    pods: Sequence[Pod] = ()
    known_demand: Callable[[], Demand] | None = None
    _amounts: NodeAmounts | None = None

    @cached_property
    def demand(self) -> Demand:
        """The demand of the pods. Raises QuantityError."""
        if self.known_demand is not None:
            return self.known_demand()
        return demand_of(map(PodFacts.of, self.pods), self.node_metric)

    def amounts_of(self, node: NodeState) -> NodeAmounts:
        """Return capacity and reservation of the node, which are read once. Raises QuantityError."""
        if self._amounts is None:
            self._amounts = amounts_of(node)
        return self._amounts


class NodeResourcePlugin(BasePlugin, ABC):
    """The base of all noderesource plugins."""

    handle: Handle

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)

    def setup(self) -> None:
        """Request stores, and subscribe to what has nodes reconciled; called before anything is listed."""


class ResourceCalculate(NodeResourcePlugin):
    """Plugins that compute resources, labels or annotations."""

    @abstractmethod
    def calculate(
        self, strategy: ColocationStrategy, node: NodeState, inputs: Inputs
    ) -> Iterable[ResourceItem]:
        """Return results for a node. Raises PluginError."""

    def reset(self, node: NodeState, message: str) -> Iterable[ResourceItem]:
        """Return what has to go where colocation is off."""
        return ()


class NodePreUpdate(NodeResourcePlugin):
    """Plugins that write other objects before the node, once a reconciliation."""

    @abstractmethod
    async def pre_update(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Write what depends on the results. Raises PluginError, ApiError."""


class NodePrepare(NodeResourcePlugin):
    """Plugins that enter results in a node. It may be called several times for one write."""

    @abstractmethod
    def prepare(self, strategy: ColocationStrategy, node: NodeState, result: NodeResource) -> None:
        """Change the node as the results say. Raises PluginError."""


class NodeStatusCheck(NodeResourcePlugin):
    """Plugins that know when a node's status has to be written."""

    @abstractmethod
    def need_sync(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        """Return why the status has to be written, "" if it does not have to."""


class NodeMetaCheck(NodeResourcePlugin):
    """Plugins that know when a node's labels and annotations have to be written."""

    @abstractmethod
    def need_sync_meta(self, strategy: ColocationStrategy, old: NodeState, new: NodeState) -> str:
        """Return why the metadata has to be written, "" if it does not have to."""
