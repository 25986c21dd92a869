"""A package that is begun with `koordpy plugin new` passes its own tests, as it is."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from koordpy.cli import cli
from koordpy.commands.plugin_package import KINDS

STYLE = ("--isolated", "--line-length", "110")


def begin(kind: str, name: str, into: Path) -> Path:
    kind, *options = kind.split(" ")
    result = CliRunner().invoke(cli, ["plugin", "new", kind, name, "--into", str(into), *options])
    assert result.exit_code == 0, result.output
    [root] = into.iterdir()
    return root


def run(root: Path, *command: str) -> str:
    environment = dict(os.environ, MYPYPATH="src")
    done = subprocess.run(
        [sys.executable, "-m", *command],
        cwd=root,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", [*KINDS, "admission --validating"])
def test_a_new_package_passes_its_tests_and_is_clean(kind: str, tmp_path: Path) -> None:
    root = begin(kind, "ZoneGuard", tmp_path)
    assert root.name == "koordpy-plugin-zone-guard"
    assert "passed" in run(root, "pytest", "-q", "-p", "no:cacheprovider")
    run(root, "ruff", "check", *STYLE, "--select", "E,F,I,B,UP,SIM,N,PT", ".")
    run(root, "ruff", "format", *STYLE, "--check", ".")


@pytest.fixture(scope="module")
def mypy_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What mypy keeps of koordpy, which all kinds import."""
    return tmp_path_factory.mktemp("mypy")


@pytest.mark.parametrize("kind", [*KINDS, "admission --validating"])
def test_a_new_plugin_is_well_typed(kind: str, tmp_path: Path, mypy_cache: Path) -> None:
    root = begin(kind, "GPUFirst", tmp_path)
    assert root.name == "koordpy-plugin-gpu-first"
    run(root, "mypy", "--strict", "--cache-dir", str(mypy_cache), "src", "tests")


@pytest.mark.parametrize("name", ["zone-guard", "zoneGuard", "Zone Guard", "", "../Zone"])
def test_a_name_that_is_no_class_is_refused(name: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["plugin", "new", "scheduling", name, "--into", str(tmp_path)])
    assert result.exit_code == 1
    assert "expected a class name" in result.output
    assert list(tmp_path.iterdir()) == []


def test_only_admission_handlers_can_be_validating(tmp_path: Path) -> None:
    arguments = ["plugin", "new", "qos", "ZoneGuard", "--into", str(tmp_path), "--validating"]
    result = CliRunner().invoke(cli, arguments)
    assert result.exit_code == 1
    assert "--validating: got kind qos, expected admission" in result.output


def test_the_readme_of_a_handler_enables_it_by_its_webhook_and_name(tmp_path: Path) -> None:
    begin("admission --validating", "ZoneGuard", tmp_path)
    text = (tmp_path / "koordpy-plugin-zone-guard" / "README.md").read_text()
    entry = (tmp_path / "koordpy-plugin-zone-guard" / "pyproject.toml").read_text()
    assert "admission:\n  enabled:\n    - name: validate-pod.ZoneGuard\n" in text
    assert '"validate-pod.ZoneGuard" = "zone_guard.plugin:ZoneGuard"' in entry


def test_a_package_that_exists_is_left_alone(tmp_path: Path) -> None:
    root = begin("qos", "ZoneGuard", tmp_path)
    (root / "README.md").write_text("mine")
    result = CliRunner().invoke(cli, ["plugin", "new", "qos", "ZoneGuard", "--into", str(tmp_path)])
    assert result.exit_code == 1
    assert "exists already" in result.output
    assert (root / "README.md").read_text() == "mine"


def test_what_a_plugin_costs_is_measured_point_by_point() -> None:
    options = ["--nodes", "50", "--calls", "10", "--output", "json"]
    result = CliRunner().invoke(cli, ["plugin", "measure", "NodeResourcesFit", *options])
    assert result.exit_code == 0, result.output
    assert [f'"{point}"' in result.output for point in ("PreFilter", "Filter", "PreScore", "Score")] == [
        True
    ] * 4


def test_a_plugin_that_is_not_installed_cannot_be_measured() -> None:
    result = CliRunner().invoke(cli, ["plugin", "measure", "Nobody"])
    assert result.exit_code == 1
    assert (
        'got "Nobody", expected an installed plugin of entry point group koordpy.scheduling' in result.output
    )


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("Reservation", "'Reservation' is already the name of a plugin of koordpy"),
        ("Json", "Python already has a module 'json'"),
        ("Numpy", "numpy already has a module 'numpy'"),
    ],
)
def test_a_name_that_is_taken_is_refused(name: str, message: str, tmp_path: Path) -> None:
    result = CliRunner().invoke(cli, ["plugin", "new", "scheduling", name, "--into", str(tmp_path)])
    assert result.exit_code == 1
    assert message in result.output
    assert list(tmp_path.iterdir()) == []
