"""What becomes of gangs in a simulation."""

from pathlib import Path
from typing import Any

import pytest

from koordpy.simulation.gangs import GangJournal, State, minimums
from koordpy.simulation.planned import PlannedPod

from .scenarios import ALONE
from .test_simulation import run


def member(gang: str = "d/g", minimum: int = 2) -> PlannedPod:
    return PlannedPod({}, "w", 0.0, None, ((), ()), (0.0, 0.0), gang=gang, gang_minimum=minimum)  # type: ignore[arg-type]


def test_a_gang_is_whole_once_its_minimum_is_bound() -> None:
    journal = GangJournal({})
    pods = [member() for _ in range(3)]
    for pod in pods:
        journal.created(pod, 10.0)
    assert journal.counts() == {State.WAITING: 1}
    journal.bound(pods[0], 15.0)
    assert journal.counts() == {State.PARTLY_BOUND: 1}
    journal.bound(pods[1], 25.0)
    assert journal.counts() == {State.WHOLE: 1}
    found = journal.result(100.0)
    assert found is not None
    assert (found.created, found.whole, found.whole_at_end) == (1, 1, 1)
    assert found.seconds_to_whole.max == 15.0
    assert found.longest_partly_bound == 10.0
    assert found.partly_bound_hours == pytest.approx(10 / 3600)


def test_finished_members_count_and_lost_ones_do_not() -> None:
    journal = GangJournal({})
    pods = [member() for _ in range(2)]
    for pod in pods:
        journal.created(pod, 0.0)
        journal.bound(pod, 0.0)
    journal.ended(pods[0], 5.0, was_bound=True, finished=True)
    assert journal.counts() == {State.WHOLE: 1}
    journal.created(pods[0], 6.0)
    journal.ended(pods[1], 6.0, was_bound=True, finished=False)
    assert journal.counts() == {State.WAITING: 1}
    journal.ended(pods[0], 9.0, was_bound=False, finished=False)
    assert journal.counts() == {State.OVER: 1}
    found = journal.result(50.0)
    assert found is not None
    assert (found.whole, found.waiting_at_end) == (1, 0)


def test_gangs_that_never_were_whole_count_with_the_time_they_waited() -> None:
    journal = GangJournal({})
    journal.created(member("d/a"), 10.0)
    journal.created(member("d/b"), 10.0)
    journal.bound(member("d/b"), 20.0)
    found = journal.result(70.0)
    assert found is not None
    assert found.seconds_to_whole.mean == 60.0
    assert (found.partly_bound_at_end, found.waiting_at_end) == (1, 1)
    assert found.longest_partly_bound == 50.0


def test_handlers_are_called_when_their_gang_is_whole() -> None:
    journal = GangJournal({"d/g": 1})
    called: list[str] = []
    journal.when_whole(member(""), lambda: called.append("no gang"))
    pod = member()
    journal.created(pod, 0.0)
    journal.when_whole(pod, lambda: called.append("waited"))
    assert called == ["no gang"]
    journal.bound(pod, 1.0)
    journal.when_whole(pod, lambda: called.append("at once"))
    assert called == ["no gang", "waited", "at once"]


def test_pods_without_a_gang_are_not_followed() -> None:
    journal = GangJournal({})
    journal.created(member(""), 0.0)
    journal.bound(member(""), 0.0)
    assert journal.result(1.0) is None


def test_minimums_of_pod_groups_are_known() -> None:
    pod_group = {"kind": "PodGroup", "metadata": {"name": "a", "namespace": "ml"}, "spec": {"minMember": 3}}
    unnamed = {"kind": "PodGroup", "metadata": {"name": "b"}, "spec": {"minMember": "many"}}
    assert minimums([{"kind": "Namespace"}, pod_group, unnamed]) == {"ml/a": 3}


def workloads(**gang: Any) -> list[dict[str, Any]]:
    pods = {"count": 4, "duration": "10m", "requests": {"cpu": 4}, "gang": {"size": 4, **gang}}
    return [{"name": "job", "pods": pods}]


def test_members_run_from_the_moment_on_that_their_gang_is_whole(tmp_path: Path) -> None:
    nodes = [{"name": "w", "count": 4, "allocatable": {"cpu": 4, "memory": "8Gi"}}]
    result = run(tmp_path, nodes=nodes, workloads=workloads(every="1m"), duration="1h", schedulers=[ALONE])
    ends = {round(pod.ended or 0.0) for pod in result.placements}
    assert ends == {180 + 600}
    assert {pod.gang for pod in result.placements} == {"default/job-0"}
    assert result.gangs is not None
    assert result.gangs.longest_partly_bound == pytest.approx(180.0, abs=1.0)
    assert max(result.series.gangs_partly_bound) == 1


def test_a_gang_for_which_there_is_no_room_holds_what_it_has_for_ever(tmp_path: Path) -> None:
    result = run(tmp_path, workloads=workloads(), duration="1h", schedulers=[ALONE])
    assert result.pods.bound == 3
    assert result.pods.finished == 0
    assert result.gangs is not None
    assert (result.gangs.whole, result.gangs.partly_bound_at_end) == (0, 1)
    assert result.gangs.longest_partly_bound == pytest.approx(3600.0, abs=5.0)
