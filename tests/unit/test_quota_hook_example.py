"""The hook plugin of `docs/quotas.md` works as it is, found by its entry point."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from koordpy.scheduling.profiles import config

PAGE = (Path(__file__).parents[2] / "docs" / "quotas.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```\w+\n# (\S+\.\w+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
PACKAGE = "koordpy-quota-pod-limit"


def test_the_example_of_a_hook_plugin_passes_its_test(tmp_path: Path) -> None:
    own = {path: text for path, text in FILES.items() if path.startswith(f"{PACKAGE}/")}
    for path, text in own.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    register(tmp_path / PACKAGE)
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path / PACKAGE,
        env={**os.environ, "PYTHONPATH": "src"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 passed" in done.stdout


def register(root: Path) -> None:
    """Write what pip writes, so that the entry points are found."""
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    info = root / "src" / f"{project['name'].replace('-', '_')}-{project['version']}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {project['name']}\nVersion: 0.1.0\n")
    [(group, entries)] = project["entry-points"].items()
    lines = [f"{name} = {target}" for name, target in entries.items()]
    (info / "entry_points.txt").write_text("\n".join([f"[{group}]", *lines, ""]))


def test_the_configuration_of_the_example_is_valid(tmp_path: Path) -> None:
    (tmp_path / "profiles.yaml").write_text(FILES["profiles.yaml"], encoding="utf-8")
    assert config.load(tmp_path / "profiles.yaml")
