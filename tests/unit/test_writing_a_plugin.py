"""The examples of every kind in `docs/writing-a-plugin.md` work as they are, and need public names only."""

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from koordpy import settings
from koordpy.cli import cli
from koordpy.commands.plugin_package import KINDS
from koordpy.descheduling.config import loading as descheduling_config
from koordpy.scheduling.profiles import config as scheduling_config

PAGE = (Path(__file__).parents[2] / "docs" / "writing-a-plugin.md").read_text(encoding="utf-8")
BEGUN = re.findall(r"^koordpy plugin new (\w+) (\w+)$", PAGE, re.MULTILINE)
FILES = re.findall(r"^```python\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)


def test_every_kind_has_an_example() -> None:
    assert sorted(kind for kind, _ in BEGUN) == sorted(KINDS)


@pytest.mark.parametrize(("kind", "name"), BEGUN)
def test_the_example_of_a_kind_passes_its_tests(kind: str, name: str, tmp_path: Path) -> None:
    begun = CliRunner().invoke(cli, ["plugin", "new", kind, name, "--into", str(tmp_path)])
    assert begun.exit_code == 0, begun.output
    [root] = tmp_path.iterdir()
    own = {path: text for path, text in FILES if path.startswith(f"{root.name}/")}
    assert any("/src/" in path for path in own)
    assert any("/tests/" in path for path in own)
    for path, text in own.items():
        (tmp_path / path).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=root,
        env=dict(os.environ),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "passed" in done.stdout


def test_the_configuration_files_of_the_guide_are_valid(tmp_path: Path) -> None:
    blocks = re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    read: dict[str, Callable[[Path], object]] = {
        "KoordpyConfiguration": settings.load,
        "KubeSchedulerConfiguration": scheduling_config.load,
        "DeschedulerConfiguration": descheduling_config.load_file,
    }
    for name, text in blocks:
        (tmp_path / name).write_text(text, encoding="utf-8")
        [kind] = re.findall(r"^kind: (\w+)$", text, re.MULTILINE)
        read.pop(kind, settings.load)(tmp_path / name)
    assert not read


@pytest.mark.parametrize("kind", ["admission", "admission --validating"])
def test_the_guide_enables_handlers_as_their_package_says(kind: str, tmp_path: Path) -> None:
    begun = CliRunner().invoke(cli, ["plugin", "new", *kind.split(" "), "Own", "--into", str(tmp_path)])
    assert begun.exit_code == 0, begun.output
    readme = (tmp_path / "koordpy-plugin-own" / "README.md").read_text(encoding="utf-8")
    [own] = re.findall(r"^```yaml\n(admission:\n.*?)^```", readme, re.MULTILINE | re.DOTALL)
    (tmp_path / "own.yaml").write_text(own, encoding="utf-8")
    [entry] = settings.load(tmp_path / "own.yaml").admission.enabled
    path = "validate-pod" if "--validating" in kind else "mutate-pod"
    assert entry.name == f"{path}.Own"
    assert f"{path}." in PAGE
