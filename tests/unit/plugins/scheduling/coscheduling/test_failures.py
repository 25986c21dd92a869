"""What members of a round know of each other's failures, where koordpy is the scheduler itself."""

import pytest

from koordpy.api.core import Pod
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.diagnosis import (
    PreemptionDiagnosis,
    Suggestion,
    SuggestionType,
    diagnosis_of,
)
from koordpy.scheduling.interface.outcome import FilterOutcome
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.profiles.registry import Place

from .gang_world import GangWorld, member, pod_group

SUGGESTED = SuggestionType.DELETE_CONFLICT_PVC


def begun(*pods: Pod) -> GangWorld:
    """A world in which the round of the pods' gang has begun with the first one."""
    world = GangWorld(Place.SCHEDULER)
    world.put(*pods)
    assert world.before_pre_filter(pods[0]).is_success
    return world


def fail(world: GangWorld, pod: Pod, state: CycleState) -> Status:
    outcome = FilterOutcome(world.cluster.nodes.all(), feasible=world.cluster.nodes.all().rows > -1)
    return world.plugin.rounds.after_post_filter(state, pod, outcome, Status.unschedulable())


def test_a_suggestion_for_the_first_pod_that_fails_is_made_for_the_others() -> None:
    pods = [member(name) for name in "ab"]
    world, state = begun(*pods), CycleState()
    diagnosis_of(state).suggest(SUGGESTED, "delete it")
    fail(world, pods[0], state)
    later = CycleState()
    _, status = world.plugin.before_pre_filter(later, pods[1])
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message.startswith('GangGroup "ns/g" gets rejected due to member Pod "ns/a"')
    assert not diagnosis_of(later).is_root_cause_pod
    assert diagnosis_of(later).suggestion == Suggestion(SUGGESTED, "delete it")
    assert diagnosis_of(later).questioned_key == "ns/g"


def test_later_failures_do_not_change_why_the_round_failed() -> None:
    pods = [member(name) for name in "abc"]
    world, states = begun(*pods), [CycleState(), CycleState()]
    for pod, state, message in zip(pods, states, ("no victims", "other"), strict=False):
        diagnosis_of(state).preemption = PreemptionDiagnosis(failed_message=message)
        fail(world, pod, state)
    context = world.plugin.holder.current
    assert context is not None
    assert 'member Pod "ns/a"' in context.failed_message
    assert context.preemption_message == "no victims"
    assert context.trigger_pod is pods[0]


async def test_only_pods_that_fail_because_of_another_are_told_how_its_preemption_ended() -> None:
    pods = [member(name) for name in "ab"]
    world, state = begun(*pods), CycleState()
    diagnosis_of(state).preemption = PreemptionDiagnosis(failed_message="no victims")
    fail(world, pods[0], state)
    outcome = FilterOutcome(world.cluster.nodes.all(), feasible=world.cluster.nodes.all().rows > -1)
    found = {}
    for name, is_root_cause in (("root", True), ("other", False)):
        diagnosis_of(state).is_root_cause_pod = is_root_cause
        _, found[name] = await world.plugin.post_filter(state, pods[1], outcome)
    assert {status.code for status in found.values()} == {Code.UNSCHEDULABLE}
    assert {name: status.message for name, status in found.items()} == {"root": "", "other": "no victims"}


def test_a_pod_whose_gang_is_gone_says_so() -> None:
    world = GangWorld(Place.SCHEDULER)
    assert fail(world, member("a"), CycleState()).message == 'Pod "ns/a" cannot find Gang "g"'
    assert fail(world, member("a", "", None), CycleState()).message == ""


@pytest.mark.parametrize(("policy", "rejects"), [("once-satisfied", False), ("only-waiting", True)])
def test_a_gang_that_needs_no_minimum_does_not_fail_with_a_pod(policy: str, rejects: bool) -> None:
    pod = member("b", minimum=None)
    world = GangWorld(Place.SCHEDULER)
    world.put(pod_group("g", 1, policy=policy), member("a", minimum=None, node="n1"), pod)
    expected = 'Gang "ns/g" gets rejected due to pod is unschedulable' if rejects else ""
    assert fail(world, pod, CycleState()).message == expected


async def test_in_a_non_strict_gang_pods_that_wait_stay_until_the_round_ends() -> None:
    notes = {"gang.scheduling.koordinator.sh/mode": "NonStrict"}
    pods = [member(name, minimum=3, notes=notes) for name in "abc"]
    world = begun(*pods)
    waiting = world.wait(pods[0])
    assert waiting is not None
    assert fail(world, pods[1], CycleState()).message == ""
    assert len(world.handle.waiting_pods) == 1
    assert not world.before_pre_filter(pods[2]).is_success
    while world.plugin.next_pod() is not None:
        pass
    assert (await waiting.outcome()).message == "all pending pods is already been attempted"


async def test_in_a_non_strict_gang_the_timeout_of_one_pod_leaves_the_others_waiting() -> None:
    for mode, left in (("NonStrict", 1), ("Strict", 0)):
        notes = {"gang.scheduling.koordinator.sh/mode": mode}
        pods = [member(name, minimum=3, notes=notes) for name in "abc"]
        world = begun(*pods)
        other, late = world.wait(pods[0]), world.wait(pods[1])
        assert other is not None
        assert late is not None
        late.reject("", "timeout")
        world.plugin.unreserve(CycleState(), pods[1], "n1")
        assert set(world.cache.gangs["ns/g"].waiting) == {"ns/a"}
        assert len(other.pending_plugins) == left
