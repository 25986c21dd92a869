"""A pod that its quota refused is woken when its quota has room, and only then."""

from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota as ElasticQuotaObject
from koordpy.api.meta import KubeObject
from koordpy.scheduling.interface import ChangeHelps
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy_plugins.scheduling.elasticquota.controllers.controller import ElasticQuotaController

from .quota_world import World, pod_document


class Wakes:
    """Counts how often each refused pod is woken: after every change that may help, the plugin is asked."""

    def __init__(self, world: World, *refused: Pod) -> None:
        self.world, self.refused = world, {pod.metadata.name: pod for pod in refused}
        self.checks = 0
        self.woken: list[str] = []
        for kind, helps in world.plugin.events_to_register().items():
            self._follow(kind, helps)
        world.plugin.handle.queue.join(self)

    def _follow(self, kind: type[KubeObject], helps: ChangeHelps) -> None:
        self.world.cluster.store(kind).subscribe(
            lambda new: self._changed(kind, helps, None, new),
            lambda old, new: self._changed(kind, helps, old, new),
            lambda old: self._changed(kind, helps, old, None),
            replay=False,
        )

    def activate(self, pod: Pod) -> None:
        """No plugin of quotas names pods itself."""
        raise AssertionError(pod)

    def move_all(self, event: ClusterEvent) -> None:
        helps = self.world.plugin.events_to_register()[event.kind]
        self._changed(event.kind, helps, event.old, event.new)

    def _changed(
        self,
        kind: type[KubeObject],
        helps: ChangeHelps,
        old: KubeObject | None,
        new: KubeObject | None,
    ) -> None:
        if not helps(old, new) or not self.refused:
            return
        self.checks += 1
        pods = list(self.refused.values())
        key = next(each for each in (new, old) if each is not None).metadata.key
        for pod, passes in zip(pods, self.world.plugin.may_pass(pods, {kind: [key]}), strict=True):
            if passes:
                self.woken.append(pod.metadata.name)
                del self.refused[pod.metadata.name]


@pytest.fixture
def world() -> World:
    made = World()
    made.node("n1", 10)
    made.quota("top", most=10, is_parent="true")
    made.quota("a", "top", most=4)
    made.quota("b", "top", most=8)
    made.quota("other", most=4)
    return made


def refused(world: World, name: str, quota: str, cpu: int) -> Pod:
    pod = world.pod(name, quota, cpu)
    assert world.filter(pod).is_rejected
    return pod


def test_a_pod_is_woken_when_a_pod_of_its_quota_goes_but_not_when_others_do(world: World) -> None:
    mine, theirs = world.pod("p1", "a", 4, node="n1"), world.pod("p2", "other", 2, node="n1")
    wakes = Wakes(world, refused(world, "p3", "a", 2))
    world.delete(theirs)
    assert wakes.woken == []
    world.delete(mine)
    assert wakes.woken == ["p3"]


def test_only_the_pods_of_the_quota_that_has_room_are_woken(world: World) -> None:
    mine = world.pod("p1", "a", 4, node="n1")
    world.pod("p2", "b", 6, node="n1")
    world.pod("p3", "other", 4, node="n1")
    names = [refused(world, f"a{n}", "a", 2) for n in range(5)]
    names += [refused(world, f"o{n}", "other", 2) for n in range(5)]
    wakes = Wakes(world, *names)
    world.delete(mine)
    assert sorted(wakes.woken) == [f"a{n}" for n in range(5)]


def test_a_higher_maximum_wakes_and_a_lower_one_or_a_new_status_does_not(world: World) -> None:
    world.pod("p1", "a", 4, node="n1")
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    world.quota("a", "top", most=3)
    world.quota("a", "top", most=5)
    assert wakes.woken == []
    checks = wakes.checks
    quota = world.cluster.store(ElasticQuotaObject).get("quotas", "a")
    assert quota is not None
    world.put(
        ElasticQuotaObject,
        {
            "metadata": {"name": "a", "namespace": "quotas", "labels": dict(quota.metadata.labels)},
            "spec": {"min": quota.spec.min, "max": quota.spec.max},
            "status": {"used": {"cpu": "4"}},
        },
    )
    assert wakes.checks == checks, "a status is not worth a check"
    world.quota("a", "top", most=6)
    assert wakes.woken == ["p2"]


def test_a_pod_is_woken_when_its_runtime_grows_because_a_sibling_requests_less(world: World) -> None:
    theirs = world.pod("p1", "b", 8)
    world.pod("p2", "a", 3, node="n1")
    wakes = Wakes(world, refused(world, "p3", "a", 1))
    world.pod("p4", "other", 1)
    assert wakes.woken == []
    world.delete(theirs)
    assert wakes.woken == ["p3"]


def test_a_pod_is_woken_when_nodes_are_added(world: World) -> None:
    world.pod("p1", "b", 8)
    world.pod("p2", "a", 3, node="n1")
    wakes = Wakes(world, refused(world, "p3", "a", 1))
    world.quota("top", most=20, is_parent="true")
    assert wakes.woken == []
    world.node("n2", 10)
    assert wakes.woken == ["p3"]


def test_a_pod_is_woken_when_one_that_was_counted_tentatively_is_not_bound(world: World) -> None:
    first = world.pod("p1", "a", 4)
    world.plugin.reserve_tentatively(CycleState(), first)
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    world.plugin.unreserve_tentatively(first)
    world.plugin.handle.gave_back(first)
    assert wakes.woken == ["p2"]


def test_a_bind_wakes_no_pod(world: World) -> None:
    first = world.pod("p1", "a", 4)
    world.plugin.reserve_tentatively(CycleState(), first)
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    assert world.plugin.reserve(CycleState(), first, "n1").is_success
    world.plugin.unreserve_tentatively(first)
    world.pod("p1", "a", 4, node="n1")
    assert wakes.woken == []


def unlabelled(world: World, name: str, namespace: str, cpu: int) -> Pod:
    document = pod_document(name, "", cpu)
    document["metadata"]["namespace"] = namespace
    found: Pod = world.put(Pod, document)
    return found


def test_a_pod_is_woken_when_its_namespace_gets_a_quota_that_has_room(world: World) -> None:
    world.quota("a", "top", most=4, notes={"namespaces": '["shop"]'})
    world.pod("p1", "a", 4, node="n1")
    pod = unlabelled(world, "p2", "shop", 2)
    assert world.filter(pod).is_rejected
    wakes = Wakes(world, pod)
    world.quota("b", "top", most=8, notes={"namespaces": '["shop-test"]'})
    assert wakes.woken == []
    world.quota("a", "top", most=4)
    assert wakes.woken == ["p2"], "it counts in the default quota now"


@pytest.mark.parametrize("to", ["b", "other"])
def test_a_pod_is_woken_when_another_leaves_for_another_quota(world: World, to: str) -> None:
    world.pod("p1", "a", 4, node="n1")
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    world.pod("p1", to, 4, node="n1")
    assert wakes.woken == ["p2"]


def test_a_pod_is_woken_when_another_ends(world: World) -> None:
    document = pod_document("p1", "a", 4, node="n1")
    world.put(Pod, document)
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    world.put(Pod, {**document, "status": {"phase": "Running"}})
    assert wakes.woken == []
    world.put(Pod, {**document, "status": {"phase": "Succeeded"}})
    assert wakes.woken == ["p2"]


@pytest.mark.parametrize("where", ["container", "sidecar", "pod"])
def test_a_pod_is_woken_when_another_is_resized(world: World, where: str) -> None:
    def running(cpu: int) -> dict[str, Any]:
        document = pod_document("p1", "a", cpu if where == "container" else 0, node="n1")
        sized = {"requests": {"cpu": str(cpu)}}
        if where == "sidecar":
            document["spec"]["initContainers"] = [
                {"name": "s", "restartPolicy": "Always", "resources": sized}
            ]
        elif where == "pod":
            document["spec"]["resources"] = sized
        return document

    world.put(Pod, running(4))
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    world.put(Pod, running(3))
    assert wakes.woken == []
    world.put(Pod, running(2))
    assert wakes.woken == ["p2"]


def test_a_pod_is_woken_when_its_quota_moves_to_where_there_is_room() -> None:
    world = World({"enableCheckParentQuota": True, "enableRuntimeQuota": False})
    world.quota("full", most=4, is_parent="true")
    world.quota("roomy", most=8, is_parent="true")
    for name in ("a", "b"):
        world.quota(name, "full", most=4)
    world.pod("p1", "b", 3, node="n1")
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    world.quota("roomy", most=9, is_parent="true")
    assert wakes.woken == []
    world.quota("a", "roomy", most=4)
    assert wakes.woken == ["p2"]


def test_a_pod_is_woken_when_a_parent_gets_room_from_another_of_its_children() -> None:
    world = World({"enableCheckParentQuota": True, "enableRuntimeQuota": False})
    world.quota("top", most=4, is_parent="true")
    for name in ("a", "b"):
        world.quota(name, "top", most=4)
    theirs = world.pod("p1", "b", 3, node="n1")
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    world.delete(theirs)
    assert wakes.woken == ["p2"]


def test_a_pod_is_woken_when_the_total_of_its_tree_grows() -> None:
    world = World(MultiQuotaTree=True)

    def root(cpu: int) -> None:
        total = {"total-resource": f'{{"cpu":"{cpu}"}}'}
        world.quota("root", least=cpu, notes=total, is_root="true", tree_id="t", is_parent="true")

    root(4)
    world.quota("a", "root", tree_id="t")
    world.pod("p1", "a", 3, node="n1")
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    world.node("n1", 100)
    assert wakes.woken == [], "nodes count in the default tree"
    root(5)
    assert wakes.woken == ["p2"]


def test_pods_that_come_or_are_annotated_and_nodes_that_are_labelled_are_not_worth_a_check(
    world: World,
) -> None:
    document = pod_document("p1", "a", 4, node="n1")
    world.put(Pod, document)
    wakes = Wakes(world, refused(world, "p2", "a", 2))
    world.pod("p3", "a", 1)
    document["metadata"]["annotations"] = {"a": "b"}
    world.put(Pod, document)
    labelled = {"metadata": {"name": "n1", "labels": {"a": "b"}}, "status": {"allocatable": {"cpu": "10"}}}
    world.put(Node, labelled)
    assert wakes.checks == 0


def test_a_pod_is_woken_when_the_scaled_minimums_of_siblings_give_it_room() -> None:
    world = World()
    world.node("n1", 200)
    world.quota("p", least=300, most=1000, is_parent="true")
    for name in ("a", "b", "c"):
        world.quota(name, "p", least=100, most=1000)
    world.pod("more", "a", 110)
    world.pod("theirs", "c", 200)
    wakes = Wakes(world, refused(world, "p1", "a", 90), refused(world, "p2", "c", 150))
    controller = ElasticQuotaController(world.plugin.args, world.plugin.handle, world.trees)
    controller.refresh_runtime()
    assert wakes.woken == ["p1"]
    checks = wakes.checks
    controller.refresh_runtime()
    assert wakes.checks == checks
