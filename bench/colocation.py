"""What colocation gives: a day of services and batch pods without it and with it, and an estimate.

The scenario is `examples/scenarios/colocation.yaml`; with the same seed every run has the same result. The
estimate is made from a recording of its services' day, and compared with simulations of days that it has not
seen (`bench/days.py`), with the same best-effort pods. The run also draws `docs/colocation.svg`.
"""

import asyncio
import tempfile
from pathlib import Path

from bench.colocation_picture import picture
from bench.days import another_day
from bench.report import Result, Row
from koordpy.cluster.client import Client
from koordpy.lib.clock import Clock
from koordpy.simulation import estimate as estimating
from koordpy.simulation import recorder, scenario, simulation
from koordpy.simulation.estimate import BestEffortPods
from koordpy.simulation.masking import Masking
from koordpy.simulation.result import Colocation
from koordpy.simulation.scenario import Scenario, Workload
from koordpy.simulation.setup import AgentSetup, SchedulerSetup

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "examples" / "scenarios" / "colocation.yaml"
PICTURE = ROOT / "docs" / "colocation.svg"
BATCH = "batch"
GATES = {"BEMemoryEvict": True}
DAYS = 2
PODS = BestEffortPods(cpu="2", memory="8Gi", seconds=4 * 3600.0)


def run(rounds: int = DAYS) -> Result:
    """Simulate both setups; compare an estimate with so many days that it has not seen, and a quiet one."""
    told = scenario.load(SCENARIO)
    result = Result.begin(
        "colocation",
        requested="CPU requested, %",
        used="CPU used, %",
        finished="batch pods finished",
        waited="batch pods' time to a node, p50, h",
        offered="batch core-hours offered",
        best_effort="core-hours used by best-effort pods",
        suppressed="suppressed core-hours",
        evicted="evicted best-effort pods",
        throttled="core-hours that services lacked",
    )
    found = [simulation.simulate(told, setup, SCENARIO.parent) for setup in told.schedulers]
    for simulated in found:
        cpu = simulated.resources["cpu"]
        row = result.row(simulated.scheduler)
        row.add(
            requested=cpu.requested.mean,
            used=cpu.used.mean if cpu.used else 0.0,
            finished=sum(pod.outcome == "finished" for pod in simulated.placements if pod.workload == BATCH),
            waited=simulated.pending_seconds_of[BATCH].p50 / 3600,
        )
        _add(row, simulated.colocation)
    PICTURE.write_text(picture(found), encoding="utf-8")
    _estimate(told, result, rounds)
    result.notes.append(
        "On the other days the services' CPU usage has levels within 3 % of the recorded day's, peaks within "
        "an hour, other arrivals and noise; on the quiet one it is 20 % less."
    )
    return result


def _estimate(told: Scenario, result: Result, days: int) -> None:
    services = tuple(workload for workload in told.workloads if workload.name != BATCH)
    config = told.schedulers[1].objects[0]
    day = told.model_copy(update={"workloads": services})
    setup = SchedulerSetup(
        name="colocation",
        koordpy=False,
        webhooks=False,
        objects=(config,),
        agent=AgentSetup(feature_gates=GATES),
    )
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recording = recorded(day, folder)
        found = estimating.estimate(recording, folder, config=config, pods=PODS, gates=GATES)
        assert found.best_effort is not None
        _add(result.row("estimated from a recorded day"), found.best_effort)
        batch = PODS.workload(found.recorded_seconds, found.offered.mean)
        for number in range(1, days + 2):
            quiet = number > days
            other = another_day(day, number, level=0.8 if quiet else 1.0)
            actual = _simulated(other, batch, setup, found.recorded_seconds, folder)
            label = "a quiet day" if quiet else f"another day ({number})"
            _add(result.row(label), actual)
            _compare(result.row(f"{label}: error of the estimate, %"), found.best_effort, actual)


def _simulated(
    day: Scenario, batch: Workload, setup: SchedulerSetup, seconds: float, folder: Path
) -> Colocation:
    """Return what a day gives and costs with best-effort pods, over the recorded time of a day."""
    whole = day.model_copy(update={"workloads": (*day.workloads, batch), "duration": seconds})
    found = simulation.simulate(whole, setup, folder).colocation
    assert found is not None
    return found


def _add(row: Row, costs: Colocation | None) -> None:
    if costs is not None:
        row.add(
            offered=costs.offered_core_hours,
            best_effort=costs.used_core_hours,
            suppressed=costs.suppressed_core_hours,
            evicted=costs.evicted,
            throttled=costs.throttled_core_hours,
        )


def _compare(row: Row, estimated: Colocation, actual: Colocation) -> None:
    row.add(
        offered=_error(estimated.offered_core_hours, actual.offered_core_hours),
        best_effort=_error(estimated.used_core_hours, actual.used_core_hours),
    )
    for column, one, other in (
        ("suppressed", estimated.suppressed_core_hours, actual.suppressed_core_hours),
        ("evicted", estimated.evicted, actual.evicted),
        ("throttled", estimated.throttled_core_hours, actual.throttled_core_hours),
    ):
        if other:
            row.add(**{column: _error(one, other)})


def _error(estimated: float, actual: float) -> float:
    return 100.0 * (estimated - actual) / actual


def recorded(day: Scenario, folder: Path) -> Scenario:
    """Return a day as `koordpy record` records it from the API server, read again from its file."""
    path = folder / "recorded.yaml"
    setup = SchedulerSetup(name="recorded", koordpy=False, webhooks=False, controllers=())
    seconds = (day.duration or 0.0) - 120.0  # the end is written before the simulation is over

    async def record(client: Client, clock: Clock) -> None:
        found = await recorder.Recorder(client, Masking(), clock=clock).record(seconds)
        recorder.write(found, path, name="recorded")
        await asyncio.Event().wait()

    simulation.simulate(day, setup, folder, beside=record)
    return scenario.load(path)
