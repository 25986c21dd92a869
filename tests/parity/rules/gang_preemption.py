"""Which pods a job of Coscheduling preempts for which of its members, and what is done about it."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from koordpy.api.core import Node, Pod
from koordpy.api.gang.topology_spec import GangTopologySpec, GatherRule
from koordpy.api.meta import KubeObject
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.scheme import decode
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.cluster.network_topology.tree import build as build_tree
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.diagnosis import ScheduleDiagnosis, diagnosis_of
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, Refusals
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import Code, Status, Verdict
from koordpy.scheduling.interface.waiting_pods import WaitingPod
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build
from koordpy_plugins.scheduling.coscheduling.preemption.findings import BY_POD, Findings
from koordpy_plugins.scheduling.coscheduling.preemption.job_preemption import JobPreemption
from koordpy_plugins.scheduling.coscheduling.preemption.network import INVALID_PLAN, NetworkSolver
from koordpy_plugins.scheduling.coscheduling.preemption.preemptor import Attempted, Preemptor, WaitingMember
from koordpy_plugins.scheduling.coscheduling.topology.layouts import Layouts
from koordpy_plugins.scheduling.coscheduling.topology.placement import NetworkPlacement
from koordpy_plugins.scheduling.coscheduling.topology.selector_counts import SelectorCounts
from koordpy_plugins.scheduling.stock.defaultbinder.plugin import DefaultBinder
from koordpy_plugins.scheduling.stock.nodeaffinity.plugin import NodeAffinity
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit

GANG = "pod-group.scheduling.sigs.k8s.io"
PLUGINS = (NodeAffinity, NodeResourcesFit, DefaultBinder)
SCHEDULERS = ("default-scheduler", "koord-scheduler")


class Writes(Client):
    """Keeps what is written."""

    def __init__(self) -> None:
        self.deleted: list[str] = []
        self.conditions: dict[str, str] = {}
        self.nominations: dict[str, str] = {}

    async def patch_status(
        self,
        type_: type[KubeObject],
        namespace: str,
        name: str,
        patch: Mapping[str, Any],
        patch_type: PatchType = PatchType.MERGE,
    ) -> Any:
        key, status = f"{namespace}/{name}", patch["status"]
        for condition in status.get("conditions", ()):
            assert condition["type"] == "DisruptionTarget"
            self.conditions[key] = condition["message"]
        if "nominatedNodeName" in status:
            self.nominations[key] = status["nominatedNodeName"] or ""

    async def delete(self, type_: type[KubeObject], namespace: str, name: str, **_: Any) -> None:
        self.deleted.append(f"{namespace}/{name}")


class Events(Recorder):
    """Keeps what is reported."""

    def __init__(self) -> None:
        self.texts: list[str] = []

    def event(
        self,
        regarding: KubeObject,
        type_: str,
        reason: str,
        note: str,
        *,
        action: str = "",
        related: KubeObject | None = None,
    ) -> None:
        self.texts.append(f"{regarding.metadata.key} {type_} {reason} {action}: {note}")


class World:
    """The cluster of one vector, and everything that happens to it."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.cluster = Cluster()
        assert len(self.cluster.nodes) == 0
        self.writes, self.events = Writes(), Events()
        for document in case["nodes"]:
            self.cluster.store(Node).apply(decode(Node, document))
        self.held: dict[str, WaitingPod] = {}
        self.framework = self._framework()
        self.pods = [self._known(document) for document in case["pods"]]
        bound = [self._known(document) for document in case.get("bound", ())]
        self.waiting = [self._assumed(document) for document in case.get("waiting", ())]
        for document in case.get("nominated", ()):
            self._known(document)
        permit = set(case.get("permit", ()))
        for pod, node_name in [
            *((member.pod, member.node_name) for member in self.waiting),
            *((pod, pod.spec.node_name) for pod in bound),
        ]:
            if pod.metadata.key in permit:
                waiting = self.framework.handle.waiting_pods.add(pod, node_name, {"Coscheduling": 1e6})
                self.held[pod.metadata.key] = waiting

    def _framework(self) -> Framework:
        names = [{"name": plugin.name} for plugin in PLUGINS]
        plugins = {"multiPoint": {"enabled": names, "disabled": [{"name": "*"}]}}
        schedulers = [{"schedulerName": name, "plugins": plugins} for name in SCHEDULERS]
        config = read({"apiVersion": API_VERSION, "kind": KIND, "profiles": schedulers})
        profiles = build(
            config,
            lambda _: Handle(self.cluster, client=self.writes, events=self.events),
            place=Place.EXTENDER,
            classes={plugin.name: plugin for plugin in PLUGINS},
            skip_missing=True,
        )
        return profiles.frameworks["default-scheduler"]

    def _known(self, document: dict[str, Any]) -> Pod:
        pod = decode(Pod, document)
        self.cluster.store(Pod).apply(pod)
        return pod

    def _assumed(self, document: dict[str, Any]) -> WaitingMember:
        spec = {name: value for name, value in document["spec"].items() if name != "nodeName"}
        pod = self._known({**document, "spec": spec})
        node_name = document["spec"]["nodeName"]
        self.cluster.nodes.assume(pod, node_name)
        self.framework.handle.nominator.delete(pod.metadata.uid)
        return WaitingMember(pod, node_name)

    async def effects(self) -> dict[str, Any]:
        handle = self.framework.handle
        rejected = {}
        for key, waiting in self.held.items():
            if not waiting.pending_plugins:
                status = await waiting.outcome()
                rejected[key] = {"plugin": status.plugin, "msg": status.message}
        conditions = self.writes.conditions
        found = {
            "deleted": sorted(self.writes.deleted),
            "condition": {"pods": sorted(conditions), "messages": sorted(set(conditions.values()))}
            if conditions
            else {},
            "nominatedNodeName": self.writes.nominations,
            "rejected": rejected,
            "events": sorted(self.events.texts),
            "nominator": {
                name: sorted(pod.metadata.key for pod in handle.nominator.pods_on(name))
                for name in self.cluster.nodes.all().names
                if handle.nominator.pods_on(name)
            },
        }
        return {name: value for name, value in found.items() if value}


def failed(world: World, statuses: Mapping[str, Status]) -> FilterOutcome:
    """The failed attempt: the nodes with a status were filtered."""
    known = world.cluster.nodes.all().names
    nodes, _ = world.cluster.nodes.select([name for name in known if name in statuses])
    given = [statuses[name] for name in nodes.names]
    refused = Refusals("", np.arange(len(nodes)), Verdict.of(given))
    return FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), [refused])


def of_group(world: World, group: Iterable[str]) -> tuple[list[Pod], list[WaitingMember]]:
    gangs = set(group)

    def is_member(pod: Pod) -> bool:
        meta = pod.metadata
        return f"{meta.namespace}/{meta.labels.get(GANG, '')}" in gangs

    return (
        [pod for pod in world.pods if is_member(pod)],
        [member for member in world.waiting if is_member(member.pod)],
    )


async def answer(case: dict[str, Any]) -> dict[str, Any]:
    world = World(case)
    statuses = {
        name: Status(Code(status["code"]), tuple(status.get("reasons", ())))
        for name, status in case["statuses"].items()
    }
    state = world.framework.new_state()
    trigger = world.cluster.store(Pod).by_key(case["trigger"])
    assert trigger is not None
    world.framework.run_pre_filter(state, trigger, world.cluster.nodes.all())
    if case.get("job"):
        diagnosis_of(state).schedule = ScheduleDiagnosis(node_to_status=statuses, is_job=True)
    context = case["context"]
    current = None
    if context is None:
        preemptor = Preemptor.single(trigger)
    else:
        current = Attempted(context.get("preemptionMessage", ""))
        pending, waiting = of_group(world, context["group"])
        preemptor = Preemptor.group(",".join(sorted(context["group"])), trigger, pending, waiting, current)
    found = Findings(preemptor)
    preemption = JobPreemption(world.framework.handle)
    result, status = await preemption.preempt(
        state, preemptor, failed(world, statuses), solver(world, case), found=found
    )
    out: dict[str, Any] = {
        "code": int(status.code),
        "msg": status.message,
        "result": None if result is None else result.nominated_node_name,
        "reason": found.reason,
        "message": found.message,
        "mode": found.mode,
        "effects": await world.effects(),
    }
    if current is not None:
        out["contextMessage"] = current.preemption_message
    more = {
        "terminating": found.terminating,
        "possibleVictims": keys(found.possible_victims),
        "plan": found.plan,
        "slots": found.slots,
        "unplaced": len(found.unplaced),
    }
    out |= {name: value for name, value in more.items() if value}
    if found.mode == BY_POD or (found.mode and not found.plan and found.message != INVALID_PLAN):
        out["statuses"] = {
            name: {"code": int(status.code), "reasons": list(status.reasons)}
            for name, status in found.statuses.items()
        }
    if found.plan:
        out["victims"] = keys(found.victims, in_order=True)
    return out


def solver(world: World, case: dict[str, Any]) -> NetworkSolver | None:
    context = case["context"]
    if context is None or context.get("spec") is None:
        return None
    layers = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": case["topology"]}}
    tree = build_tree(
        decode(ClusterNetworkTopology, layers), [decode(Node, document) for document in case["nodes"]]
    )
    rules = context["spec"].get("gatherStrategy") or ()
    spec = GangTopologySpec(
        tuple(GatherRule(rule["layer"], rule["strategy"], rule.get("podCountMultiple", 0)) for rule in rules)
    )
    handle = world.framework.handle
    layouts = Layouts(handle)
    network = NetworkPlacement(handle, handle.cluster.shared(SelectorCounts), layouts)
    return NetworkSolver(handle, network, layouts, spec, tree, len(context["attempted"]))


def keys(pods: Mapping[str, Sequence[Pod]], *, in_order: bool = False) -> dict[str, list[str]]:
    named = {name: [pod.metadata.key for pod in each] for name, each in pods.items()}
    return named if in_order else {name: sorted(each) for name, each in named.items()}


def run(case: dict[str, Any], tag: str | None) -> object:
    return asyncio.run(answer(case))
