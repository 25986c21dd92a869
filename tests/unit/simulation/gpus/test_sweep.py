"""Scenarios, their runs, and the tables and plots of them."""

import json

import pytest
from rich.console import Console

from koordpy.api.config_model import ConfigError
from koordpy.simulation.gpus import plots, report, scenario, sweep

from .policies import Emptiest, Equal, NoScore

PLUGINS = {plugin.name: plugin for plugin in (Emptiest, Equal, NoScore)}
TOLD = {
    "apiVersion": "simulation.koordpy.dev/v1alpha1",
    "kind": "GPUFillScenario",
    "name": "small",
    "nodes": "nodes.csv",
    "trace": "pods.csv",
    "seeds": [1, 2, 3],
    "policies": [{"name": "Emptiest"}, {"name": "any", "plugin": "Equal"}],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "nodes.csv").write_text(
        "sn,cpu_milli,memory_mib,gpu,model\n" + "".join(f"n{i},32000,999,4,T4\n" for i in range(3))
    )
    lines = [f"p{i},1000,1,1,{(i % 10 + 1) * 100}\n" for i in range(20)]
    (tmp_path / "pods.csv").write_text("name,cpu_milli,memory_mib,num_gpu,gpu_milli\n" + "".join(lines))
    return tmp_path


def told(folder, **changes):
    file = folder / "scenario.yaml"
    file.write_text(json.dumps(TOLD | changes))
    assert scenario.is_kind(file)
    return scenario.load(file)


def test_every_policy_runs_with_every_seed(folder):
    runs = sweep.run_all(sweep.tasks(told(folder), folder, PLUGINS))
    assert [(run.policy, run.seed) for run in runs] == [
        (policy, seed) for seed in (1, 2, 3) for policy in ("Emptiest", "any")
    ]
    assert all(set(range(126)) <= set(run.curves.allocated) for run in runs)


def test_several_processors_and_parts_change_nothing(folder):
    tasks = sweep.tasks(told(folder, seeds=[1, 2]), folder, PLUGINS)
    alone = sweep.run_all(tasks)
    assert sweep.run_all(tasks, jobs=2) == alone
    parts = [sweep.run_all(sweep.part(tasks, index, 3)) for index in range(3)]
    assert sorted((run.policy, run.seed) for part in parts for run in part) == sorted(
        (run.policy, run.seed) for run in alone
    )
    assert [part[0] for part in parts] == alone[:3]


def test_progress_is_told_of_every_run(folder):
    seen = []
    sweep.run_all(
        sweep.tasks(told(folder), folder, PLUGINS), progress=lambda done, run: seen.append((done, run.seed))
    )
    assert seen == [(1, 1), (2, 1), (3, 2), (4, 2), (5, 3), (6, 3)]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"policies": [{"name": "NoScore"}]}, "expected a plugin with Score"),
        ({"policies": [{"name": "Unheard"}]}, r"policies\[0\].plugin"),
        ({"policies": [{"name": "Equal"}, {"name": "Equal"}]}, "names that differ"),
        ({"policies": []}, "policies"),
        ({"seeds": [1, 1]}, "numbers that differ"),
        ({"seeds": [-1]}, "not negative"),
        ({"load": 0}, "load"),
        ({"trace": "absent.csv"}, "absent.csv"),
        ({"gpus": 3}, "gpus"),
    ],
)
def test_wrong_scenarios_are_refused(folder, changes, message):
    with pytest.raises((Exception), match=message) as raised:
        sweep.run_all(sweep.tasks(told(folder, **changes), folder, PLUGINS))
    assert isinstance(raised.value, ConfigError | OSError | LookupError)


def test_tables_have_medians_by_load_and_all_runs(folder):
    known = told(folder)
    runs = sweep.run_all(sweep.tasks(known, folder, PLUGINS))
    found = report.document(known, runs)
    values = sorted(run.curves.unallocated(100) for run in runs if run.policy == "any")
    assert found["medians"]["any"]["unallocatedGPUPercent"]["100"] == round(values[1], 3)
    assert len(found["runs"]) == 6
    json.dumps(found)
    console = Console(record=True, width=200, file=open("/dev/null", "w"))  # noqa: SIM115
    report.show(console, known, runs)
    text = console.export_text()
    assert f"{values[1]:.2f}" in text
    assert "Fragment rate" in text


@pytest.mark.parametrize("suffix", [".svg", ".png"])
def test_plots_are_the_same_for_the_same_runs(folder, suffix):
    known = told(folder, seeds=[1, 2])
    runs = sweep.run_all(sweep.tasks(known, folder, PLUGINS))
    files = [folder / f"plot{i}{suffix}" for i in range(2)]
    for file in files:
        plots.draw(known, runs, file)
    first, second = (file.read_bytes() for file in files)
    assert first == second
    if suffix == ".svg":
        assert b"Emptiest" in first or b"<use" in first
