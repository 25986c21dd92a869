"""Groups of gangs as jobs, beside kube-scheduler."""

from koordpy.api.core import Pod
from koordpy.api.gang.settings import NON_STRICT, ONLY_WAITING, WAITING_AND_RUNNING
from koordpy.api.network_topology import ANNOTATION_INDEX
from koordpy.api.pre_enqueue_gates import gate_of
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.jobs import MOVED
from koordpy.scheduling.interface.status import Status

from .gang_world import GangWorld, member, pod_group


def names(world: GangWorld, pod) -> list[str] | None:
    job = world.plugin.job_of(pod)
    return None if job is None else [each.metadata.name for each in job.pods]


def test_a_job_is_the_whole_group_in_the_order_of_index_and_name() -> None:
    world = GangWorld()
    first = member("c", "g", group=["g", "h"], notes={ANNOTATION_INDEX: "1"})
    world.put(first, member("a", "g", group=["g", "h"]))
    assert names(world, first) is None
    world.put(member("b", "h", group=["g", "h"]), member("d", "h", group=["g", "h"]))
    assert names(world, first) == ["c", "a", "b", "d"]
    job = world.plugin.job_of(first)
    assert job is not None
    assert (job.id, job.seconds) == ("ns/g,ns/h", 600.0)


def test_pods_without_a_gang_are_no_job() -> None:
    world = GangWorld()
    pod = member("a", "")
    world.put(pod)
    assert not world.plugin.may_plan(pod)
    assert world.plugin.job_of(pod) is None


def test_members_of_a_group_that_was_satisfied_are_scheduled_by_themselves() -> None:
    world, late = GangWorld(), member("c")
    world.put(member("a"), member("b", node="n1"), late)
    assert world.plugin.job_of(late) is None
    assert world.before_pre_filter(late).is_success


def test_pods_that_cannot_be_bound_are_not_planned() -> None:
    world = GangWorld()
    own = {"schedulingGates": [{"name": gate_of("Coscheduling")}]}
    foreign = {"schedulingGates": [{"name": "example.com/wait"}]}
    pods = [
        member("a"),
        member("b", spec=own),
        member("c", spec=foreign),
        member("d", metadata={"deletionTimestamp": "2026-01-01T00:00:00Z"}),
        member("e", spec={"schedulerName": "another"}),
        member("f", status={"phase": "Failed"}),
    ]
    world.put(*pods)
    assert names(world, pods[0]) == ["a", "b"]
    assert names(world, pods[2]) is None


def test_pods_that_failed_while_they_were_pending_are_not_planned() -> None:
    world, pods = GangWorld(), [member("a"), member("b")]
    world.put(*pods)
    world.put(member("b", status={"phase": "Failed"}))
    assert names(world, pods[0]) == ["a"]


def test_enough_are_placed_according_to_the_match_policy() -> None:
    for policy, bound, enough in (
        (ONLY_WAITING, 1, 3),
        (WAITING_AND_RUNNING, 1, 2),
        ("once-satisfied", 0, 3),
    ):
        world = GangWorld()
        waiting = [member(f"p{number}", "g", 3, policy=policy) for number in range(4)]
        world.put(*waiting, *(member("bound", "g", 3, node="n1", policy=policy),) * bound)
        job = world.plugin.job_of(waiting[0])
        assert job is not None, policy
        uids = [pod.metadata.uid for pod in waiting]
        assert next(count for count in range(5) if job.suffices(uids[:count])) == enough, policy


def test_every_gang_of_the_group_needs_its_own_minimum() -> None:
    world = GangWorld()
    world.put(*(member(name, "g", 1, group=["g", "h"]) for name in "ab"))
    world.put(*(member(name, "h", 1, group=["g", "h"]) for name in "cd"))
    job = world.plugin.job_of(member("a", "g", 1))
    assert job is not None
    assert not job.suffices({"u-a", "u-b"})
    assert job.suffices({"u-a", "u-c"})


async def test_pods_that_wait_in_permit_count_and_are_not_planned_again() -> None:
    world, pods = GangWorld(), [member("a"), member("b")]
    world.put(*pods)
    assert world.wait(pods[0]) is not None
    job = world.plugin.job_of(pods[1])
    assert job is not None
    assert names(world, pods[1]) == ["b"]
    assert job.suffices({"u-b"})
    assert world.plugin.job_of(pods[0]) is None


def test_no_round_is_left_after_planning() -> None:
    world, pods = GangWorld(), [member("a"), member("b")]
    world.put(*pods)
    job = world.plugin.job_of(pods[0])
    assert job is not None
    for end in (
        lambda: world.plugin.job_planned(job, {"u-a": "n1", "u-b": "n1"}),
        lambda: world.plugin.job_refused(job, Status.unresolvable("no room")),
        lambda: world.plugin.job_refused(job, Status.failed("broken")),
        lambda: world.plugin.job_examined(job),
    ):
        world.plugin.planning(job)
        assert world.before_pre_filter(pods[1]).is_success
        context = world.plugin.holder.current
        assert context is not None
        assert context.attempted == {"ns/b"}
        end()
        assert world.plugin.holder.current is None


def test_filters_outside_planning_begin_no_round() -> None:
    world, pods = GangWorld(), [member("a"), member("b")]
    world.put(*pods)
    assert world.before_pre_filter(pods[0]).is_success
    assert world.plugin.holder.current is None


async def test_a_refused_job_rejects_the_members_that_wait_in_permit() -> None:
    world, pods = (
        GangWorld(),
        [member("a", notes={"gang.scheduling.koordinator.sh/mode": NON_STRICT}), member("b")],
    )
    world.put(*pods)
    waiting = world.wait(pods[0])
    assert waiting is not None
    job = world.plugin.job_of(pods[1])
    assert job is not None
    world.plugin.planning(job)
    world.plugin.job_refused(job, Status.unresolvable("no room"))
    assert (await waiting.outcome()).message == "no room"


async def test_a_job_that_is_only_examined_leaves_those_that_wait_alone() -> None:
    world, pods = GangWorld(), [member("a", minimum=3), member("b", minimum=3), member("c", minimum=3)]
    world.put(*pods)
    waiting = world.wait(pods[0])
    assert waiting is not None
    job = world.plugin.job_of(pods[1])
    assert job is not None
    world.plugin.planning(job)
    world.plugin.unreserve(CycleState(), pods[1], "n1")
    world.plugin.job_examined(job)
    assert waiting.pending_plugins == ["Coscheduling"]
    waiting.allow("Coscheduling")


async def test_a_member_that_moves_leaves_those_that_wait_alone() -> None:
    world, pods = GangWorld(), [member(name, minimum=3) for name in "abc"]
    world.put(*pods)
    waiting = world.wait(pods[0])
    assert waiting is not None
    state = CycleState()
    state.write(MOVED, True)
    world.plugin.unreserve(state, pods[1], "n1")
    assert waiting.pending_plugins == ["Coscheduling"]
    world.plugin.unreserve(CycleState(), pods[1], "n1")
    assert (await waiting.outcome()).message == 'Gang "ns/g" gets rejected due to Pod "b" in Unreserve'


def test_the_gates_of_all_members_open_together() -> None:
    world = GangWorld()
    pods = [member(name, minimum=None) for name in "ab"]
    world.put(*pods)
    assert not any(world.plugin.pre_enqueue(pod).is_success for pod in pods)
    group = pod_group()
    world.put(group)
    concerned = world.plugin.pre_enqueue_concerned({type(group): {"ns/g": None}})
    assert set(concerned) == {"u-a", "u-b"}
    assert all(world.plugin.pre_enqueue(pod).is_success for pod in pods)


def test_a_member_that_the_watch_has_not_shown_waits_for_it() -> None:
    world = GangWorld()
    world.put(member("a"), member("b"))
    late = member("c")
    assert world.plugin.pre_enqueue(late).message == "pod ns/c is not exists in gangCache"
    world.put(late)
    assert world.plugin.pre_enqueue(late).is_success
    assert world.plugin.may_pass([late], {Pod: {"ns/c": None}}) == [True]
