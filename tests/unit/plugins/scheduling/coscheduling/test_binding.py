"""What bound members are told of how many were bound together."""

from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy_plugins.scheduling.coscheduling.waiting import NAMES

from .gang_world import GangWorld, member


async def told(world: GangWorld, name: str, gang: str = "g") -> list[str | None]:
    pod = member(name, gang)
    binding = Binding(pod, "n1", annotations=dict.fromkeys(NAMES, "old"))
    assert (await world.plugin.pre_bind(CycleState(), pod, "n1", binding)).is_success
    return [binding.annotations.get(each) for each in NAMES]


def placed(world: GangWorld, *names: str) -> None:
    for name in names:
        world.put(member(name))
    for name in names:
        world.plugin.permit(CycleState(), member(name), "n1")


async def test_the_members_that_wait_when_the_gang_is_complete_count() -> None:
    world = GangWorld()
    placed(world, "a", "b")
    expected = ["ns/g", "2", "ns/g", "2"]
    assert await told(world, "a") == expected
    assert await told(world, "b") == expected
    placed(world, "c")  # comes later
    assert await told(world, "c") == [None] * 4
    assert await told(world, "a") == expected


async def test_a_member_that_is_retried_after_the_others_were_bound_counts_with_them() -> None:
    world = GangWorld()
    placed(world, "a", "b")
    world.plugin.post_bind(CycleState(), member("a"), "n1")
    assert await told(world, "b") == ["ns/g", "2", "ns/g", "2"]


async def test_pods_that_are_bound_by_themselves_are_told_nothing() -> None:
    world = GangWorld()
    assert await told(world, "x", "") == [None] * 4
    placed(world, "a", "b")
    for name in "ab":
        world.plugin.post_bind(CycleState(), member(name), "n1")
    placed(world, "c")
    assert await told(world, "c") == [None] * 4
