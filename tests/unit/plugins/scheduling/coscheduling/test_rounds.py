"""Rounds where koordpy is the scheduler itself."""

from koordpy.scheduling.profiles.registry import Place

from .gang_world import GangWorld, member


def test_one_pod_is_queued_for_all_and_the_others_follow_it() -> None:
    world, pods = GangWorld(Place.SCHEDULER), [member(name) for name in "abc"]
    world.put(*pods)
    assert [world.plugin.pre_enqueue(pod).is_success for pod in pods] == [True, False, False]
    assert world.plugin.next_pod() is None
    assert world.before_pre_filter(pods[0]).is_success
    tried = []
    while (pod := world.plugin.next_pod()) is not None:
        tried.append(pod.metadata.name)
        assert world.before_pre_filter(pod).is_success
    assert tried == ["b", "c"]
    assert world.plugin.holder.current is None


async def test_members_that_were_not_completed_are_rejected_when_the_round_ends() -> None:
    world, pods = GangWorld(Place.SCHEDULER), [member(name) for name in "ab"]
    world.put(*pods)
    assert world.before_pre_filter(pods[0]).is_success
    waiting = world.wait(pods[0])
    assert waiting is not None
    assert world.plugin.next_pod() is pods[1]
    assert world.plugin.next_pod() is None
    assert (await waiting.outcome()).message == "all pending pods is already been attempted"
