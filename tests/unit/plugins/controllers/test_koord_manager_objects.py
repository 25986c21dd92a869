"""The same objects as koord-manager's.

`koord_manager_objects.json` is what a kube-apiserver had when koord-manager's SLO controllers and koordpy's
node agent had worked on it for two minutes: the NodeMetric whose spec koord-manager wrote and whose status
the agent reported, the NodeSLO, the node's resources and the zones that came of them. koordpy's controllers
make the same of the same report and configuration.
"""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koordpy.agent.toolkit import collect_policy
from koordpy.api import extension
from koordpy.api.core import ConfigMap, Node, Pod
from koordpy.api.koordinator import NodeMetric, NodeResourceTopology, NodeSLO
from koordpy.api.meta import parse_time
from koordpy.api.quantity import from_wire
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.controllers.host import build, feature_gates, installed
from koordpy.controllers.interface import Handle
from koordpy.lib.clock import FakeClock

OBJECTS = json.loads((Path(__file__).parent / "koord_manager_objects.json").read_text())
COMPUTED = (extension.BATCH_CPU, extension.BATCH_MEMORY, extension.MID_CPU, extension.MID_MEMORY)


class Writes:
    """Keeps merge patches by kind and subresource."""

    def __init__(self) -> None:
        self.made: dict[tuple[str, str], Any] = {}

    async def patch(
        self, type_: Any, namespace: str, name: str, patch: Any, *, subresource: str = ""
    ) -> None:
        self.made[type_.__name__, subresource] = patch


class World:
    """The controllers on the recorded objects, without what koord-manager computed."""

    def __init__(self) -> None:
        self.writes = Writes()
        self.clock = FakeClock(parse_time(OBJECTS["nodeMetric"]["status"]["updateTime"]))
        self.cluster = Cluster(self.clock)
        catalogue = installed()
        handle = Handle(self.cluster, feature_gates(catalogue), connected=self.writes, clock=self.clock)  # type: ignore[arg-type]
        names = ("nodemetric", "nodeslo", "noderesource")
        self.controllers: dict[str, Any] = {item.name: item for item in build(catalogue, names, {}, handle)}
        for controller in self.controllers.values():
            controller.setup()
        for key, type_ in (("configMap", ConfigMap), ("nodeMetric", NodeMetric), ("nodeSLO", NodeSLO)):
            self.cluster.store(type_).put(decode(type_, OBJECTS[key]))
        for pod in OBJECTS["pods"]:
            self.cluster.store(Pod).put(decode(Pod, pod))
        self.cluster.store(Node).put(decode(Node, without_results(OBJECTS["node"])))
        self.cluster.store(NodeResourceTopology).put(
            decode(NodeResourceTopology, {**OBJECTS["topology"], "zones": zones_without_results()})
        )

    @property
    def node(self) -> Node:
        found = self.cluster.store(Node).get("", OBJECTS["node"]["metadata"]["name"])
        assert found is not None
        return found


def without_results(node: dict[str, Any]) -> dict[str, Any]:
    status = {
        place: {name: amount for name, amount in amounts.items() if name not in COMPUTED}
        for place, amounts in node["status"].items()
    }
    annotations = {
        key: text
        for key, text in node["metadata"]["annotations"].items()
        if not key.startswith("node.koordinator")
    }
    return {**node, "metadata": {**node["metadata"], "annotations": annotations}, "status": status}


def zones_without_results() -> list[dict[str, Any]]:
    return [
        {**zone, "resources": [item for item in zone["resources"] if item["name"] not in COMPUTED]}
        for zone in OBJECTS["topology"]["zones"]
    ]


def test_the_spec_of_the_node_metric_is_the_same() -> None:
    world = World()
    [stored] = world.cluster.store(NodeMetric)
    assert world.controllers["nodemetric"].spec_for(world.node, stored.spec) == stored.spec


def test_the_agent_honours_the_collect_policy() -> None:
    policy = collect_policy.completed(decode(NodeMetric, OBJECTS["nodeMetric"]).spec)
    assert policy.interval_seconds == 30
    reported = OBJECTS["nodeMetric"]["status"]["nodeMetric"]
    for usages in (reported["aggregatedNodeUsages"], reported["aggregatedSystemUsages"]):
        assert [usage["duration"] for usage in usages] == ["1m0s", "2m30s"]


def test_the_node_slo_is_the_same() -> None:
    world = World()
    [stored] = world.cluster.store(NodeSLO)
    rendered = world.controllers["nodeslo"].spec_for(world.node, stored.spec)
    assert rendered == stored.spec
    assert msgspec.to_builtins(rendered) == OBJECTS["nodeSLO"]["spec"]


@pytest.mark.parametrize("place", ["capacity", "allocatable"])
async def test_the_resources_of_the_node_are_the_same(place: str) -> None:
    world = World()
    await world.controllers["noderesource"].reconcile(world.node.metadata.name)
    written = world.writes.made["Node", "status"]["status"][place]
    expected = {name: OBJECTS["node"]["status"][place][name] for name in COMPUTED}
    assert written == expected


async def test_the_annotations_of_the_node_are_the_same() -> None:
    world = World()
    await world.controllers["noderesource"].reconcile(world.node.metadata.name)
    written = {
        **world.writes.made["Node", "status"]["metadata"]["annotations"],
        **world.writes.made["Node", ""]["metadata"]["annotations"],
    }
    known = OBJECTS["node"]["metadata"]["annotations"]
    assert written == {key: text for key, text in known.items() if key.startswith("node.koordinator")}


async def test_the_zones_of_the_topology_are_the_same() -> None:
    world = World()
    await world.controllers["noderesource"].reconcile(world.node.metadata.name)
    written = world.writes.made["NodeResourceTopology", ""]["zones"]
    assert comparable(written) == comparable(OBJECTS["topology"]["zones"])


def comparable(zones: list[dict[str, Any]]) -> dict[str, Any]:
    fields = ("capacity", "allocatable", "available")
    return {
        zone["name"]: {
            item["name"]: [from_wire(item[field]).nano_value() for field in fields]
            for item in zone["resources"]
        }
        for zone in zones
    }
