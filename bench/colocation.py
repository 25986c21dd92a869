"""What colocation gives: a day of services and batch pods without it and with it, and an estimate of a day.

The scenario is `examples/scenarios/colocation.yaml`; with the same seed every run has the same result. The
estimate is made from a recording of its services' day, and compared with the simulation of another day: other
noise. The run also draws `docs/colocation.svg`.
"""

import asyncio
import tempfile
from pathlib import Path

from bench.report import Result, Row
from koordpy.cluster.client import Client
from koordpy.lib.clock import Clock
from koordpy.simulation import estimate as estimating
from koordpy.simulation import plots, recorder, scenario, simulation
from koordpy.simulation.estimate import BestEffortPods
from koordpy.simulation.masking import Masking
from koordpy.simulation.result import Result as Simulated
from koordpy.simulation.scenario import Scenario
from koordpy.simulation.setup import AgentSetup, SchedulerSetup

ROOT = Path(__file__).parents[1]
SCENARIO = ROOT / "examples" / "scenarios" / "colocation.yaml"
PICTURE = ROOT / "docs" / "colocation.svg"
BATCH = "batch"
GATES = {"BEMemoryEvict": True}


def run(rounds: int = 1) -> Result:
    """Simulate both setups, and compare an estimate with a day that it has not seen."""
    told = scenario.load(SCENARIO)
    result = Result.begin(
        "colocation",
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
        row = result.row(simulated.scheduler)
        row.add(
            used=simulated.resources["cpu"].used.mean if simulated.resources["cpu"].used else 0.0,
            finished=sum(pod.outcome == "finished" for pod in simulated.placements if pod.workload == BATCH),
            waited=simulated.pending_seconds_of[BATCH].p50 / 3600,
        )
        _add(row, simulated)
    plots.draw(found, PICTURE)
    _estimate(told, result)
    return result


def _estimate(told: Scenario, result: Result) -> None:
    services = tuple(workload for workload in told.workloads if workload.name != BATCH)
    config = told.schedulers[1].objects[0]
    day = told.model_copy(update={"workloads": services})
    pods = BestEffortPods()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recording = _recorded(day, folder)
        found = estimating.estimate(recording, folder, config=config, pods=pods, gates=GATES)
        batch = pods.workload(found.recorded_seconds, found.offered.mean)
        other = day.model_copy(update={"seed": told.seed + 1, "workloads": (*services, batch)})
        setup = SchedulerSetup(
            name="colocation",
            koordpy=False,
            webhooks=False,
            controllers=("nodemetric", "noderesource", "nodeslo"),
            objects=(config,),
            agent=AgentSetup(feature_gates=GATES),
        )
        simulated = simulation.simulate(other, setup, folder)
    costs = found.best_effort
    assert costs is not None
    assert simulated.colocation is not None
    estimated = result.row("estimated from a recorded day")
    estimated.add(
        offered=costs.offered_core_hours,
        best_effort=costs.used_core_hours,
        suppressed=costs.suppressed_core_hours,
        evicted=costs.evicted,
        throttled=costs.throttled_core_hours,
    )
    _add(result.row("another day, simulated"), simulated)
    actual = simulated.colocation
    error = result.row("error, %")
    error.add(
        offered=_error(costs.offered_core_hours, actual.offered_core_hours),
        best_effort=_error(costs.used_core_hours, actual.used_core_hours),
    )


def _add(row: Row, simulated: Simulated) -> None:
    costs = simulated.colocation
    if costs is not None:
        row.add(
            offered=costs.offered_core_hours,
            best_effort=costs.used_core_hours,
            suppressed=costs.suppressed_core_hours,
            evicted=costs.evicted,
            throttled=costs.throttled_core_hours,
        )


def _error(estimated: float, actual: float) -> float:
    return 100.0 * abs(estimated - actual) / actual


def _recorded(day: Scenario, folder: Path) -> Scenario:
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
