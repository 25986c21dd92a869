"""The accounts and runtime of quotas after a sequence of events."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from typing import Any

from koordpy.api import extension, quantity
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import ROOT, bound_namespaces
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.quota.membership import QuotaMembership
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy_plugins.scheduling.elasticquota.plugin import ElasticQuota as Plugin
from koordpy_plugins.scheduling.elasticquota.state.managers import Managers

LISTS = {
    "request": "request",
    "childRequest": "child_request",
    "npRequest": "non_preemptible_request",
    "used": "used",
    "npUsed": "non_preemptible_used",
    "selfRequest": "self_request",
    "selfUsed": "self_used",
    "selfNpRequest": "self_non_preemptible_request",
    "selfNpUsed": "self_non_preemptible_used",
    "autoScaleMin": "auto_scale_min",
    "weight": "shared_weight",
    "runtime": "runtime",
    "allocated": "allocated",
    "guaranteed": "guaranteed",
}


class NewestFirst(QuotaMembership):
    """The quotas of pods, as Koordinator chooses them when an iteration of its index starts late."""

    def bound_to(self, namespace: str) -> Iterable[str]:
        return reversed(list(super().bound_to(namespace)))


class World:
    """A plugin whose trees are driven by the events of a line, one by one and without rebuilds."""

    def __init__(self, case: Mapping[str, Any], *, newest_first: bool = False) -> None:
        cluster = Cluster(FakeClock(datetime(2030, 1, 1, tzinfo=UTC)))
        handle = Handle(cluster)
        handle.gates = FeatureGates(SPECS, case.get("gates") or {})
        self.plugin = Plugin.make(handle, case.get("args") or {})
        trees = self.plugin.trees
        if newest_first:
            membership = NewestFirst(cluster, label_only=trees.settings.label_only)
            trees._managers = Managers(trees.settings, membership, cluster.clock)
        self.managers = trees.managers
        trees.close()
        self.quotas, self.refreshed = cluster.store(ElasticQuota), list[Any]()
        self.nodes: dict[str, Node] = {}
        self.pods: dict[str, Pod] = {}
        for event in case["events"]:
            self.apply(event)

    def apply(self, event: Mapping[str, Any]) -> None:
        managers = self.managers
        match event["op"]:
            case "addNode":
                node = self.nodes[event["node"]["metadata"]["name"]] = decode(Node, event["node"])
                managers.add_node(node)
            case "updateNode":
                node = decode(Node, event["node"])
                old = self.nodes.get(node.metadata.name, Node())
                self.nodes[node.metadata.name] = node
                managers.update_node(old, node)
            case "delNode":
                node = decode(Node, event["node"])
                self.nodes.pop(node.metadata.name, None)
                managers.delete_node(node)
            case "addQuota" | "updateQuota":
                quota = decode(ElasticQuota, event["quota"])
                self.quotas.apply(quota)
                (managers.add_quota if event["op"] == "addQuota" else managers.update_quota)(quota)
            case "delQuota":
                quota = decode(ElasticQuota, event["quota"])
                self.quotas.discard(quota.metadata.key)
                managers.delete_quota(quota)
            case "addPod":
                pod = self.pods[event["pod"]["metadata"]["name"]] = decode(Pod, event["pod"])
                managers.add_pod(pod)
            case "updatePod":
                pod = decode(Pod, event["pod"])
                before = self.pods.get(pod.metadata.name, Pod())
                self.pods[pod.metadata.name] = pod
                managers.update_pod(before, pod)
            case "delPod":
                pod = decode(Pod, event["pod"])
                self.pods.pop(pod.metadata.name, None)
                managers.delete_pod(pod)
            case "reserve" | "unreserve":
                pod = self.pods[event["pod"]]
                name, tree = managers.quota_of(pod)
                manager = managers.tree(tree)
                if name and manager is not None:
                    (manager.reserve if event["op"] == "reserve" else manager.unreserve)(name, pod)
            case "refresh":
                self.refresh(event["quota"])
            case "migrate":
                managers.migrate_default_pods()
            case "replaceQuotas":
                managers.replace_quotas(list(self.quotas))
                for name in sorted(self.nodes):
                    managers.add_node(self.nodes[name])
                for name in sorted(self.pods):
                    managers.add_pod(self.pods[name])
            case other:
                raise AssertionError(other)

    def refresh(self, name: str) -> None:
        self.refreshed.append([name, amounts(self.managers.of_quota(name).refresh_runtime(name))])


def depends_on_chance(case: Mapping[str, Any]) -> bool:
    """Return whether Koordinator chose one of several quotas of a namespace, which it does by map order."""
    bound: dict[str, set[str]] = {}
    for event in case["events"]:
        if event["op"] in ("addQuota", "updateQuota"):
            quota = decode(ElasticQuota, event["quota"])
            for namespace in bound_namespaces(quota):
                bound.setdefault(namespace, set()).add(quota.metadata.name)
    unclear = {namespace for namespace, names in bound.items() if len(names) > 1}
    pods = [event["pod"] for event in case["events"] if event["op"] in ("addPod", "updatePod")]
    if "pod" in case:
        pods.append(case["pod"])
    return any(
        pod["metadata"].get("namespace") in unclear
        and not (pod["metadata"].get("labels") or {}).get(extension.LABEL_QUOTA_NAME)
        for pod in pods
    )


def amounts(found: Mapping[str, quantity.Quantity] | None) -> dict[str, str] | None:
    return None if found is None else {name: str(amount) for name, amount in found.items()}


def run(case: dict[str, Any], tag: str | None, *, newest_first: bool = False) -> object:
    return answer(World(case, newest_first=newest_first), case)


def answer(world: World, case: Mapping[str, Any]) -> dict[str, Any]:
    for name in case.get("refresh") or ():
        world.refresh(name)
    trees = {}
    for manager in world.managers:
        quotas = {}
        for name, info in manager.quotas.items():
            if name == ROOT:
                continue
            shown: dict[str, Any] = {key: amounts(getattr(info, slot)) for key, slot in LISTS.items()}
            quotas[name] = {key: found for key, found in shown.items() if found}
            quotas[name] |= {"lent": info.allow_lent_resource, "parent": info.parent_name}
        trees[manager.tree] = {
            "total": amounts(manager.total),
            "distributable": amounts(manager.distributable),
            "quotas": quotas,
        }
    return {"refreshed": world.refreshed, "trees": trees}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    if agree(ours, expected, case):
        return True
    return depends_on_chance(case) and agree(run(case, None, newest_first=True), expected, case)


def agree(ours: Any, expected: Any, case: Mapping[str, Any]) -> bool:
    lenient = any(event["op"] == "replaceQuotas" for event in case["events"])
    return bool(_normal(ours, lenient) == _normal(expected, lenient))


def _normal(answer: Any, lenient: bool) -> Any:
    trees = {}
    for tree, found in answer["trees"].items():
        quotas = {}
        for name, quota in (found.get("quotas") or {}).items():
            shown = {key: value(quota.get(key)) for key in LISTS}
            if lenient:
                shown["runtime"] = {k: each for k, each in shown["runtime"].items() if each}
            quotas[name] = shown | {"lent": quota.get("lent") or False, "parent": quota.get("parent") or ""}
        trees[tree] = [value(found.get("total")), value(found.get("distributable")), quotas]
    refreshed = [[name, None if found is None else value(found)] for name, found in answer["refreshed"] or ()]
    return refreshed, trees


def value(found: Mapping[str, str] | None) -> dict[str, int]:
    return {name: quantity.nano_value(amount) for name, amount in (found or {}).items()}
