"""Whether a pod may preempt within its quota, and which victims ElasticQuota chooses on each node."""

from datetime import UTC, datetime
from typing import Any

import numpy as np

from koordpy.api import resource_list
from koordpy.api.core import Node, Pod, PodDisruptionBudget
from koordpy.api.koordinator import ElasticQuota as Quota
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, Refusals
from koordpy.scheduling.interface.plugin import API_VERSION
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict
from koordpy.scheduling.profiles.config import KIND, read
from koordpy.scheduling.profiles.registry import Place, build
from koordpy_plugins.scheduling.elasticquota.admission import QUOTA_STATE, QuotaState
from koordpy_plugins.scheduling.elasticquota.plugin import ElasticQuota
from koordpy_plugins.scheduling.elasticquota.state.quota_info import QuotaInfo
from koordpy_plugins.scheduling.stock.defaultbinder.plugin import DefaultBinder
from koordpy_plugins.scheduling.stock.noderesourcesfit.plugin import NodeResourcesFit

PLUGINS = (ElasticQuota, NodeResourcesFit, DefaultBinder)
ARGS = ("enableRuntimeQuota", "disableDefaultQuotaPreemption", "defaultQuotaGroupMax", "systemQuotaGroupMax")
CODES = {"Unschedulable": Status.unschedulable(), "UnschedulableAndUnresolvable": Status.unresolvable()}


class World:
    """The cluster of one vector. Its quota trees are driven by hand: some pods are unknown to them."""

    def __init__(self, case: dict[str, Any]) -> None:
        self.cluster = Cluster(FakeClock(datetime(2030, 1, 1, tzinfo=UTC)))
        assert len(self.cluster.nodes) == 0
        self.framework = self._framework(case)
        self.plugin = next(each for each in self.framework.plugins if isinstance(each, ElasticQuota))
        self.managers = self.plugin.trees.managers
        self.plugin.trees.close()
        for document in case["nodes"]:
            self.cluster.store(Node).apply(decode(Node, document))
        for document in case["pdbs"]:
            self.cluster.store(PodDisruptionBudget).apply(decode(PodDisruptionBudget, document))
        for document in case["quotas"]:
            quota = decode(Quota, document)
            self.cluster.store(Quota).apply(quota)
            self.managers.add_quota(quota)
        unseen = case.get("unseenByQuota") or ()
        for document in case["pods"]:
            pod = decode(Pod, document)
            self.cluster.store(Pod).apply(pod)
            if pod.metadata.name not in unseen:
                self.managers.add_pod(pod)
        for manager in self.managers:
            for info in manager.quotas.values():
                info.runtime = resource_list.from_wire(case["runtime"].get(info.name) or {})

    def _framework(self, case: dict[str, Any]) -> Framework:
        profile = {
            "plugins": {
                "multiPoint": {
                    "enabled": [{"name": plugin.name} for plugin in PLUGINS],
                    "disabled": [{"name": "*"}],
                }
            },
            "pluginConfig": [
                {"name": "ElasticQuota", "args": {name: case[name] for name in ARGS if name in case}}
            ],
        }
        config = read({"apiVersion": API_VERSION, "kind": KIND, "profiles": [profile]})
        profiles = build(
            config,
            lambda _: Handle(self.cluster),
            place=Place.EXTENDER,
            classes={plugin.name: plugin for plugin in PLUGINS},
            skip_missing=True,
            gates=FeatureGates(SPECS, case.get("gates") or {}),
        )
        return profiles.frameworks["default-scheduler"]

    def quota(self, pod: Pod) -> QuotaInfo | None:
        name, tree = self.managers.quota_of(pod)
        manager = self.managers.tree(tree)
        return None if manager is None else manager.get(name)

    def state(self, pod: Pod) -> CycleState:
        """The state of a cycle: the quota as it is, and the PreFilter of NodeResourcesFit."""
        state = self.framework.new_state()
        info = self.quota(pod)
        snapshot = QuotaState(skip=True)
        if info is not None:
            limit = self.plugin.check.limit_of(info)
            snapshot = QuotaState(False, info, info.used, info.non_preemptible_used, limit)
        fit = next(each for each in self.framework.plugins if isinstance(each, NodeResourcesFit))
        fit.pre_filter(state, pod, self.cluster.nodes.all())
        state.write(QUOTA_STATE, snapshot)
        return state


def outcome(world: World, pod: Pod, nominated: str | None) -> FilterOutcome:
    """Every node may help, but that the pod is nominated to may have another status."""
    nodes = world.cluster.nodes.all()
    name = pod.status.nominated_node_name
    told = CODES.get(nominated or "", SUCCESS)
    given = [told if each == name else CODES["Unschedulable"] for each in nodes.names]
    refused = np.flatnonzero([not status.is_success for status in given])
    feasible = np.array([status.is_success for status in given], np.bool_)
    return FilterOutcome(nodes, feasible, [Refusals("", refused, Verdict.of(given))])


def run(case: dict[str, Any], tag: str | None) -> object:
    world = World(case)
    pod = decode(Pod, case["pod"])
    evaluator = world.plugin.preemption.evaluator
    message = evaluator.ineligible(pod, outcome(world, pod, case.get("nominatedNodeStatus")))
    nowhere = np.zeros(len(world.cluster.nodes), np.bool_)
    every = FilterOutcome(world.cluster.nodes.all(), nowhere, prefilter=Status.unschedulable())
    findings = evaluator.find(world.state(pod), pod, every)
    nodes: dict[str, Any] = {}
    for name, victims in findings.candidates.items():
        names = [victim.metadata.name for victim in victims.pods]
        nodes[name] = {"status": "Success", "victims": names, "violating": victims.pdb_violations}
    for name, status in findings.refused.items():
        if status.message == f'expected at least one victim pod on node "{name}"':
            nodes[name] = {"status": "Success", "victims": [], "violating": 0}
        else:
            nodes[name] = {"status": status.code.label}
    return {"eligible": not message, "message": message, "nodes": nodes}


def same(ours: Any, expected: Any, case: dict[str, Any]) -> bool:
    left = {name: {**found, "victims": found.get("victims") or []} for name, found in ours["nodes"].items()}
    right = {
        name: {**found, "victims": found.get("victims") or []} for name, found in expected["nodes"].items()
    }
    for found in (*left.values(), *right.values()):
        if found["status"] == "Success":
            found.setdefault("violating", 0)
    return bool(
        left == right
        and ours["eligible"] == expected["eligible"]
        and ours["message"] == expected.get("message", "")
    )
