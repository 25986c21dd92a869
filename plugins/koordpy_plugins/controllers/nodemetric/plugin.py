"""Give every node a NodeMetric, whose spec says how the node measures and reports.

The status is written by the node's agent alone. Where colocation is off, or the node's strategy is invalid,
the default policy is used: nodes always report. While colocation-config is faulty or missing, the specs of
existing NodeMetrics stay. Source: Koordinator, `pkg/slo-controller/nodemetric`.
"""

import logging
from typing import ClassVar

import msgspec

from koordpy.api.core import Node
from koordpy.api.koordinator import MetricAggregatePolicy, NodeMetric
from koordpy.api.needs import Needs, Right
from koordpy.api.plugin import NoArgs
from koordpy.controllers.interface import Controller, Handle
from koordpy.controllers.reconcile import reconcile_forever
from koordpy.controllers.slo import colocation, location, metrics
from koordpy.controllers.slo.config_source import ConfigSource
from koordpy.controllers.slo.node_objects import ClientWrites, NodeObjects
from koordpy.controllers.slo.node_state import NodeState, concerns_specs
from koordpy.lib import duration

from .collect_policy import Unsatisfied, collect_policy, default_policy

log = logging.getLogger(__name__)

_GROUP = "slo.koordinator.sh"


class NodeMetricController(Controller):
    """The NodeMetric controller. The keys of its queue are names of nodes."""

    name: ClassVar[str] = "nodemetric"
    needs: ClassVar[Needs] = Needs(
        rights=(
            Right("create", "nodemetrics", _GROUP),
            Right("patch", "nodemetrics", _GROUP),
            Right("delete", "nodemetrics", _GROUP),
            Right("create", "events", "events.k8s.io"),
            Right("patch", "events", "events.k8s.io"),
        )
    )
    args: NoArgs

    def __init__(self, args: NoArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.queue = handle.queue(self.name)
        self.nodes = handle.cluster.store(Node)
        self.node_metrics = handle.cluster.store(NodeMetric)
        self.config = ConfigSource(
            colocation.default(),
            colocation.parse,
            lambda: location.found(handle),
            handle.report,
            self.enqueue_all,
        )
        self.objects: NodeObjects[NodeMetric, NodeMetric.Spec] = NodeObjects(
            "NodeMetric",
            metrics.NODE_METRIC_RECONCILES,
            node=lambda name: self.nodes.get("", name),
            stored=lambda name: self.node_metrics.get("", name),
            spec_of=_canonical,
            spec_for=self.spec_for,
            writes=ClientWrites(lambda: handle.client, NodeMetric),
        )

    def setup(self) -> None:
        """Follow nodes, NodeMetrics and the configuration."""
        location.follow(self.handle, self.config)
        self.nodes.subscribe(on_add=self._enqueue, on_update=self._node_updated, on_delete=self._enqueue)
        self.node_metrics.subscribe(
            on_add=self._enqueue, on_update=self._node_metric_updated, on_delete=self._enqueue
        )

    async def run(self) -> None:
        """Reconcile every node, then each on a change."""
        self.enqueue_all()
        for node_metric in self.node_metrics:
            self._enqueue(node_metric)
        await reconcile_forever(self.queue, self.reconcile)

    async def reconcile(self, name: str) -> None:
        """Bring a node's NodeMetric up to date. Nothing is done without a usable configuration: a later one
        enqueues all nodes.
        """
        if self.config.is_available():
            await self.objects.reconcile(name)
        else:
            log.warning("colocation config is not available: NodeMetric %s is left as it is", name)

    def spec_for(self, node: Node, stored: NodeMetric.Spec | None) -> NodeMetric.Spec:
        """Return the spec of a node's NodeMetric."""
        if stored is not None and self.config.is_faulty:
            return stored
        meta = node.metadata
        try:
            policy = collect_policy(self.config.config.strategy_for(meta.labels, meta.annotations))
        except Unsatisfied as error:
            log.debug("node %s: default collect policy: %s", meta.name, error)
            policy = default_policy()
            metrics.count(metrics.NODE_METRIC_SPECS, "getNodeMetricCollectPolicy", ok=False)
        else:
            metrics.count(metrics.NODE_METRIC_SPECS, "getNodeMetricCollectPolicy", ok=True)
        return NodeMetric.Spec(metric_collect_policy=policy)

    def enqueue_all(self) -> None:
        """Enqueue every node."""
        for node in self.nodes:
            self._enqueue(node)

    def _enqueue(self, obj: Node | NodeMetric) -> None:
        self.queue.add(obj.metadata.name)

    def _node_updated(self, old: Node, new: Node) -> None:
        if concerns_specs(NodeState.of(old), NodeState.of(new)):
            self._enqueue(new)

    def _node_metric_updated(self, old: NodeMetric, new: NodeMetric) -> None:
        if old.metadata.generation != new.metadata.generation or old.spec != new.spec:
            self._enqueue(new)


def _canonical(node_metric: NodeMetric) -> NodeMetric.Spec:
    """Return a stored spec with durations as Go writes them."""
    spec = node_metric.spec
    policy = spec.metric_collect_policy
    aggregate = None if policy is None else policy.node_aggregate_policy
    if policy is None or aggregate is None or aggregate.durations is None:
        return spec
    durations = [duration.format(duration.parse(text)) for text in aggregate.durations] or None
    changed = msgspec.structs.replace(
        policy, node_aggregate_policy=MetricAggregatePolicy(durations=durations)
    )
    return NodeMetric.Spec(metric_collect_policy=changed)
