"""A cluster in memory for the rules of node resources: the controller on it, reconciled round by round."""

from datetime import datetime, timedelta
from typing import Any

import msgspec

from koordpy.api.core import ConfigMap, Pod
from koordpy.api.device import Device
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology
from koordpy.api.meta import ObjectMeta, parse_time
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.controllers.interface import Handle
from koordpy.controllers.noderesource.engine import Needs
from koordpy.controllers.noderesource.evaluation import Evaluation, evaluate, needs
from koordpy.controllers.slo.node_state import NodeState
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.controllers.noderesource.args import NodeResourceArgs
from koordpy_plugins.controllers.noderesource.plugin import NodeResourceController

GATE = "EnableSyncGPUSharedResource"


class World:
    """The state of a vector. Writes of the NodeResourceTopology go to the store, those of nodes to `node`."""

    def __init__(self, case_in: dict[str, Any], plugins: tuple[str, ...]) -> None:
        self.began = parse_time(case_in["now"])
        self.clock = FakeClock(self.began)
        self.cluster = Cluster(self.clock)
        self.topology_writes = 0
        if case_in["config"] is not None:
            meta = ObjectMeta(namespace="koordinator-system", name="slo-controller-config")
            self.cluster.store(ConfigMap).put(ConfigMap(metadata=meta, data=case_in["config"]))
        for pod in case_in.get("pods") or ():
            self.cluster.store(Pod).put(decode(Pod, pod))
        self.put(NodeMetric, case_in.get("nodeMetric"))
        self.put(NodeResourceTopology, case_in.get("nrt"))
        self.put(Device, case_in.get("device"))
        self.device = next(iter(self.cluster.store(Device)), None)
        gates = FeatureGates({})
        gates._enabled[GATE] = bool(case_in.get("enableSyncGPUSharedResource"))
        handle = Handle(self.cluster, gates, connected=self, clock=self.clock)  # type: ignore[arg-type]
        self.controller = NodeResourceController(NodeResourceArgs(plugins=plugins), handle)
        self.node: NodeState | None = NodeState.of_document(case_in["node"])
        self.last_written: datetime | None = None
        if (age := case_in.get("lastStatusUpdateSecondsAgo")) is not None:
            self.last_written = self.began - timedelta(seconds=age)

    def put(self, type_: Any, document: dict[str, Any] | None) -> None:
        if document is not None:
            self.cluster.store(type_).put(decode(type_, document))

    async def get(self, type_: Any, namespace: str, name: str) -> Any:
        return self.cluster.store(type_).get(namespace, name)

    async def patch(self, type_: Any, namespace: str, name: str, patch: Any) -> None:
        self.topology_writes += 1
        store = self.cluster.store(NodeResourceTopology)
        zones = msgspec.convert(patch["zones"], type=list[Any])
        document = msgspec.to_builtins(store.get(namespace, name))
        store.put(decode(NodeResourceTopology, {**document, "zones": zones}))

    async def reconcile(self, at: float) -> tuple[Evaluation, NodeState, Needs] | None:
        """Reconcile the node; None if the configuration cannot be used, or there is no node."""
        self.clock.set(self.began + timedelta(seconds=at))
        controller, node = self.controller, self.node
        if not controller.config.is_available() or node is None:
            return None
        inputs = controller.inputs(node.name)
        evaluation = evaluate(controller.engine, controller.config.config, node, inputs)
        await controller.engine.pre_update(evaluation.strategy, node, evaluation.result)
        prepared, needed = needs(controller.engine, evaluation, node, self.last_written, self.clock.now())
        if needed.status:
            self.last_written = self.clock.now()
        return evaluation, prepared, needed
