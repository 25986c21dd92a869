"""Write what noderesource plugins compute for nodes: batch and mid resources, devices, ratios of CPUs.

A node is reconciled whenever it, the status of its NodeMetric, its NodeResourceTopology, its Device or the
configuration changes. It is written when a resource changed by more than a threshold, when a ratio or label
changed, and when the last write is long ago. When nodes were last written is not kept over a restart. Source:
Koordinator, `pkg/slo-controller/noderesource`.
"""

import logging
from datetime import datetime
from typing import Any, ClassVar, NamedTuple

from koordpy.api.core import Node
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import parse_time
from koordpy.api.needs import Needs, Right
from koordpy.cluster.client import Client
from koordpy.cluster.errors import NotFound
from koordpy.controllers.interface import Controller, Handle
from koordpy.controllers.noderesource import catalogue
from koordpy.controllers.noderesource.demands import Demands
from koordpy.controllers.noderesource.engine import Engine
from koordpy.controllers.noderesource.evaluation import Evaluation, evaluate, needs, patch
from koordpy.controllers.noderesource.explanation import NodeResourceExplanation, explained, unavailable
from koordpy.controllers.noderesource.interface import Handle as PluginHandle
from koordpy.controllers.noderesource.interface import Inputs
from koordpy.controllers.reconcile import reconcile_forever, retried
from koordpy.controllers.slo import colocation, location, metrics
from koordpy.controllers.slo.config_source import ConfigSource
from koordpy.controllers.slo.node_state import NodeState

from .args import NodeResourceArgs

log = logging.getLogger(__name__)

_NO_METRIC = NodeMetric()


class _Prepared(NamedTuple):
    """A version of a node, and how it would be written."""

    source: Node
    node: NodeState
    prepared: NodeState


class NodeResourceController(Controller):
    """The noderesource controller. The keys of its queue are names of nodes."""

    name: ClassVar[str] = "noderesource"
    needs: ClassVar[Needs] = Needs(
        rights=(
            Right("patch", "nodes"),
            Right("patch", "nodes/status"),
            Right("get", "noderesourcetopologies", "topology.node.k8s.io"),
            Right("patch", "noderesourcetopologies", "topology.node.k8s.io"),
            Right("create", "events", "events.k8s.io"),
            Right("patch", "events", "events.k8s.io"),
        )
    )
    args: NodeResourceArgs

    def __init__(self, args: NodeResourceArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.queue = handle.queue(self.name)
        self.nodes = handle.cluster.store(Node)
        self.node_metrics = handle.cluster.store(NodeMetric)
        self.demands = Demands(handle.cluster)
        self.written: dict[str, datetime] = {}
        """When the status of a node was last written."""
        self.config = ConfigSource(
            colocation.default(),
            colocation.parse,
            lambda: location.found(handle),
            handle.report,
            self.enqueue_all,
        )
        plugin_handle = PluginHandle(handle, self.queue.add, self.enqueue_all)
        self.engine = Engine(catalogue.build(catalogue.installed(), args.plugins, plugin_handle))

    def setup(self) -> None:
        """Follow nodes, their load, and the configuration."""
        location.follow(self.handle, self.config)
        self.demands.follow()
        self.nodes.subscribe(
            on_add=self._enqueue, on_update=lambda _, node: self._enqueue(node), on_delete=self._node_deleted
        )
        self.node_metrics.subscribe(on_update=self._node_metric_updated, on_delete=self._node_metric_deleted)
        self.engine.setup()

    async def run(self) -> None:
        """Reconcile every node, then each on a change."""
        self.written.clear()
        self.enqueue_all()
        await reconcile_forever(self.queue, self.reconcile)

    async def reconcile(self, name: str) -> None:
        """Compute a node's resources and write them where they have to be. Raises ApiError,
        ConnectionFailed.
        """
        if not self.config.is_available():
            log.warning("colocation config is not available: node %s is left as it is", name)
            return
        found = self.nodes.get("", name)
        if found is None:
            metrics.count(metrics.NODE_RESOURCE_RECONCILES, "reconcileNodeNotFound", ok=False)
            return
        node = NodeState.of(found)
        evaluation = self.evaluate(node)
        await self.engine.pre_update(evaluation.strategy, node, evaluation.result)
        now, last_written = self.handle.clock.now(), self.written.get(name)
        prepared, needed = needs(self.engine, evaluation, node, last_written, now)
        errors = []
        if needed.status:
            log.debug("node %s: status is written: %s", name, needed.status)
            try:
                await self._write(evaluation, _Prepared(found, node, prepared), with_status=True)
            except Exception as error:
                errors.append(error)
        if needed.meta:
            log.debug("node %s: metadata is written: %s", name, needed.meta)
            try:
                await self._write(evaluation, _Prepared(found, node, prepared), with_status=False)
            except Exception as error:
                errors.append(error)
        if errors:
            raise errors[0]

    def evaluate(self, node: NodeState) -> Evaluation:
        """Return what holds for a node now."""
        return evaluate(self.engine, self.config.config, node, self.inputs(node.name))

    def explain(self, name: str) -> NodeResourceExplanation | None:
        """Return how the resources of a node come about now, None if there is no such node."""
        found = self.nodes.get("", name)
        if found is None:
            return None
        if not self.config.is_available():
            return unavailable(name)
        node, now = NodeState.of(found), self.handle.clock.now()
        evaluation = self.evaluate(node)
        prepared, needed = needs(self.engine, evaluation, node, self.written.get(name), now)
        reported = self.inputs(name).node_metric.status.update_time
        age = None if reported is None else (now - parse_time(reported)).total_seconds()
        return explained(node, prepared, evaluation, needed, age)

    def inputs(self, name: str) -> Inputs:
        """Return what is known of a node's load."""
        return Inputs(
            self.node_metrics.get("", name) or _NO_METRIC,
            self.demands.pods(name),
            lambda: self.demands.of(name),
        )

    def enqueue_all(self) -> None:
        """Enqueue every node."""
        for name in self.nodes.keys():  # noqa: SIM118 - a store iterates over objects
            self.queue.add(name)

    # --- writing ---------------------------------------------------------------------------------

    async def _write(self, evaluation: Evaluation, first: "_Prepared", *, with_status: bool) -> None:
        name = first.node.name
        reason = "updateNodeStatus" if with_status else "patchNodeMeta"
        client: Client = self.handle.client

        async def write() -> None:
            found = self.nodes.get("", name)
            if found is None:
                missing = "updateNodeNotFound" if with_status else "updateNodeMetaNotFound"
                metrics.count(metrics.NODE_RESOURCE_RECONCILES, missing, ok=False)
                return
            node, prepared = first.node, first.prepared
            if found is not first.source:
                node = NodeState.of(found)
                prepared = self.engine.prepare(evaluation.strategy, node, evaluation.result)
            changes: dict[str, Any] = patch(node, prepared, with_status=with_status)
            if changes:
                await client.patch(Node, "", name, changes, subresource="status" if with_status else "")

        try:
            await retried(write, rng=self.handle.rng, sleep=self.handle.sleep)
        except NotFound:
            missing = "updateNodeNotFound" if with_status else "updateNodeMetaNotFound"
            metrics.count(metrics.NODE_RESOURCE_RECONCILES, missing, ok=False)
            return
        except Exception:
            metrics.count(metrics.NODE_RESOURCE_RECONCILES, reason, ok=False)
            raise
        metrics.count(metrics.NODE_RESOURCE_RECONCILES, reason, ok=True)
        if with_status:
            self.written[name] = self.handle.clock.now()

    # --- events ----------------------------------------------------------------------------------

    def _enqueue(self, node: Node) -> None:
        self.queue.add(node.metadata.name)

    def _node_deleted(self, node: Node) -> None:
        name = node.metadata.name
        self.demands.forget(name)
        self.written.pop(name, None)
        self._enqueue(node)

    def _node_metric_updated(self, old: NodeMetric, new: NodeMetric) -> None:
        if old.status != new.status:
            self.queue.add(new.metadata.name)

    def _node_metric_deleted(self, node_metric: NodeMetric) -> None:
        name = node_metric.metadata.name
        self.written.pop(name, None)
        self.queue.add(name)
