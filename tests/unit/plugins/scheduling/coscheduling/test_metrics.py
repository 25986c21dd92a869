"""The metrics of gangs, with Koordinator's names."""

import pytest
from prometheus_client import REGISTRY

from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.profiles.registry import Place
from koordpy_plugins.scheduling.coscheduling.metrics import job_size

from .gang_world import GangWorld, member


def value(name: str, **labels: str) -> float:
    return REGISTRY.get_sample_value(name, labels) or 0.0


def test_groups_count_as_waiting_while_a_pod_of_any_of_their_gangs_waits() -> None:
    before = value("scheduler_waiting_gang_group_number")

    def waiting() -> float:
        return value("scheduler_waiting_gang_group_number") - before

    world, pods = GangWorld(), [member("a", "g", group="gh"), member("b", "h", group="gh")]
    world.put(*pods, member("c", "g", group="gh"), member("d", "h", group="gh"))
    for pod in pods:
        world.plugin.permit(CycleState(), pod, "n1")
        assert waiting() == 1
    for left, pod in zip((1, 0), pods, strict=True):
        world.plugin.unreserve(CycleState(), pod, "n1")
        assert waiting() == left


async def test_a_round_is_observed_with_its_reason_and_size() -> None:
    name, labels = "scheduler_gang_schedule_cycle_duration_seconds_count", {"job_size": "1-100"}
    reasons = ("gang is already succeed", "all pending pods is already been attempted")
    before = [value(name, reason=reason, **labels) for reason in reasons]
    for completes in (True, False):
        world, pods = GangWorld(Place.SCHEDULER), [member(name) for name in "ab"]
        world.put(*pods)
        assert world.before_pre_filter(pods[0]).is_success
        world.wait(pods[0])
        assert world.plugin.next_pod() is pods[1]
        if completes:
            assert world.wait(pods[1]) is None
        assert world.plugin.next_pod() is None
    assert [value(name, reason=reason, **labels) for reason in reasons] == [count + 1 for count in before]


@pytest.mark.parametrize(
    ("pods", "label"),
    [(0, "0"), (1, "1-100"), (100, "1-100"), (101, "101-200"), (1000, "901-1000"), (1001, "1000+")],
)
def test_sizes_of_jobs_are_in_hundreds(pods: int, label: str) -> None:
    assert job_size(pods) == label
