"""`koordpy simulate` as a user calls it."""

import json
from pathlib import Path

import pytest
import yaml
from click.testing import CliRunner, Result

from koordpy.cli import cli

SCENARIO = {
    "apiVersion": "simulation.koordpy.dev/v1alpha1",
    "kind": "Scenario",
    "name": "small",
    "nodes": [{"name": "w", "count": 2, "allocatable": {"cpu": 4, "memory": "8Gi"}}],
    "workloads": [
        {"name": "web", "pods": {"count": 3, "duration": "1m", "requests": {"cpu": 1, "memory": "1Gi"}}}
    ],
}


@pytest.fixture
def scenario(tmp_path: Path) -> Path:
    path = tmp_path / "scenario.yaml"
    path.write_text(yaml.safe_dump(SCENARIO))
    return path


def simulate(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli, ["simulate", *map(str, arguments)])


def test_tables_are_printed(scenario: Path) -> None:
    done = simulate("-f", scenario)
    assert done.exit_code == 0, done.output
    assert "of 2 nodes, seed 0" in done.output
    assert "given a node" in done.output


def test_json_has_results_and_on_request_placements(scenario: Path) -> None:
    done = simulate("-f", scenario, "-o", "json", "--placements", "--seed", "5")
    [result] = json.loads(done.stdout)["results"]
    assert result["seed"] == 5
    assert len(result["placements"]) == 3
    assert result["scheduler"] == "koordpy"


def test_two_configurations_are_compared_side_by_side(scenario: Path, tmp_path: Path) -> None:
    (tmp_path / "off.yaml").write_text(
        "apiVersion: simulation.koordpy.dev/v1alpha1\nkind: SchedulerSetup\nkoordpy: false\nwebhooks: false\n"
    )
    profiles = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "profiles": [{"plugins": {"filter": {"enabled": [{"name": "LoadAwareScheduling"}]}}}],
    }
    (tmp_path / "on.yaml").write_text(yaml.safe_dump(profiles))
    plot = tmp_path / "plot.png"
    done = simulate("-f", scenario, "--compare", tmp_path / "off.yaml", tmp_path / "on.yaml", "--plot", plot)
    assert done.exit_code == 0, done.output
    assert any(line.split() == ["off", "on"] for line in done.output.splitlines())
    assert plot.stat().st_size > 10_000


def test_files_may_be_elsewhere(scenario: Path, tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "pods.csv").write_text("name,arrival,duration,cpu,memory\na,0,60,1,1000\n")
    document = {**SCENARIO, "workloads": [{"name": "t", "trace": {"file": "pods.csv"}}]}
    scenario.write_text(yaml.safe_dump(document))
    assert simulate("-f", scenario).exit_code != 0
    done = simulate("-f", scenario, "--data", folder, "-o", "json")
    assert json.loads(done.stdout)["results"][0]["pods"]["finished"] == 1


def test_two_files_of_one_name_are_refused(scenario: Path, tmp_path: Path) -> None:
    text = "apiVersion: simulation.koordpy.dev/v1alpha1\nkind: SchedulerSetup\nname: same\n"
    for name in ("a.yaml", "b.yaml"):
        (tmp_path / name).write_text(text)
    done = simulate("-f", scenario, "--compare", tmp_path / "a.yaml", tmp_path / "b.yaml")
    assert done.exit_code != 0
    assert "both are named 'same'" in done.output


def test_a_plot_that_cannot_be_drawn_is_reported_before_anything_runs(scenario: Path) -> None:
    done = simulate("-f", scenario, "--plot", "a.gif")
    assert done.exit_code != 0
    assert "expected a name that ends in .png or .svg" in str(done.exception)


def test_tables_and_plots_are_one_page(scenario: Path, tmp_path: Path) -> None:
    page = tmp_path / "page.html"
    done = simulate("-f", scenario, "--report", page)
    assert done.exit_code == 0, done.output
    assert f"report: {page}" in done.output
    assert "given a node" in page.read_text()


def test_a_page_that_cannot_be_written_is_reported_before_anything_runs(
    scenario: Path, tmp_path: Path
) -> None:
    for page, message in (("a.pdf", "ends in .html or .htm"), ("no/a.html", "folder no does not exist")):
        done = simulate("-f", scenario, "--report", page)
        assert done.exit_code != 0
        assert message in str(done.exception)
