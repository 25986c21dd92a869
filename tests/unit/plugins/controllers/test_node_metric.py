"""The nodemetric controller: the life of NodeMetrics, and how nodes are asked to measure."""

import json
from typing import Any

import pytest

from koordpy.api.core import ConfigMap, Node
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import ObjectMeta
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.controllers.interface import Handle
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.controllers.nodemetric.plugin import NodeMetricController


class Writes:
    """Takes writes down."""

    def __init__(self) -> None:
        self.made: list[tuple[str, Any]] = []

    async def create_raw(self, resource: Any, namespace: str, document: Any) -> None:
        self.made.append(("create", document["spec"]))

    async def patch_raw(self, resource: Any, namespace: str, name: str, patch: Any, kind: Any) -> None:
        self.made.append(("update", patch[0]["value"]))

    async def delete(self, type_: Any, namespace: str, name: str) -> None:
        self.made.append(("delete", name))


class World:
    def __init__(self) -> None:
        self.cluster, self.writes = Cluster(), Writes()
        handle = Handle(self.cluster, FeatureGates({}), connected=self.writes)  # type: ignore[arg-type]
        self.events: list[str] = []
        handle.report = lambda _, reason, message: self.events.append(reason)  # type: ignore[method-assign, assignment, misc]
        self.controller = NodeMetricController(NoArgs(), handle)
        self.controller.setup()

    def configure(self, text: str | dict[str, Any]) -> None:
        meta = ObjectMeta(namespace="koordinator-system", name="slo-controller-config")
        data = {"colocation-config": text if isinstance(text, str) else json.dumps(text)}
        self.cluster.store(ConfigMap).put(ConfigMap(metadata=meta, data=data))

    def node(self, **labels: str) -> Node:
        made = decode(Node, {"metadata": {"name": "n", "labels": labels}})
        self.cluster.store(Node).put(made)
        return made

    def stored(self, **policy: Any) -> NodeMetric:
        spec = {"metricCollectPolicy": policy}
        made = decode(NodeMetric, {"metadata": {"name": "n"}, "spec": spec})
        self.cluster.store(NodeMetric).put(made)
        return made

    def queued(self) -> list[str]:
        names = []
        while (name := self.controller.queue.pop()) is not None:
            self.controller.queue.done(name)
            names.append(name)
        return names

    def policy(self, node: Node, stored: NodeMetric | None = None) -> NodeMetric.CollectPolicy:
        spec = self.controller.spec_for(node, None if stored is None else stored.spec)
        assert spec.metric_collect_policy is not None
        return spec.metric_collect_policy


async def test_a_node_has_a_node_metric_as_long_as_it_exists() -> None:
    world = World()
    world.configure({"enable": True, "metricReportIntervalSeconds": 20})
    world.node()
    await world.controller.reconcile("n")
    [(verb, spec)] = world.writes.made
    assert verb == "create"
    world.cluster.store(NodeMetric).put(NodeMetric(metadata=ObjectMeta(name="n"), spec=spec))
    await world.controller.reconcile("n")
    assert len(world.writes.made) == 1
    world.configure({"enable": True, "metricReportIntervalSeconds": 30})
    await world.controller.reconcile("n")
    world.cluster.store(Node).discard("n")
    await world.controller.reconcile("n")
    assert [verb for verb, _ in world.writes.made] == ["create", "update", "delete"]
    world.cluster.store(NodeMetric).discard("n")
    await world.controller.reconcile("n")
    assert len(world.writes.made) == 3


def test_nodes_measure_by_the_strategy_where_it_is_on_and_by_default_elsewhere() -> None:
    world = World()
    nodes = [
        {"name": "off", "nodeSelector": {"matchLabels": {"pool": "off"}}, "enable": False},
        {
            "name": "own",
            "nodeSelector": {"matchLabels": {"pool": "own"}},
            "metricAggregatePolicy": {"durations": ["90s"]},
        },
    ]
    world.configure({"enable": True, "metricReportIntervalSeconds": 20, "nodeConfigs": nodes})
    assert world.policy(world.node()).report_interval_seconds == 20
    assert world.policy(world.node(pool="off")).report_interval_seconds == 60
    own = world.policy(world.node(pool="own"))
    assert own.node_aggregate_policy is not None
    assert own.node_aggregate_policy.durations == ["1m30s"]


def test_a_node_strategy_switches_measuring_on_although_the_cluster_is_off() -> None:
    world = World()
    own = {"name": "own", "nodeSelector": {}, "enable": True, "metricReportIntervalSeconds": 20}
    world.configure({"enable": False, "nodeConfigs": [own]})
    assert world.policy(world.node()).report_interval_seconds == 20


@pytest.mark.parametrize("text", ["{", '{"enable":true,"metricReportIntervalSeconds":0}'])
def test_while_the_section_is_wrong_stored_specs_stay_and_new_ones_follow_the_last_valid_one(
    text: str,
) -> None:
    world = World()
    world.configure({"enable": True, "metricReportIntervalSeconds": 20})
    node, stored = world.node(), world.stored(reportIntervalSeconds=77)
    world.queued()
    world.configure(text)
    assert world.queued() == []
    assert world.policy(node, stored).report_interval_seconds == 77
    assert world.policy(node).report_interval_seconds == 20
    assert world.events == (["ColocationCfgUnmarshalFailed"] if text == "{" else [])
    world.configure({"enable": True, "metricReportIntervalSeconds": 20})
    assert world.policy(node, stored).report_interval_seconds == 20


async def test_a_deleted_configuration_changes_nothing() -> None:
    world = World()
    world.configure({"enable": True, "metricReportIntervalSeconds": 20})
    node, stored = world.node(), world.stored(reportIntervalSeconds=20)
    world.queued()
    world.cluster.store(ConfigMap).discard("koordinator-system/slo-controller-config")
    assert world.queued() == []
    assert world.policy(node, stored).report_interval_seconds == 20


async def test_without_a_configuration_the_defaults_hold_for_new_nodes() -> None:
    world = World()
    world.node()
    await world.controller.reconcile("n")
    [(_, spec)] = world.writes.made
    assert spec.metric_collect_policy.report_interval_seconds == 60
    stored = world.stored(reportIntervalSeconds=77)
    await world.controller.reconcile("n")
    assert len(world.writes.made) == 1, stored


def test_reports_and_heartbeats_do_not_enqueue_nodes() -> None:
    world = World()
    world.node()
    world.stored(reportIntervalSeconds=20)
    world.queued()
    world.cluster.store(Node).put(decode(Node, {"metadata": {"name": "n", "annotations": {"a": "b"}}}))
    status = {"updateTime": "2030-01-01T00:00:00Z"}
    spec = {"metricCollectPolicy": {"reportIntervalSeconds": 20}}
    document = {"metadata": {"name": "n"}, "spec": spec, "status": status}
    world.cluster.store(NodeMetric).put(decode(NodeMetric, document))
    assert world.queued() == []
    world.stored(reportIntervalSeconds=30)
    assert world.queued() == ["n"]
