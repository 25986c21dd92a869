"""The examples of every kind in `docs/writing-a-plugin.md` work as they are, and need public names only."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from koordpy.cli import cli
from koordpy.commands.plugin_package import KINDS

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
