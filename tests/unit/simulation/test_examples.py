"""The scenarios in `examples/` show what they say they show."""

from pathlib import Path

import pytest

from koordpy.simulation import scenario, simulation
from koordpy.simulation.result import Result

FOLDER = Path(__file__).parents[3] / "examples" / "scenarios"


def results(name: str) -> list[Result]:
    told = scenario.load(FOLDER / name)
    return [simulation.simulate(told, setup, FOLDER) for setup in told.schedulers]


@pytest.mark.timeout(300)
def test_load_aware_scheduling_cools_the_busiest_nodes() -> None:
    alone, load_aware = results("load-aware.yaml")
    assert load_aware.hot.share < 0.7 * alone.hot.share
    busiest = [result.resources["cpu"].hottest for result in (alone, load_aware)]
    assert busiest[0] is not None
    assert busiest[1] is not None
    assert busiest[1].max < busiest[0].max - 5
    assert load_aware.pods.bound == alone.pods.bound
    assert load_aware.pods.pending_at_end == 0
    assert alone.problems == load_aware.problems == []


@pytest.mark.timeout(300)
def test_reservations_keep_a_place_for_the_service() -> None:
    alone, reserved = results("reservation.yaml")
    assert alone.pending_seconds_of["api"].p50 > 1800
    assert reserved.pending_seconds_of["api"].max < 1
    assert reserved.pods.evicted == 0
    assert alone.problems == reserved.problems == []


@pytest.mark.timeout(300)
def test_a_team_gets_its_guaranteed_half_back_from_another_one() -> None:
    alone, shared = results("quotas.yaml")
    assert shared.pending_seconds_of["production"].p50 < 0.6 * alone.pending_seconds_of["production"].p50
    research, production = shared.quotas["research"]["cpu"], shared.quotas["production"]["cpu"]
    assert research.used.max == 80
    assert production.used.max == 40
    after = shared.series.times.index(next(at for at in shared.series.times if at > 2 * 3600 - 1800))
    assert shared.series.quota_runtime["research"]["cpu"][after] <= 40
    assert alone.problems == shared.problems == []


@pytest.mark.timeout(300)
def test_gangs_that_are_planned_whole_do_not_deadlock() -> None:
    alone, planned = results("gangs.yaml")
    assert alone.gangs is not None
    assert planned.gangs is not None
    assert alone.gangs.partly_bound_at_end > 5
    assert alone.gangs.longest_partly_bound > 6 * 3600
    assert planned.gangs.longest_partly_bound == 0
    assert planned.gangs.whole == planned.gangs.created == 24
    assert planned.pods.finished == planned.pods.created
    assert alone.problems == planned.problems == []
