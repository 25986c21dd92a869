"""Scenario files: valid contents, and errors with path and expectation."""

from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.api.config_model import ConfigError
from koordpy.simulation import setup as setups

from .scenarios import load

POD = {"name": "web", "pods": {"count": 1, "requests": {"cpu": 1}}}


def test_a_minimal_scenario_has_defaults(tmp_path: Path) -> None:
    told = load(tmp_path)
    assert told.seed == 0
    assert told.duration is None
    assert told.usage.interval == 60
    assert told.sampling.hot == {"cpu": 65.0, "memory": 95.0}
    assert [setup.name for setup in told.schedulers] == ["alone"]


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"apiVersion": "v2"}, 'apiVersion: got "v2", expected "simulation.koordpy.dev/v1alpha1"'),
        ({"duration": "-1s"}, "duration"),
        ({"duration": "soon"}, "duration"),
        ({"speed": 3}, "speed"),
        ({"start": "yesterday"}, "expected a time such as 2026-01-01T00:00:00Z"),
        ({"nodes": []}, "nodes"),
        ({"nodes": [{"name": "w"}]}, "nodes[0]"),
        ({"nodes": [{"name": "w", "table": "x.csv"}]}, "expected either name or table"),
        ({"nodes": [{"name": "w", "allocatable": {"cpu": "lots"}}]}, "nodes[0].allocatable"),
        ({"workloads": [{"name": "a"}]}, "expected one of pods, deployment, trace"),
        ({"workloads": [{"name": "A", "pods": POD["pods"]}]}, "workloads[0].name"),
        ({"workloads": [POD, POD], "duration": "1h"}, "the name 'web' is given twice"),
        ({"workloads": [{**POD, "usage": {"cpu": {"factor": 1, "amount": 1}}}]}, "either factor or amount"),
        ({"workloads": [{**POD, "usage": {"cpu": {"shape": "steps"}}}]}, "expected steps with shape steps"),
        ({"workloads": [{**POD, "usage": {"gpu": {}}}]}, "workloads[0].usage"),
        ({"objects": [{"at": "1s"}]}, "expected either file or manifest"),
        ({"schedulers": [{"name": "a"}, {"name": "a"}]}, "schedulers: the name 'a' is given twice"),
    ],
)
def test_an_invalid_field_is_reported_by_its_path(
    tmp_path: Path, changes: dict[str, Any], expected: str
) -> None:
    with pytest.raises(ConfigError) as told:
        load(tmp_path, **changes)
    assert expected in str(told.value)
    assert "scenario.yaml" in str(told.value)


def setup_file(folder: Path, **document: Any) -> Path:
    path = folder / "side.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


def test_a_profile_configuration_is_one_side_of_a_comparison(tmp_path: Path) -> None:
    path = setup_file(
        tmp_path, apiVersion="kubescheduler.config.k8s.io/v1", kind="KubeSchedulerConfiguration"
    )
    setup = setups.load_setup(path)
    assert setup.name == "side"
    assert setup.profiles is not None
    assert setup.profiles.file == str(path)
    assert setup.kube_scheduler is None


def test_a_configuration_with_extenders_is_kube_schedulers(tmp_path: Path) -> None:
    path = setup_file(
        tmp_path,
        apiVersion="kubescheduler.config.k8s.io/v1",
        kind="KubeSchedulerConfiguration",
        extenders=[{"urlPrefix": "http://127.0.0.1:1/extender"}],
    )
    setup = setups.load_setup(path)
    assert setup.kube_scheduler is not None
    assert setup.profiles is None


def test_files_of_a_setup_are_relative_to_it(tmp_path: Path) -> None:
    path = setup_file(
        tmp_path, apiVersion=setups.API_VERSION, kind="SchedulerSetup", profiles={"file": "profiles.yaml"}
    )
    setup = setups.load_setup(path)
    assert setup.profiles is not None
    assert setup.profiles.file == str(tmp_path / "profiles.yaml")


def test_another_kind_is_no_side_of_a_comparison(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="expected SchedulerSetup or KubeSchedulerConfiguration"):
        setups.load_setup(setup_file(tmp_path, kind="Pod"))
