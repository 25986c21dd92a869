"""`koordpy simulate` with a GPUFillScenario, as a user calls it."""

import json

import pytest
import yaml
from click.testing import CliRunner

from koordpy.cli import cli
from koordpy.scheduling.profiles.registry import installed
from koordpy.simulation.gpus import sweep
from tests.unit.simulation.gpus.policies import Emptiest, Equal

SCENARIO = {
    "apiVersion": "simulation.koordpy.dev/v1alpha1",
    "kind": "GPUFillScenario",
    "name": "small",
    "nodes": "nodes.csv",
    "trace": "pods.csv",
    "seeds": [1, 2],
    "policies": [{"name": "Emptiest"}, {"name": "Equal"}],
}


@pytest.fixture
def scenario(tmp_path, monkeypatch):
    known = installed().including(Emptiest, Equal)
    monkeypatch.setattr(sweep, "installed", lambda: known)
    data = tmp_path / "data"
    data.mkdir()
    (data / "nodes.csv").write_text("sn,cpu_milli,memory_mib,gpu,model\na,9000,99,4,T4\nb,9000,99,2,T4\n")
    (data / "pods.csv").write_text(
        "name,cpu_milli,memory_mib,num_gpu,gpu_milli\np,100,1,1,300\nq,100,1,2,1000\n"
    )
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    return path


def simulate(scenario, *arguments):
    data = scenario.parent / "data"
    return CliRunner().invoke(
        cli, ["simulate", "-f", str(scenario), "--data", str(data), *map(str, arguments)]
    )


def test_tables_of_policies_and_runs_are_printed(scenario):
    done = simulate(scenario, "--jobs", 1)
    assert done.exit_code == 0, done.output
    assert "small: medians of 2 seeds" in done.output
    for title in ("Allocated GPUs", "Unallocated GPUs", "Fragment rate", "Runs"):
        assert title in done.output
    assert done.output.count("Emptiest") == 3 + 2


def test_json_has_the_curves_of_every_run_and_a_seed_may_be_given(scenario):
    done = simulate(scenario, "--jobs", 1, "--seed", 7, "-o", "json")
    found = json.loads(done.stdout)
    assert [(run["policy"], run["seed"]) for run in found["runs"]] == [("Emptiest", 7), ("Equal", 7)]
    assert found["runs"][0]["curves"]["allocated"]["0"] == 0
    assert set(found["medians"]) == {"Emptiest", "Equal"}


def test_plots_and_a_page_are_written(scenario, tmp_path):
    plot, page = tmp_path / "plot.svg", tmp_path / "page.html"
    done = simulate(scenario, "--jobs", 1, "--plot", plot, "--report", page)
    assert done.exit_code == 0, done.output
    assert plot.read_text().rstrip().endswith("</svg>")
    text = page.read_text()
    assert text.startswith("<!doctype html>")
    assert "<svg" in text
    assert "Fragment rate" in text


@pytest.mark.parametrize("option", [["--placements"], ["--compare", "a", "b"]])
def test_options_of_the_other_kind_are_refused(scenario, option):
    done = simulate(scenario, *option)
    assert done.exit_code != 0
    assert "are for the kind Scenario" in done.output


def test_a_plain_scenario_has_no_jobs(scenario):
    scenario.write_text(yaml.safe_dump(SCENARIO | {"kind": "Scenario"}))
    done = simulate(scenario, "--jobs", 2)
    assert done.exit_code != 0
    assert "are for the kind GPUFillScenario" in done.output


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--pods", "2"], "--pods needs --image"),
        (["--pods", "2", "--image", "i", "--jobs", "2"], "does not go with --jobs"),
        (["--image", "i"], "go with --pods"),
        (["--server", "http://localhost:1"], "go with --pods"),
        (["--part", "0/2"], "--part and --sweep go together"),
        (["--part", "2/2", "--sweep", "default/x"], "expected INDEX/PARTS"),
        (["--part", "0/2", "--sweep", "x"], "expected NAMESPACE/NAME"),
    ],
)
def test_options_about_a_cluster_go_together(scenario, options, message):
    done = simulate(scenario, *options)
    assert done.exit_code != 0
    assert message in done.output
