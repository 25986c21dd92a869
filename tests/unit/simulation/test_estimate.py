"""Estimates from recordings: what nodes would offer, and what best-effort pods would get."""

import asyncio
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

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


@pytest.mark.timeout(300)
def test_an_estimate_from_a_recording_agrees_with_another_day(tmp_path: Path) -> None:
    day = load(tmp_path, **SERVICES, seed=1)
    pods = BestEffortPods(cpu="1", memory="1Gi", seconds=1800.0, share=0.8)
    found = estimate.estimate(recorded(tmp_path, day), tmp_path, pods=pods)
    other = load(tmp_path, **SERVICES, seed=2)
    actual = estimate.estimate(other, tmp_path, pods=pods)
    assert found.problems == actual.problems == []
    assert found.offered.mean > 5
    assert found.allocatable_cores == 48
    assert found.offered.mean == pytest.approx(actual.offered.mean, rel=0.05)
    assert found.best_effort is not None
    assert actual.best_effort is not None
    per_hour = [
        each.best_effort.used_core_hours / each.recorded_seconds
        for each in (found, actual)
        if each.best_effort is not None
    ]
    assert per_hour[0] == pytest.approx(per_hour[1], rel=0.05)
    assert found.best_effort_started > 0


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
