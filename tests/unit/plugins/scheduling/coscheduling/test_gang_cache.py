from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.core import Pod
from koordpy.api.koordinator import PodGroup
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.profiles.registry import Place

from .gang_world import GangWorld, member, pod_group


def assert_empty(world: GangWorld) -> None:
    cache = world.cache
    assert (cache.gangs, cache.groups, dict(cache._groups_of)) == ({}, {}, {})


def test_a_gang_ends_with_its_last_pod() -> None:
    world, pods = GangWorld(), [member("a"), member("b")]
    world.put(*pods)
    world.delete(pods[0])
    assert set(world.cache.gangs["ns/g"].children) == {"ns/b"}
    world.delete(pods[1])
    assert_empty(world)


def test_a_gang_with_a_pod_group_ends_with_the_pod_group() -> None:
    world, pod, group = GangWorld(), member("a", minimum=None), pod_group()
    world.put(pod, group)
    world.delete(pod)
    assert world.cache.gangs["ns/g"].is_initialized
    world.delete(group)
    assert_empty(world)


def test_a_gang_whose_pods_are_listed_before_its_pod_group_was_satisfied_all_the_same() -> None:
    world = GangWorld()
    world.put(member("a", minimum=None, node="n1"), member("b", minimum=None), pod_group("g", 2))
    assert world.cache.gangs["ns/g"].needs_no_minimum
    assert world.plugin.pre_enqueue(member("b", minimum=None)).is_success


def test_a_gang_that_was_satisfied_stays_so_when_it_joins_its_group_later() -> None:
    world = GangWorld()
    world.put(*(member(name, minimum=None, node="n1") for name in "ab"))
    world.put(pod_group("g", 2))  # with no pending pod the gang has a group of its own, as in Koordinator
    world.put(pod_group("g", 2, status={"phase": "Running"}))
    assert world.cache.gangs["ns/g"].group is world.cache.groups["ns/g"]
    assert world.cache.gangs["ns/g"].needs_no_minimum


def test_pods_stay_members_while_their_pod_group_is_replaced() -> None:
    world, pods = GangWorld(), [member("a", minimum=None, node="n1"), member("b", minimum=None)]
    world.put(pod_group("g", 2), *pods)
    world.delete(pod_group("g", 2))
    assert world.plugin.pre_enqueue(pods[1]).message == "gang has not init, gangName: ns/g, podName: ns/b"
    world.put(pod_group("g", 2))
    gang = world.cache.gangs["ns/g"]
    assert (set(gang.bound), set(gang.pending)) == ({"ns/a"}, {"ns/b"})
    assert gang.needs_no_minimum


def test_pods_that_outlive_their_pod_group_leave_nothing() -> None:
    world, pod, group = GangWorld(), member("a", minimum=None), pod_group()
    world.put(group, pod)
    world.delete(group)
    assert not world.cache.gangs["ns/g"].is_initialized
    world.put(member("a", minimum=None, metadata={"labels": pod.metadata.labels | {"more": "x"}}))
    assert not world.cache.gangs["ns/g"].is_initialized
    world.delete(pod)
    assert_empty(world)


def test_a_pod_whose_gang_changes_leaves_the_old_gang() -> None:
    world = GangWorld()
    world.put(member("a", "g"), member("b", "g"))
    world.put(member("a", "h"))
    assert set(world.cache.gangs["ns/g"].children) == {"ns/b"}
    assert set(world.cache.gangs["ns/h"].children) == {"ns/a"}
    world.put(decode(Pod, {"metadata": {"namespace": "ns", "name": "a", "uid": "u-a"}}))
    assert "ns/h" not in world.cache.gangs


def test_a_pod_group_that_changes_its_groups_leaves_no_group_behind() -> None:
    world = GangWorld()
    group = pod_group("g", 1)
    world.put(group)
    changed = pod_group("g", 1, group=["g", "h"])
    world.put(changed)
    assert world.cache.gangs["ns/g"].settings.group == ("ns/g", "ns/h")
    world.delete(changed)
    assert_empty(world)


def test_reservations_are_members() -> None:
    world = GangWorld()
    template = {"metadata": {"namespace": "ns"}, "spec": {"containers": []}}
    meta = {"name": "r", "uid": "u-r", "annotations": dict(member("a").metadata.annotations)}
    document = {"metadata": meta, "spec": {"template": template}}
    store = world.cluster.store(Reservation)
    store.apply(decode(Reservation, document))
    world.put(member("a"))
    assert set(world.cache.gangs["ns/g"].pending) == {"ns/u-r", "ns/a"}
    store.apply(decode(Reservation, {**document, "status": {"phase": "Available", "nodeName": "n1"}}))
    assert set(world.cache.gangs["ns/g"].bound) == {"ns/u-r"}
    store.discard("r")
    assert set(world.cache.gangs["ns/g"].children) == {"ns/a"}


def test_a_member_that_completes_its_gang_is_activated_where_koordpy_schedules() -> None:
    world = GangWorld(Place.SCHEDULER)
    world.put(member("a"), member("b"))
    assert world.queue.activated == ["b"]
    world.put(member("c", "h", None), pod_group("h", 1))
    assert world.queue.activated == ["b", "c"]


def test_no_member_is_activated_beside_kube_scheduler() -> None:
    world = GangWorld()
    world.put(member("a"), member("b"))
    assert world.queue.activated == []


def test_a_binding_that_is_never_shown_is_taken_back() -> None:
    world, pod = GangWorld(), member("a", minimum=1)
    world.put(pod)
    world.plugin.permit(CycleState(), pod, "n1")
    world.plugin.post_bind(CycleState(), pod, "n1")
    gang = world.cache.gangs["ns/g"]
    assert (set(gang.pending), set(gang.bound)) == (set(), {"ns/a"})
    world.handle.forget_pod(pod, "n1")
    assert (set(gang.pending), set(gang.bound)) == ({"ns/a"}, set())


NAMES = st.sampled_from(["a", "b", "c"])
GANGS = st.sampled_from(["g", "h"])
GROUPS = st.sampled_from([[], ["g"], ["g", "h"], ["h", "i"]])
OPERATIONS = st.one_of(
    st.builds(member, NAMES, GANGS, st.sampled_from([None, 0, 1, 2]), st.sampled_from(["", "n1"])),
    st.builds(lambda name, gang, group: member(name, gang, 1, group=group), NAMES, GANGS, GROUPS),
    st.builds(lambda gang, group: pod_group(gang, 1, group=group), GANGS, GROUPS),
    st.tuples(st.just(Pod), NAMES),
    st.tuples(st.just(PodGroup), GANGS),
)


@given(st.lists(OPERATIONS, max_size=25))
def test_whatever_happened_nothing_is_left_when_all_objects_are_gone(operations: list) -> None:
    world = GangWorld()
    for operation in operations:
        if isinstance(operation, tuple):
            world.cluster.store(operation[0]).discard(f"ns/{operation[1]}")
            continue
        world.put(operation)
        if isinstance(operation, Pod) and not operation.spec.node_name:
            world.plugin.permit(CycleState(), operation, "n1")
            world.plugin.unreserve(CycleState(), operation, "n1")
        for gang in world.cache.gangs.values():
            for pods in (gang.pending, gang.waiting, gang.bound):
                assert pods.keys() <= gang.children.keys()
    for type_ in (Pod, PodGroup):
        world.delete(*world.cluster.store(type_))
    assert_empty(world)
    assert world.plugin.waiting._held == {}
