"""Estimates from recordings: what nodes would offer, and what best-effort pods would get."""

import asyncio
import math
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from bench.days import another_day
from koordpy.api.config_model import ConfigError
from koordpy.cli import cli
from koordpy.cluster.client import Client
from koordpy.lib.clock import Clock
from koordpy.simulation import estimate, recorder, scenario, simulation
from koordpy.simulation.estimate import BestEffortPods
from koordpy.simulation.masking import Masking
from koordpy.simulation.scenario import Scenario
from koordpy.simulation.setup import Source

from .scenarios import ALONE, load, write

SERVICES: dict[str, Any] = {
    "nodes": [
        {
            "name": "w",
            "count": 3,
            "allocatable": {"cpu": 16, "memory": "64Gi"},
            "systemUsage": {"cpu": "500m", "memory": "4Gi"},
        }
    ],
    "workloads": [
        {
            "name": "web",
            "pods": {"count": 9, "requests": {"cpu": "4", "memory": "8Gi"}},
            "usage": {"cpu": {"factor": 0.4, "shape": "sine", "period": "2h", "noise": 0.1}},
        }
    ],
    "duration": "2h",
    "sampling": {"interval": "5m"},
}


def recorded(folder: Path, day: Scenario) -> Scenario:
    """Record a simulated cluster through its API server."""
    path = folder / "recorded.yaml"

    async def record(client: Client, clock: Clock) -> None:
        found = await recorder.Recorder(client, Masking(), clock=clock).record((day.duration or 0.0) - 120)
        recorder.write(found, path, name="recorded")
        await asyncio.Event().wait()

    simulation.simulate(day, day.schedulers[0], folder, beside=record)
    return scenario.load(path)


DAY: dict[str, Any] = {
    "nodes": [
        {
            "name": "w",
            "count": 3,
            "allocatable": {"cpu": 32, "memory": "64Gi"},
            "systemUsage": {"cpu": "500m", "memory": "2Gi"},
        }
    ],
    "workloads": [
        {
            "name": "web",
            "pods": {"count": 12, "requests": {"cpu": "4", "memory": "6Gi"}},
            "usage": {
                "cpu": {"factor": 0.3, "shape": "sine", "peakAt": "14h", "noise": 0.1},
                "memory": {"factor": 0.6, "noise": 0.02},
            },
        },
        {
            "name": "search",
            "pods": {"count": 9, "requests": {"cpu": "3", "memory": "8Gi"}},
            "usage": {
                "cpu": {"factor": 0.4, "shape": "sine", "peakAt": "20h", "noise": 0.1},
                "memory": {"factor": 0.7, "shape": "sine", "peakAt": "17h", "noise": 0.02},
            },
        },
        {
            "name": "reports",
            "pods": {
                "count": 90,
                "arrivals": {"every": "16m", "random": True},
                "duration": "45m",
                "spread": 0.5,
                "requests": {"cpu": "1", "memory": "1Gi"},
            },
            "usage": {"cpu": {"factor": 0.8, "noise": 0.1}},
        },
    ],
    "duration": "24h",
    "usage": {"interval": "10m"},
    "sampling": {"interval": "10m"},
}
PODS = BestEffortPods(cpu="1", memory="2Gi", seconds=6 * 3600.0)
GATES = {"BEMemoryEvict": True}


@pytest.mark.timeout(600)
@pytest.mark.parametrize("seed", [1, 2])
def test_an_estimate_from_a_recorded_day_agrees_with_a_day_that_it_has_not_seen(
    tmp_path: Path, seed: int
) -> None:
    """The other day has other levels of usage (within 3 %), peaks (within an hour), arrivals and noise."""
    day = load(tmp_path, **DAY, seed=seed)
    found = estimate.estimate(recorded(tmp_path, day), tmp_path, pods=PODS, gates=GATES)
    assert found.problems == []
    estimated = found.best_effort
    assert estimated is not None
    other = another_day(day, 1).model_copy(update={"duration": found.recorded_seconds})
    batch = PODS.workload(found.recorded_seconds, found.offered.mean)
    other = other.model_copy(update={"workloads": (*other.workloads, batch)})
    actual = simulation.simulate(other, estimate.setup(tmp_path, gates=GATES), tmp_path).colocation
    assert actual is not None
    assert estimated.offered_core_hours > 500
    assert estimated.offered_core_hours == pytest.approx(actual.offered_core_hours, rel=0.05)
    assert estimated.used_core_hours == pytest.approx(actual.used_core_hours, rel=0.05)
    assert estimated.evicted > 0
    assert actual.evicted > 0
    # Evictions are rare events: two days of one cluster differ by about the root of their sum.
    assert abs(estimated.evicted - actual.evicted) <= 3 * math.sqrt(estimated.evicted + actual.evicted)


def test_a_configuration_that_switches_colocation_off_offers_nothing(tmp_path: Path) -> None:
    data = {"colocation-config": '{"enable": false}'}
    manifest = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": estimate.NAME}, "data": data}
    day = load(tmp_path, **{**SERVICES, "duration": "20m"})
    found = estimate.estimate(day, tmp_path, config=Source(manifest=manifest), pods=BestEffortPods())
    assert found.offered.max == 0
    assert found.best_effort_pods == 0


def test_a_file_without_the_configuration_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "other.yaml"
    path.write_text("{apiVersion: v1, kind: ConfigMap, metadata: {name: other}}")
    with pytest.raises(ConfigError, match=r"other\.yaml: expected a ConfigMap slo-controller-config"):
        estimate.estimate(load(tmp_path, **SERVICES), tmp_path, config=Source(file=str(path)))


def test_the_command_shows_what_is_offered(tmp_path: Path) -> None:
    path = write(tmp_path, **{**SERVICES, "duration": "20m", "schedulers": [ALONE]})
    shown = CliRunner().invoke(cli, ["colocate", "estimate", "-f", str(path), "--share", "0"])
    assert shown.exit_code == 0, shown.output
    assert "batch core-hours offered in a day" in shown.output


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (["--pod", "cpu=0"], "--pod: got 'cpu=0', expected such as cpu=1,memory=2Gi"),
        (["--pod", "gpu=1"], "--pod: got 'gpu=1'"),
        (["--pod-duration", "soon"], "--pod-duration: got 'soon', expected a duration such as 1h"),
    ],
)
def test_wrong_options_are_refused(tmp_path: Path, options: list[str], told: str) -> None:
    path = write(tmp_path, **SERVICES)
    shown = CliRunner().invoke(cli, ["colocate", "estimate", "-f", str(path), *options])
    assert shown.exit_code != 0
    assert told in shown.output
