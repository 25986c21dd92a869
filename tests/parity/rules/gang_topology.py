"""Where the members of a gang go in the network, and the score of nodes near pods of the same selector."""

import json
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.gang.topology_spec import ANNOTATION_TOPOLOGY_SPEC, topology_spec_of
from koordpy.api.network_topology import ClusterNetworkTopology
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.network_topology.manager import TreeManager
from koordpy.cluster.network_topology.tree import Tree, build
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import PlacementPlan
from koordpy.scheduling.interface.diagnosis import existing_diagnosis
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, installed
from koordpy.scheduling.profiles.registry import build as build_profiles
from koordpy_plugins.scheduling.coscheduling.plugin import Coscheduling
from koordpy_plugins.scheduling.coscheduling.state.context import SchedulingContext

PLUGINS = ("Coscheduling", "PrioritySort", "NodeAffinity", "NodeResourcesFit", "DefaultBinder")


class Network(TreeManager):
    """The network of a vector, whose nodes have an order of their own."""

    def __init__(self, cluster: Cluster, tree: Tree) -> None:
        super().__init__(cluster, None)
        self._given = tree

    def snapshot(self) -> Tree | None:
        return self._given


def scheduler(case: dict[str, Any]) -> tuple[Framework, Coscheduling, Tree]:
    cluster = Cluster()
    assert len(cluster.nodes) == 0
    nodes = [decode(Node, node) for node in case["nodes"]]
    layers = {"metadata": {"name": "default"}, "spec": {"networkTopologySpec": case["topology"]}}
    tree = build(decode(ClusterNetworkTopology, layers), nodes)
    handle = Handle(cluster, network_topology=Network(cluster, tree))
    enabled = {"enabled": [{"name": name} for name in PLUGINS], "disabled": [{"name": "*"}]}
    profile = {
        "plugins": {"multiPoint": enabled},
        "pluginConfig": [{"name": "Coscheduling", "args": {"awareNetworkTopology": True}}],
    }
    config = read({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]})
    profiles = build_profiles(config, lambda _: handle, place=Place.SCHEDULER, classes=installed())
    for node in nodes:
        cluster.store(Node).apply(node)
    for pod in [*case.get("bound", ()), *case.get("pods", ()), *case.get("nominated", ())]:
        cluster.store(Pod).apply(decode(Pod, pod))
    fw = profiles.frameworks["default-scheduler"]
    return fw, next(plugin for plugin in fw.plugins if isinstance(plugin, Coscheduling)), tree


def run(case: dict[str, Any], tag: str | None) -> object:
    return find(case) if case["op"] == "find" else score(case)


def find(case: dict[str, Any]) -> dict[str, Any]:
    fw, plugin, tree = scheduler(case)
    pods = [decode(Pod, pod) for pod in case["pods"]]
    trigger = next((pod for pod in pods if pod.metadata.key == case["trigger"]), Pod())
    context = plugin.holder.current = context_of(case["context"], trigger, tree)
    state = fw.new_state()
    names = case.get("nodeNames")
    plan, status = plugin.find_one_node(state, trigger, None if names is None else frozenset(names))
    found: dict[str, Any] = {"skip": True} if status.is_skip else answer(status)
    if isinstance(plan, PlacementPlan):
        found["plan"] = {each.pod.metadata.key: each.node_name for each in plan.pods}
        found["order"] = [each.pod.metadata.key for each in plan.pods]
    diagnosis = existing_diagnosis(state)
    if diagnosis is not None and diagnosis.schedule is not None:
        found["slots"] = diagnosis.schedule.node_offer_slot
        found["statuses"] = {
            name: {"code": int(why.code), "reasons": list(why.reasons)}
            for name, why in diagnosis.schedule.node_to_status.items()
        }
        found["mustLayer"] = diagnosis.topology_key_to_explain
    after: list[object] = []
    for pod in pods:
        if context is not None:
            context.attempted.add(pod.metadata.key)
        allowed, status = plugin.pre_filter(fw.new_state(), pod, fw.handle.nodes.all())
        after.append(answer(status) if not status.is_success else allowed and sorted(allowed))
    return {"find": found, "preFilter": after}


def context_of(given: dict[str, Any] | None, first: Pod, tree: Tree) -> SchedulingContext | None:
    if given is None:
        return None
    spec = given.get("spec")
    annotations = {} if spec is None else {ANNOTATION_TOPOLOGY_SPEC: json.dumps(spec)}
    return SchedulingContext(
        first,
        frozenset(given["group"]),
        ",".join(sorted(given["group"])),
        0.0,
        set(given["attempted"]),
        failed_message=given.get("failed", ""),
        topology_spec=topology_spec_of(annotations),
        topology_tree=tree,
        planned_nodes=given.get("plan"),
    )


def answer(status: Status) -> dict[str, Any]:
    return {"code": int(status.code), "msg": status.message}


def score(case: dict[str, Any]) -> dict[str, Any]:
    fw, plugin, _ = scheduler(case)
    pod = decode(Pod, case["pod"])
    nodes, _ = fw.handle.nodes.select(case["candidates"])
    state = fw.new_state()
    if plugin.pre_score(state, pod, nodes).is_skip:
        return {"skip": True}
    raw = plugin.score_nodes(state, pod, nodes)
    scores = plugin.normalize_scores(state, pod, raw)
    return {
        "raw": dict(zip(nodes.names, raw.tolist(), strict=True)),
        "score": dict(zip(nodes.names, scores.tolist(), strict=True)),
    }


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    if "panic" in expected:  # any clean answer is right
        return set(ours) == {"raw", "score"} and len(ours["score"]) == len(case["candidates"])
    return bool(ours == expected)
