"""NodeMetrics over a sequence of events: the nodemetric controller, with objects in memory."""

import asyncio
from typing import Any

import msgspec

from koordpy.api.core import ConfigMap, Node
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import ObjectMeta
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, NotFound
from koordpy.controllers.interface import Handle
from koordpy.controllers.slo.node_objects import ClientWrites
from koordpy.controllers.slo.node_state import NodeState, concerns_specs
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.controllers.nodemetric.plugin import NodeMetricController

CONFIG = "slo-controller-config"
NAMESPACE = "koordinator-system"


class Failed(Exception):
    """A read or a write that the vector lets fail."""


class World:
    """A cluster in memory, the controller on it, and what happened in a step."""

    def __init__(self, case_in: dict[str, Any]) -> None:
        self.cluster = Cluster()
        self.documents = {node["metadata"]["name"]: node for node in case_in["nodes"]}
        self.fault = ""
        self.writes: list[list[str]] = []
        self.events: list[str] = []
        nodes, stored = self.cluster.store(Node), self.cluster.store(NodeMetric)
        nodes.replace([decode(Node, node) for node in case_in["nodes"]])
        stored.replace([decode(NodeMetric, item) for item in case_in["nodeMetrics"]])
        self.config_maps = self.cluster.store(ConfigMap)
        self.set_config(case_in["config"])
        self.restart()

    def restart(self) -> None:
        handle = Handle(self.cluster, FeatureGates({}), clock=self.cluster.clock, connected=self)  # type: ignore[arg-type]
        controller = self.controller = NodeMetricController(NoArgs(), handle)
        controller.config._report = lambda _, reason, __: self.events.append(reason)
        controller.config._config_map = self.faulty("getConfigMap", controller.config._config_map)
        objects = controller.objects
        objects._node = self.faulty("getNode", objects._node)
        objects._stored = self.faulty("getNodeMetric", objects._stored)
        assert isinstance(objects._writes, ClientWrites)

    def faulty(self, fault: str, call: Any) -> Any:
        def faulty(*args: Any) -> Any:
            if self.fault == fault:
                raise Failed(fault)
            return call(*args)

        return faulty

    def set_config(self, data: dict[str, str] | None) -> ConfigMap | None:
        if data is None:
            self.config_maps.discard(f"{NAMESPACE}/{CONFIG}")
            return None
        config_map = ConfigMap(metadata=ObjectMeta(namespace=NAMESPACE, name=CONFIG), data=dict(data))
        self.config_maps.put(config_map)
        return config_map

    # -- the writes of a client ---------------------------------------------------------------------------

    async def create_raw(self, resource: Any, namespace: str, document: Any) -> None:
        self.fails("create")
        name = document["metadata"]["name"]
        self.cluster.store(NodeMetric).put(decode(NodeMetric, wire(document)))
        self.writes.append(["create", name])

    async def patch_raw(self, resource: Any, namespace: str, name: str, patch: Any, kind: Any) -> None:
        self.fails("update")
        spec = msgspec.convert(wire(patch[0]["value"]), NodeMetric.Spec)
        store = self.cluster.store(NodeMetric)
        known = store.get("", name)
        assert known is not None
        store.put(msgspec.structs.replace(known, spec=spec))
        self.writes.append(["update", name])

    async def delete(self, type_: Any, namespace: str, name: str) -> None:
        self.fails("delete")
        self.cluster.store(NodeMetric).discard(name)
        if self.fault == "deleteNotFound":
            raise NotFound("DELETE", name, 404, "NotFound", "gone", {}, None)
        self.writes.append(["delete", name])

    def fails(self, fault: str) -> None:
        if self.fault == fault:
            raise Failed(fault)

    # -- steps --------------------------------------------------------------------------------------------

    def event(self, step: dict[str, Any]) -> list[str]:
        """Apply a step's event; return the enqueued names."""
        queue = self.controller.queue
        match step["op"]:
            case "config":
                old = self.config_maps.get(NAMESPACE, CONFIG)
                new = self.set_config(step["config"])
                if new is not None and old is None:
                    self.controller.config.created(new)
                elif new is not None and old is not None:
                    self.controller.config.updated(old, new)
            case "node":
                document = step["node"]
                name = document["metadata"]["name"]
                known, self.documents[name] = self.documents.get(name), document
                self.cluster.store(Node).put(decode(Node, document))
                states = [NodeState.of_document(item) for item in (known, document) if item is not None]
                if known is None or concerns_specs(*states):
                    queue.add(name)
            case "delNode":
                if self.documents.pop(step["name"], None) is not None:
                    self.cluster.store(Node).discard(step["name"])
                    queue.add(step["name"])
            case "nodeMetric":
                self.cluster.store(NodeMetric).put(decode(NodeMetric, step["nodeMetric"]))
            case "delNodeMetric":
                self.cluster.store(NodeMetric).discard(step["name"])
            case "restart":
                self.restart()
        names = []
        while (name := self.controller.queue.pop()) is not None:
            names.append(name)
            self.controller.queue.done(name)
        return sorted(names)

    async def step(self, step: dict[str, Any]) -> dict[str, Any]:
        self.writes, self.events = [], []
        enqueued = self.event(step)
        self.fault = step.get("fault", "")
        unavailable, errors = False, []
        for name in [*enqueued, *(step.get("reconcile") or ())]:
            unavailable |= not self.controller.config.is_available()
            try:
                await self.controller.reconcile(name)
            except (Failed, ApiError):
                errors.append(name)
        self.fault = ""
        specs = {
            item.metadata.name: self.controller.objects._spec_of(item)
            for item in self.cluster.store(NodeMetric)
        }
        out: dict[str, Any] = {
            "enqueued": enqueued,
            "writes": self.writes,
            "specs": msgspec.to_builtins(specs),
        }
        if unavailable:
            out["configUnavailable"] = True
        if self.events:
            out["unmarshalFailed"] = True
        if errors:
            out["errors"] = errors
        return out


def wire(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def run(case_in: dict[str, Any], tag: str | None) -> dict[str, Any]:
    async def steps() -> list[dict[str, Any]]:
        world = World(case_in)
        return [await world.step(step) for step in case_in["steps"]]

    return {"steps": asyncio.run(steps())}


def same(ours: dict[str, Any], expected: dict[str, Any], case_in: dict[str, Any]) -> bool:
    theirs = expected["steps"]
    end = next((at for at, step in enumerate(theirs) if step.get("panic")), len(theirs))
    return bool(ours["steps"][:end] == theirs[:end])
