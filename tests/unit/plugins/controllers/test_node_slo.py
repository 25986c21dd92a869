"""The nodeslo controller: the life of NodeSLOs, and sections of third parties."""

import logging
from collections.abc import Iterator, Mapping
from typing import Any

import pytest

from koordpy.api.core import ConfigMap, Node
from koordpy.api.koordinator import NodeSLO
from koordpy.api.meta import ObjectMeta
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import AlreadyExists
from koordpy.controllers.interface import Handle
from koordpy.controllers.reconcile import reconcile_once
from koordpy.controllers.slo import extensions
from koordpy.controllers.slo.extensions import AlreadyRegistered, NodeSLOExtension
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.controllers.nodeslo.plugin import NodeSLOController


class Writes:
    """Takes writes down."""

    def __init__(self) -> None:
        self.made: list[tuple[str, str]] = []
        self.refusal: Exception | None = None

    async def create_raw(self, resource: Any, namespace: str, document: Any) -> None:
        if self.refusal is not None:
            raise self.refusal
        self.made.append(("create", document["metadata"]["name"]))

    async def patch_raw(self, resource: Any, namespace: str, name: str, patch: Any, kind: Any) -> None:
        self.made.append(("update", name))

    async def delete(self, type_: Any, namespace: str, name: str) -> None:
        self.made.append(("delete", name))


class World:
    def __init__(self) -> None:
        self.cluster, self.writes = Cluster(), Writes()
        handle = Handle(self.cluster, FeatureGates({}), connected=self.writes)  # type: ignore[arg-type]
        self.events: list[tuple[str, str]] = []
        handle.report = lambda _, reason, message: self.events.append((reason, message))  # type: ignore[method-assign, assignment, misc]
        self.controller = NodeSLOController(NoArgs(), handle)
        self.controller.setup()

    def configure(self, **data: str) -> None:
        meta = ObjectMeta(namespace="koordinator-system", name="slo-controller-config")
        sections = {name.replace("_", "-"): text for name, text in data.items()}
        self.cluster.store(ConfigMap).put(ConfigMap(metadata=meta, data=sections))

    def node(self, **labels: str) -> Node:
        node = decode(Node, {"metadata": {"name": "n", "labels": labels}})
        self.cluster.store(Node).put(node)
        return node

    def queued(self) -> list[str]:
        names = []
        while (name := self.controller.queue.pop()) is not None:
            self.controller.queue.done(name)
            names.append(name)
        return names


async def test_a_node_has_a_node_slo_as_long_as_it_exists() -> None:
    world = World()
    node = world.node()
    await world.controller.reconcile("n")
    spec = world.controller.spec_for(node, None)
    world.cluster.store(NodeSLO).put(NodeSLO(metadata=ObjectMeta(name="n"), spec=spec))
    await world.controller.reconcile("n")
    world.configure(resource_threshold_config='{"clusterStrategy":{"enable":true}}')
    await world.controller.reconcile("n")
    world.cluster.store(Node).discard("n")
    await world.controller.reconcile("n")
    assert world.writes.made == [("create", "n"), ("update", "n"), ("delete", "n")]


async def test_a_node_slo_that_its_watch_has_not_shown_yet_is_awaited_without_an_error(
    caplog: pytest.LogCaptureFixture,
) -> None:
    world = World()
    world.node()
    world.writes.refusal = AlreadyExists("POST", "/nodeslos", 409, "AlreadyExists", "exists", {}, None)
    queue = world.controller.queue
    name = queue.pop()
    assert name is not None
    with caplog.at_level(logging.INFO):
        await reconcile_once(queue, name, world.controller.reconcile)
    assert caplog.messages == []
    assert queue.failures(name) == 1


def test_a_broken_section_is_reported_and_the_others_count() -> None:
    world = World()
    node = world.node()
    world.configure(cpu_burst_config="{", resource_threshold_config='{"clusterStrategy":{"enable":true}}')
    [(reason, message)] = world.events
    assert reason == "SLOCfgUnmarshalFailed"
    assert message.startswith("failed to unmarshal CPUBurstCfg, err: ")
    threshold = world.controller.spec_for(node, None).resource_used_threshold_with_be
    assert threshold is not None
    assert threshold.enable


def test_changes_of_labels_and_of_the_configuration_enqueue_nodes_and_other_changes_do_not() -> None:
    world = World()
    world.node(a="b")
    assert world.queued() == ["n"]
    world.node(a="b")
    assert world.queued() == []
    world.node(a="c")
    assert world.queued() == ["n"]
    world.configure(system_config='{"clusterStrategy":{"minFreeKbytesFactor":10}}')
    assert world.queued() == ["n"]
    world.configure(system_config='{"clusterStrategy":{"minFreeKbytesFactor":10}}', other="x")
    assert world.queued() == []


class Team(NodeSLOExtension):
    """A section per node from a key of its own."""

    def merge(self, config: Mapping[str, Any], data: Mapping[str, str]) -> dict[str, Any]:
        if data.get("team-config") == "bad":
            raise ValueError("bad")
        return {**config, "team": data.get("team-config", "")}

    def section(self, node: Node, config: Mapping[str, Any]) -> tuple[str, Any | None]:
        return "team", config.get("team") or None


@pytest.fixture
def team() -> Iterator[None]:
    extensions.register_node_slo_extension("team", Team())
    yield
    extensions.unregister_node_slo_extension("team")


@pytest.mark.usefixtures("team")
def test_third_parties_add_and_remove_sections() -> None:
    world = World()
    node = world.node()
    world.configure(team_config="blue")
    with_section = world.controller.spec_for(node, None)
    assert with_section.extensions is not None
    assert with_section.extensions.object == {"team": "blue"}
    world.configure(team_config="bad")
    kept = world.controller.spec_for(node, with_section).extensions
    assert kept == with_section.extensions
    world.configure(other="x")
    without = world.controller.spec_for(node, with_section).extensions
    assert without is not None
    assert without.object == {}


@pytest.mark.usefixtures("team")
def test_an_extension_is_registered_once() -> None:
    with pytest.raises(AlreadyRegistered, match="node merged plugin team already exist"):
        extensions.register_node_slo_extension("team", Team())
