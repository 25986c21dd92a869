"""Pods of a job that a plugin has planned, bound at once: all of them are placed, or none.

Messages are not compared: the order in which nodes are tried decides which pod is named, and is another one.
"""

import asyncio
import json
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.extender.extender import Extender, create
from koordpy.scheduling.interface import (
    Bind,
    Binding,
    FindOneNode,
    Job,
    Permit,
    PlacementPlan,
    PlannedPod,
    PlansJobs,
    Plugin,
    PreFilter,
    Reserve,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import INLINE_BATCH_SCHEDULE, SPECS
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.profiles import config
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit

CASE: dict[str, Any] = {}
GATES = FeatureGates(SPECS, {INLINE_BATCH_SCHEDULE: True})


class PlanOfTheLine(Plugin, PreFilter, FindOneNode, PlansJobs, Reserve, Permit):
    """Plans the pods of the job as the line says; in Permit they wait for as many as are needed."""

    name = "PlanOfTheLine"
    reruns = ("NodeResourcesFit",)

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.permitted = 0

    def members(self) -> tuple[Pod, ...]:
        found = [self.handle.cluster.store(Pod).get("default", name) for name in CASE["plan"]]
        return tuple(pod for pod in found if pod is not None)

    def job_of(self, pod: Pod) -> Job:
        return Job("job", self.members(), lambda placed: len(placed) >= CASE["min"], 600.0)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: Any) -> tuple[None, Status]:
        return None, SUCCESS

    def find_one_node(self, state: CycleState, pod: Pod, node_names: Any) -> tuple[PlacementPlan, Status]:
        return PlacementPlan(
            [PlannedPod(each, CASE["plan"][each.metadata.name]) for each in self.members()]
        ), SUCCESS

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        pass

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        self.permitted += 1
        if self.permitted < CASE["min"]:
            return Status.wait(600)
        for waiting in self.handle.waiting_pods:
            waiting.allow(self.name)
        return SUCCESS


class Binder(Plugin, Bind):
    """Binds all pods but those that the line says cannot be bound."""

    name = "DefaultBinder"

    def __init__(self, args: Any, handle: Any) -> None:
        super().__init__(args, handle)
        self.bound: dict[str, str] = {}
        self.refused: set[str] = set()

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        if pod.metadata.name in CASE["unbindable"]:
            self.refused.add(pod.metadata.name)
            return Status.failed("cannot be bound")
        self.bound[pod.metadata.name] = binding.node_name
        return SUCCESS


def run(case: dict[str, Any], tag: str | None) -> object:
    CASE.clear()
    CASE.update(case)
    return asyncio.run(answer(case))


async def answer(case: dict[str, Any]) -> dict[str, Any]:
    cluster = Cluster()
    assert len(cluster.nodes) == 0
    for document in case["nodes"]:
        cluster.store(Node).apply(decode(Node, document))
    for document in (*case["bound"], *case["job"]):
        cluster.store(Pod).apply(decode(Pod, document))
    extender = scheduler(cluster)
    binder = next(
        plugin
        for plugin in extender.profiles.frameworks["default-scheduler"].plugins
        if isinstance(plugin, Binder)
    )
    [trigger] = [pod for pod in case["job"] if pod["metadata"]["name"] == case["trigger"]]
    names = [node["metadata"]["name"] for node in case["nodes"]]
    found = extender.filter(body(trigger, names))[0]
    fits = bool(decode_answer(found)["NodeNames"])
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    await asyncio.wait(tasks, timeout=30) if tasks else None
    return {"fits": fits, "bound": binder.bound}


def scheduler(cluster: Cluster) -> Extender:
    classes: tuple[type[Plugin], ...] = (PlanOfTheLine, NodeResourcesFit, Binder)
    multi_point = {"enabled": [{"name": PlanOfTheLine.name}, {"name": NodeResourcesFit.name}]}
    profile = {"plugins": {"multiPoint": multi_point}}
    read = config.read({"apiVersion": API_VERSION, "kind": config.KIND, "profiles": [profile]})
    made = create(read, cluster, None, classes={plugin.name: plugin for plugin in classes}, gates=GATES)
    for store in cluster.stores:
        store.synced = True
    return made


def body(pod: dict[str, Any], names: list[str]) -> bytes:
    return json.dumps({"Pod": pod, "NodeNames": names}).encode()


def decode_answer(text: bytes) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(text)
    return found


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    return bool(ours["fits"] == expected["fits"] and ours["bound"] == expected["bound"])
