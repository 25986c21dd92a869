"""Gangs that Workloads and PodGroups of Kubernetes describe, in the cache of gangs."""

from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.gang.settings import GangDefaults, GangSource
from koordpy.api.pod_groups import KubernetesPodGroup, KubernetesPodGroupV1Alpha2, Workload
from koordpy.api.scheme import decode
from koordpy.cluster import transformers
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.kubernetes_gangs import SCHEDULING_GROUP, WORKLOAD_REF
from koordpy.gates import chosen
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy_plugins.scheduling.coscheduling.state.gang import Gang
from koordpy_plugins.scheduling.coscheduling.state.gang_cache import GangCache

GANG = "ml/training:workers"


class Queue:
    """A queue that remembers which pods were activated."""

    def __init__(self) -> None:
        self.activated: list[str] = []

    def activate(self, pod: Pod) -> None:
        self.activated.append(pod.metadata.name)

    def move_all(self, event: ClusterEvent) -> None:
        raise AssertionError(event)


class World:
    """A cluster, and the gangs that are known in it."""

    def __init__(self, *gates: str) -> None:
        self.cluster = Cluster()
        on = chosen(SPECS, dict.fromkeys(gates, True))
        transformers.install(self.cluster, on)
        handle = Handle(self.cluster)
        handle.gates = on
        self.queue = Queue()
        handle.queue.join(self.queue)
        self.cache = GangCache(handle, GangDefaults())

    def pod(self, name: str, **spec: Any) -> None:
        document = {"metadata": {"name": name, "namespace": "ml", "uid": name}, "spec": spec}
        self.cluster.store(Pod).apply(decode(Pod, document))

    def member(self, name: str, key: str = "", **spec: Any) -> None:
        reference = {"name": "training", "podGroup": "workers", "podGroupReplicaKey": key}
        self.pod(name, workloadRef=reference, **spec)

    def workload(self, policy: dict[str, Any], group: str = "workers") -> None:
        metadata = {"name": "training", "namespace": "ml", "uid": "w"}
        spec = {"podGroups": [{"name": group, "policy": policy}]}
        self.cluster.store(Workload).apply(decode(Workload, {"metadata": metadata, "spec": spec}))

    def gang(self, id_: str = GANG) -> Gang:
        return self.cache.gangs[id_]


@pytest.mark.parametrize("pods_first", [True, False])
def test_a_gang_is_known_from_its_workload_and_its_pods(pods_first: bool) -> None:
    world = World(WORKLOAD_REF)
    if pods_first:
        world.member("a")
        assert not world.gang().is_initialized
    world.workload({"gang": {"minCount": 2}})
    world.member("a")
    world.member("b")
    gang = world.gang()
    assert (gang.source, gang.settings.min_member) == (GangSource.KUBERNETES, 2)
    assert sorted(gang.pending) == ["ml/a", "ml/b"]
    assert gang.has_enough_children


def test_waiting_pods_are_tried_again_when_their_workload_comes() -> None:
    world = World(WORKLOAD_REF)
    for name in ("a", "b"):
        world.member(name)
    world.member("bound", nodeName="n0")
    assert world.queue.activated == []
    world.workload({"gang": {"minCount": 4}})
    assert world.queue.activated == []
    world.workload({"gang": {"minCount": 3}})
    assert sorted(world.queue.activated) == ["a", "b"]
    world.workload({"gang": {"minCount": 3}})
    assert len(world.queue.activated) == 2
    world.workload({"gang": {"minCount": 2}})  # there may be room for so many
    assert len(world.queue.activated) == 4


def test_a_gang_without_its_workload_cannot_be_scheduled() -> None:
    world = World(WORKLOAD_REF)
    world.workload({"gang": {"minCount": 1}})
    world.member("a")
    assert world.gang().has_enough_children
    world.cluster.store(Workload).discard("ml/training")
    assert not world.gang().is_initialized
    world.workload({"gang": {"minCount": 1}}, group="others")
    assert not world.gang().is_initialized
    world.workload({"gang": {"minCount": 1}})
    assert world.gang().has_enough_children


def test_each_replica_key_is_a_gang_of_its_own() -> None:
    world = World(WORKLOAD_REF)
    world.workload({"gang": {"minCount": 2}})
    for name, key in (("a", "0"), ("b", "1"), ("c", "1")):
        world.member(name, key)
    assert not world.gang(f"{GANG}:0").has_enough_children
    assert world.gang(f"{GANG}:1").has_enough_children


def test_no_pod_of_a_basic_group_waits() -> None:
    world = World(WORKLOAD_REF)
    world.workload({"basic": {}})
    world.member("a")
    assert world.gang().is_satisfied(placed=["a"])


def test_nothing_stays_of_a_gang_whose_pods_are_gone() -> None:
    world = World(WORKLOAD_REF)
    world.workload({"gang": {"minCount": 2}})
    world.member("a")
    world.cluster.store(Pod).discard("ml/a")
    assert not world.cache.gangs
    assert not world.cache.groups
    kept = world.cache._kubernetes
    assert not kept._gangs_of
    assert not kept._object_of


@pytest.mark.parametrize("type_", [KubernetesPodGroup, KubernetesPodGroupV1Alpha2])
def test_pod_groups_of_later_releases_describe_gangs(type_: type[KubernetesPodGroup]) -> None:
    world = World(SCHEDULING_GROUP)
    world.pod("a", schedulingGroup={"podGroupName": "g"})
    gang = world.gang("ml/PodGroup:g")
    assert not gang.is_initialized
    metadata = {"name": "g", "namespace": "ml", "uid": "g"}
    for minimum in (3, 1):
        spec = {"schedulingPolicy": {"gang": {"minCount": minimum}}}
        world.cluster.store(type_).apply(decode(type_, {"metadata": metadata, "spec": spec}))
        assert gang.settings.min_member == minimum
    assert world.queue.activated == ["a"]


def test_without_their_gate_groups_are_neither_followed_nor_gangs() -> None:
    world = World()
    world.member("a")
    world.pod("b", schedulingGroup={"podGroupName": "g"})
    assert not world.cache.gangs
    followed = {store.type for store in world.cluster.stores}
    assert not followed & {Workload, KubernetesPodGroup, KubernetesPodGroupV1Alpha2}


def test_gangs_end_when_kube_scheduler_begins_to_gate_them() -> None:
    world = World(WORKLOAD_REF)
    world.workload({"gang": {"minCount": 2}})
    world.member("a")
    gangs = world.cluster.kubernetes_gangs
    assert gangs is not None
    gangs.leave_to_kube_scheduler(True, world.cluster.store(Pod))
    assert not world.cache.gangs
    gangs.leave_to_kube_scheduler(False, world.cluster.store(Pod))
    assert world.gang().settings.min_member == 2
