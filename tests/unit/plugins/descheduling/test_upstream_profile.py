"""A profile with all plugins of the Kubernetes descheduler, as installed, and DefaultEvictor."""

from datetime import UTC, datetime
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.config.configuration import PluginConfig, Plugins, Profile
from koordpy.descheduling.config.plugin_set import PluginSet
from koordpy.descheduling.engine.framework import Framework, Runtime, installed
from koordpy.descheduling.engine.limiter import EvictionLimiter
from koordpy.descheduling.explain.decisions import Decisions
from koordpy.lib.clock import FakeClock

from .one_plugin import node, pod

NOW = datetime(2026, 1, 1, tzinfo=UTC)
DESCHEDULE: dict[str, dict[str, Any]] = {
    "RemovePodsViolatingNodeAffinity": {
        "nodeAffinityType": ["requiredDuringSchedulingIgnoredDuringExecution"]
    },
    "RemovePodsViolatingNodeTaints": {},
    "RemovePodsViolatingInterPodAntiAffinity": {},
    "RemoveFailedPods": {},
    "RemovePodsHavingTooManyRestarts": {"podRestartThreshold": 5},
    "PodLifeTime": {"maxPodLifeTimeSeconds": 86400},
}
BALANCE: dict[str, dict[str, Any]] = {
    "RemoveDuplicates": {},
    "RemovePodsViolatingTopologySpreadConstraint": {},
    "HighNodeUtilization": {"thresholds": {"cpu": 10}},
    "LowNodeUtilization": {"thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 60}},
}


def owned(name: str, node_name: str, *, created: str = "2025-12-31T20:00:00Z", **labels: str) -> Any:
    document = pod(name, node_name, "500m", **labels)
    document["metadata"]["creationTimestamp"] = created
    document["metadata"]["ownerReferences"] = [{"kind": "ReplicaSet", "name": name, "uid": name}]
    return document


def framework(cluster: Cluster, decisions: Decisions) -> Framework:
    given = DESCHEDULE | BALANCE
    profile = Profile(
        name="test",
        plugins=Plugins(
            deschedule=PluginSet.of(list(DESCHEDULE)),
            balance=PluginSet.of(list(BALANCE)),
            evict=PluginSet.of(["DefaultEvictor"]),
            filter=PluginSet.of(["DefaultEvictor"]),
        ),
        plugin_config=[PluginConfig(name=name, args=args) for name, args in given.items()],
    )
    runtime = Runtime(cluster, None, None, EvictionLimiter(), decisions, dry_run=True)
    return Framework(profile, installed(), runtime)


async def test_each_plugin_finds_its_pods_in_a_dry_run():
    mismatched = owned("mismatched", "n1")
    zone_y = {"matchExpressions": [{"key": "zone", "operator": "In", "values": ["y"]}]}
    mismatched["spec"]["affinity"] = {
        "nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [zone_y]}}
    }
    failed = owned("failed", "n1")
    failed["status"]["phase"] = "Failed"
    restarted = owned("restarted", "n1")
    restarted["status"]["containerStatuses"] = [{"name": "c", "restartCount": 9}]
    old = owned("old", "n1", created="2025-12-01T00:00:00Z")
    twins = [owned(f"twin{index}", "n1") for index in range(2)]
    for twin in twins:
        twin["metadata"]["ownerReferences"][0]["name"] = "twins"
    repelling = [owned(f"repelling{index}", "n1", app="a") for index in range(2)]
    term = {"labelSelector": {"matchLabels": {"app": "a"}}, "topologyKey": "zone"}
    for each in repelling:
        each["spec"]["affinity"] = {
            "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [term]}
        }
    tainted = node("n3", zone="z") | {"spec": {"taints": [{"key": "k", "effect": "NoSchedule"}]}}
    cluster = Cluster(FakeClock(NOW))
    for document in (node("n1", zone="x"), node("n2", zone="y"), tainted):
        cluster.store(Node).apply(decode(Node, document))
    pods = [mismatched, failed, restarted, old, *twins, *repelling, owned("intolerant", "n3")]
    for document in pods:
        cluster.store(Pod).apply(decode(Pod, document))
    decisions = Decisions()
    current = decisions.begin(NOW, dry_run=True)
    profile = framework(cluster, decisions)
    nodes = sorted(cluster.store(Node), key=lambda item: item.metadata.name)
    for status in (await profile.run_deschedule_plugins(nodes), await profile.run_balance_plugins(nodes)):
        assert not status.error
    found = {run.plugin: [item.pod.removeprefix("a/") for item in run.evictions] for run in current.runs}
    assert found == {
        "RemovePodsViolatingNodeAffinity": ["mismatched"],
        "RemovePodsViolatingNodeTaints": ["intolerant"],
        "RemovePodsViolatingInterPodAntiAffinity": ["repelling1"],
        "RemoveFailedPods": ["failed"],
        "RemovePodsHavingTooManyRestarts": ["restarted"],
        "PodLifeTime": ["old"],
        "RemoveDuplicates": ["twin1"],
        "RemovePodsViolatingTopologySpreadConstraint": [],
        "HighNodeUtilization": [],
        "LowNodeUtilization": found["LowNodeUtilization"],
    }
    assert len(found["LowNodeUtilization"]) == 3, "n1 is at 87.5 %, 60 % are 2.4 of 4 cores"
    assert all(item.reason for run in current.runs for item in run.evictions)
