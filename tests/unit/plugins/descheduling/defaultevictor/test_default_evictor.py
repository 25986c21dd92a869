import json
from datetime import UTC, datetime
from typing import Any

import pytest

from koordpy.api import config_model
from koordpy.api.core import (
    Event,
    Namespace,
    Node,
    PersistentVolumeClaim,
    Pod,
    PodDisruptionBudget,
    PriorityClass,
)
from koordpy.api.scheme import decode, resource_of
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.events import Recorder
from koordpy.descheduling.engine.evictor import EvictorProxy, PluginEvictor
from koordpy.descheduling.engine.limiter import EvictionLimiter
from koordpy.descheduling.explain.decisions import Decisions
from koordpy.descheduling.interface import EvictOptions, Handle, NoPlugins
from koordpy.embedded.apiserver import ApiServer
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy.simulation.inprocess import ServerChannel
from koordpy_plugins.descheduling.defaultevictor.args import (
    DEFAULT_PROTECTIONS,
    DefaultEvictorArgs,
    Protection,
)
from koordpy_plugins.descheduling.defaultevictor.plugin import DefaultEvictor

NOW = datetime(2026, 1, 1, tzinfo=UTC)
OWNED = {"ownerReferences": [{"kind": "ReplicaSet", "name": "rs", "uid": "u"}]}
PVC = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
EVICT = "descheduler.alpha.kubernetes.io/evict"
PREFER_NOT = "descheduler.alpha.kubernetes.io/prefer-no-eviction"


def args(**fields: Any) -> DefaultEvictorArgs:
    return config_model.read(DefaultEvictorArgs, fields, "args")


def evictor(
    cluster: Cluster | None = None,
    client: Client | None = None,
    events: Recorder | None = None,
    **fields: Any,
) -> DefaultEvictor:
    cluster = cluster or Cluster(FakeClock(NOW))
    decisions = Decisions()
    proxy = EvictorProxy(EvictionLimiter(), decisions, dry_run=False)
    bound = PluginEvictor(proxy, "DefaultEvictor")
    handle = Handle(
        cluster,
        client,
        events,
        cluster.clock,
        bound,
        False,
        decisions.report,
        FeatureGates({}),
        NoPlugins(),
        lambda name, task: None,
    )
    return DefaultEvictor(args(**fields), handle)


def pod(
    metadata: dict[str, Any] | None = None,
    spec: dict[str, Any] | None = None,
    status: dict[str, Any] | None = None,
    name: str = "p",
) -> Pod:
    return decode(
        Pod,
        {
            "metadata": {"namespace": "a", "name": name, "uid": name, **OWNED, **(metadata or {})},
            "spec": {"nodeName": "n1", **(spec or {})},
            "status": status or {},
        },
    )


BARE: dict[str, Any] = {"ownerReferences": []}
FAILED = {"phase": "Failed"}

PROTECTED = {
    "mirror": (pod({"annotations": {"kubernetes.io/config.mirror": ""}}), "it is a mirror pod"),
    "static": (pod({"annotations": {"kubernetes.io/config.source": "file"}}), "it is a static pod"),
    "terminating": (pod({"deletionTimestamp": "2026-01-01T00:00:00Z"}), "it is terminating"),
    "critical": (pod(spec={"priority": 2000000000}), "it has a system critical priority"),
    "bare": (pod(BARE), "it has no owner"),
    "failed and bare": (pod(BARE, status=FAILED), "it has no owner"),
    "hostPath": (pod(spec={"volumes": [{"hostPath": {"path": "/x"}}]}), "it has local storage"),
    "emptyDir": (pod(spec={"volumes": [{"emptyDir": {}}]}), "it has local storage"),
    "daemon": (pod({"ownerReferences": [{"kind": "DaemonSet"}]}), "it is owned by a DaemonSet"),
}


@pytest.mark.parametrize("case", PROTECTED)
def test_by_default_a_pod_is_protected(case: str) -> None:
    item, reason = PROTECTED[case]
    assert evictor().reasons_against(item) == [reason]
    assert not evictor().filter(item)


@pytest.mark.parametrize("case", PROTECTED)
def test_the_evict_annotation_overrides_protection(case: str) -> None:
    item, _ = PROTECTED[case]
    item = decode(Pod, {"metadata": {"annotations": {**item.metadata.annotations, EVICT: ""}}})
    assert evictor().filter(item)


@pytest.mark.parametrize(
    "item",
    [
        pod(),
        pod(spec=PVC),
        pod(spec={"priority": 1999999999}),
        pod({"annotations": {"kubernetes.io/config.source": "api"}}),
        pod({"annotations": {PREFER_NOT: ""}}),
        pod(spec={"volumes": [{"ephemeral": {}}], "resourceClaims": [{"name": "gpu"}]}),
    ],
)
def test_by_default_other_pods_may_be_evicted(item: Pod) -> None:
    assert evictor().filter(item)


@pytest.mark.parametrize(
    ("fields", "item", "passes"),
    [
        ({"evictLocalStoragePods": True}, PROTECTED["emptyDir"][0], True),
        ({"evictDaemonSetPods": True}, PROTECTED["daemon"][0], True),
        ({"evictSystemCriticalPods": True}, PROTECTED["critical"][0], True),
        ({"evictFailedBarePods": True}, PROTECTED["failed and bare"][0], True),
        ({"evictFailedBarePods": True}, PROTECTED["bare"][0], False),
        ({"ignorePvcPods": True}, pod(spec=PVC), False),
        ({"podProtections": {"defaultDisabled": ["DaemonSetPods"]}}, PROTECTED["daemon"][0], True),
        (
            {"podProtections": {"extraEnabled": ["PodsWithPVC"]}, "evictDaemonSetPods": True},
            PROTECTED["daemon"][0],
            False,
        ),
        (
            {"podProtections": {"extraEnabled": ["PodsWithResourceClaims"]}},
            pod(spec={"resourceClaims": [{"name": "gpu"}]}),
            False,
        ),
        ({"noEvictionPolicy": "Mandatory"}, pod({"annotations": {PREFER_NOT: ""}}), False),
        ({"noEvictionPolicy": "Preferred"}, pod({"annotations": {PREFER_NOT: ""}}), True),
        ({"labelSelector": {"matchLabels": {"app": "x"}}}, pod({"labels": {"app": "x"}}), True),
        ({"labelSelector": {"matchLabels": {"app": "x"}}}, pod(), False),
        ({"priorityThreshold": {"value": 100}}, pod(spec={"priority": 100}), False),
        ({"priorityThreshold": {"value": 100}}, pod(spec={"priority": 99}), True),
        ({"priorityThreshold": {"value": 100}}, pod(), True),
        ({"priorityThreshold": {}}, pod(spec={"priority": 100}), True),
        (
            {"priorityThreshold": {"value": 100}, "evictSystemCriticalPods": True},
            pod(spec={"priority": 100}),
            True,
        ),
        ({"minPodAge": "1m"}, pod(), False),
        ({"minPodAge": "1m"}, pod(status={"startTime": "2025-12-31T23:59:01Z"}), False),
        ({"minPodAge": "1m"}, pod(status={"startTime": "2025-12-31T23:59:00Z"}), True),
    ],
)
def test_arguments_change_what_is_protected(fields: dict[str, Any], item: Pod, passes: bool) -> None:
    assert evictor(**fields).filter(item) is passes


def test_a_threshold_can_be_a_priority_class() -> None:
    cluster = Cluster()
    filtering = evictor(cluster, priorityThreshold={"name": "high"})
    assert not filtering.filter(pod())
    cluster.store(PriorityClass).apply(decode(PriorityClass, {"metadata": {"name": "high"}, "value": 10}))
    assert filtering.filter(pod(spec={"priority": 9}))
    assert not filtering.filter(pod(spec={"priority": 10}))


@pytest.mark.parametrize(("storage_class", "passes"), [("fast", False), ("slow", True), (None, True)])
def test_claims_can_be_protected_by_storage_class(storage_class: str | None, passes: bool) -> None:
    cluster = Cluster()
    protections = {
        "extraEnabled": ["PodsWithPVC"],
        "config": {"PodsWithPVC": {"protectedStorageClasses": [{"name": "fast"}]}},
    }
    filtering = evictor(cluster, podProtections=protections)
    assert not filtering.filter(pod(spec=PVC))
    claim = {"metadata": {"namespace": "a", "name": "data"}, "spec": {"storageClassName": storage_class}}
    cluster.store(PersistentVolumeClaim).apply(decode(PersistentVolumeClaim, claim))
    assert filtering.filter(pod(spec=PVC)) is passes


def test_pods_without_a_budget_can_be_protected() -> None:
    cluster = Cluster()
    filtering = evictor(cluster, ignorePodsWithoutPDB=True)
    budget = {
        "metadata": {"namespace": "a", "name": "b"},
        "spec": {"selector": {"matchLabels": {"app": "x"}}},
    }
    cluster.store(PodDisruptionBudget).apply(decode(PodDisruptionBudget, budget))
    assert filtering.filter(pod({"labels": {"app": "x"}}))
    assert not filtering.filter(pod({"labels": {"app": "y"}}))
    assert not filtering.filter(pod({"labels": {"app": "x"}, "namespace": "b"}))


@pytest.mark.parametrize(
    ("fields", "item", "reason"),
    [
        (
            {"noEvictionPolicy": "Mandatory"},
            pod({"annotations": {PREFER_NOT: ""}}),
            "it has the annotation prefer-no-eviction",
        ),
        (
            {"podProtections": {"extraEnabled": ["PodsWithResourceClaims"]}},
            pod(spec={"resourceClaims": [{"name": "gpu"}]}),
            "it has resource claims",
        ),
        ({"labelSelector": {"matchLabels": {"app": "x"}}}, pod(), "labelSelector does not match it"),
        ({"ignorePodsWithoutPDB": True}, pod(), "no PodDisruptionBudget covers it"),
        ({"ignorePvcPods": True}, pod(spec=PVC), "it mounts PersistentVolumeClaim data"),
        ({"minPodAge": "1m"}, pod(), "it is younger than minPodAge"),
        ({"minReplicas": 2}, pod(), "its owner has 0 pods, minReplicas is 2"),
        (
            {"priorityThreshold": {"value": 7}},
            pod(spec={"priority": 7}),
            "its priority 7 is not below the threshold 7",
        ),
        (
            {"priorityThreshold": {"name": "high"}},
            pod(),
            "PriorityClass high of priorityThreshold does not exist",
        ),
    ],
)
def test_the_reason_against_an_eviction_is_returned(fields: dict[str, Any], item: Pod, reason: str) -> None:
    assert evictor(**fields).reasons_against(item) == [reason]


def test_the_pods_annotation_is_the_first_reason() -> None:
    both = pod({"annotations": {PREFER_NOT: "", "kubernetes.io/config.mirror": ""}})
    assert evictor(noEvictionPolicy="Mandatory").reasons_against(both) == [
        "it has the annotation prefer-no-eviction",
        "it is a mirror pod",
    ]


@pytest.mark.parametrize("replicas", [0, 1])
def test_min_replicas_of_one_protects_nothing(replicas: int) -> None:
    assert evictor(minReplicas=replicas).filter(pod())


@pytest.mark.parametrize(
    ("started", "passes"), [("2025-12-01T00:00:00Z", True), ("2025-12-01T00:00:01Z", False)]
)
def test_the_age_of_a_pod_is_exact(started: str, passes: bool) -> None:
    assert evictor(minPodAge="744h").filter(pod(status={"startTime": started})) is passes


def test_owners_with_few_pods_can_be_protected() -> None:
    cluster = Cluster()
    filtering = evictor(cluster, minReplicas=2)
    cluster.store(Pod).apply(pod(name="1"))
    assert not filtering.filter(pod(name="1"))
    cluster.store(Pod).apply(pod(name="2"))
    assert filtering.filter(pod(name="1"))


def test_profiles_of_one_cluster_count_the_replicas_of_the_same_owners() -> None:
    cluster = Cluster()
    lenient, strict = evictor(cluster, minReplicas=2), evictor(cluster, minReplicas=3)
    for name in ("1", "2"):
        cluster.store(Pod).apply(pod(name=name))
    assert lenient.filter(pod(name="1"))
    assert not strict.filter(pod(name="1"))


def test_before_eviction_another_node_must_fit() -> None:
    cluster = Cluster()
    filtering = evictor(cluster, nodeFit=True, nodeSelector="pool=x")
    for name, labels in (("n1", {"pool": "x"}), ("n2", {})):
        document = {"metadata": {"name": name, "labels": labels}, "status": {"allocatable": {"pods": "9"}}}
        cluster.store(Node).apply(decode(Node, document))
    assert filtering.filter(pod())
    assert not filtering.pre_eviction_filter(pod())
    document = {"metadata": {"name": "n3", "labels": {"pool": "x"}}, "status": {"allocatable": {"pods": "9"}}}
    cluster.store(Node).apply(decode(Node, document))
    assert filtering.pre_eviction_filter(pod())


def test_before_eviction_the_namespace_must_be_selected() -> None:
    cluster = Cluster()
    filtering = evictor(cluster, namespaceLabelSelector={"matchLabels": {"team": "x"}})
    assert not filtering.pre_eviction_filter(pod())
    document = {"metadata": {"name": "a", "labels": {"team": "x"}}}
    cluster.store(Namespace).apply(decode(Namespace, document))
    assert filtering.pre_eviction_filter(pod())


BAD_SELECTOR = {"matchExpressions": [{"key": "a", "operator": "Is"}]}
BAD_TEXT = json.dumps(BAD_SELECTOR, separators=(",", ":"))
BAD = f'Invalid value: {BAD_TEXT}: "Is" is not a valid label selector operator'


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        (
            {"priorityThreshold": {"value": 2000000001}},
            "priorityThreshold.value: Invalid value: 2000000001: must be less than or equal to 2000000000",
        ),
        ({"priorityThreshold": {"value": 2000000000}}, None),
        (
            {"priorityThreshold": {"value": 1, "name": "x"}},
            'priorityThreshold: Invalid value: {"value": 1, "name": "x"}: '
            "only one of value and name can be set",
        ),
        ({"nodeSelector": "a=="}, None),
        (
            {"nodeSelector": "a=b=c"},
            'nodeSelector: Invalid value: "a=b=c": '
            "label selector 'a=b=c': found '=', expected ',' or the end",
        ),
        (
            {"noEvictionPolicy": "Never"},
            'noEvictionPolicy: Invalid value: "Never": expected one of Mandatory, Preferred',
        ),
        (
            {"podProtections": {"extraEnabled": ["DaemonSetPods"]}},
            'podProtections.extraEnabled[0]: Invalid value: "DaemonSetPods": expected one of PodsWithPVC, '
            "PodsWithResourceClaims, PodsWithoutPDB",
        ),
        (
            {"podProtections": {"defaultDisabled": ["DaemonSetPods", "X"]}},
            'podProtections.defaultDisabled[1]: Invalid value: "X": expected one of DaemonSetPods, '
            "FailedBarePods, PodsWithLocalStorage, SystemCriticalPods",
        ),
        ({"labelSelector": BAD_SELECTOR}, f"labelSelector: {BAD}"),
        ({"namespaceLabelSelector": BAD_SELECTOR}, f"namespaceLabelSelector: {BAD}"),
        ({"unknown": 1}, None),
    ],
)
def test_wrong_values_are_named(fields: dict[str, Any], problem: str | None) -> None:
    assert [str(error) for error in args(**fields).problems()] == ([problem] if problem else [])


def test_protections_come_from_the_list_or_the_older_switches() -> None:
    assert args().protections == DEFAULT_PROTECTIONS
    assert args(ignorePvcPods=True, evictDaemonSetPods=True).protections == (
        DEFAULT_PROTECTIONS - {Protection.DAEMON_SET} | {Protection.PVC}
    )
    listed = {"extraEnabled": ["PodsWithoutPDB"], "defaultDisabled": ["SystemCriticalPods"]}
    assert args(podProtections=listed).protections == (
        DEFAULT_PROTECTIONS - {Protection.SYSTEM_CRITICAL} | {Protection.WITHOUT_PDB}
    )


async def test_evictions_go_through_the_api_and_are_reported() -> None:
    clock = FakeClock(NOW)
    server = ApiServer(clock=clock)
    await server.load()
    client = Client(ServerChannel(server), attempts=1)
    recorder = Recorder(client, clock=clock)
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    document = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "spec": spec}
    await client.create_raw(resource_of(Pod), "default", document)
    await client.patch_status(Pod, "default", "p", {"status": {"phase": "Running"}})
    made = evictor(client=client, events=recorder)
    options = EvictOptions(plugin_name="LowNodeLoad", grace_period_seconds=7)
    assert await made.evict(await client.get(Pod, "default", "p"), options)
    metadata = (await client.get_raw(resource_of(Pod), "default", "p"))["metadata"]
    assert metadata["deletionGracePeriodSeconds"] == 7
    await recorder.flush()
    assert [event.note for event in await client.list_all(Event)] == ["pod evicted by LowNodeLoad"]


async def test_without_an_api_server_nothing_can_be_evicted() -> None:
    with pytest.raises(RuntimeError, match="a/p cannot be evicted: there is no API server"):
        await evictor().evict(pod(), EvictOptions())
