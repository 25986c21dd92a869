"""`docs/profiles.md` shows what the commands print, lists the linter's rules, configures what there is."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from koordpy import settings
from koordpy.cluster.cluster import Cluster
from koordpy.controllers import host as controller_host
from koordpy.controllers.interface import Handle
from tests.eventually import PATIENCE

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "profiles.md").read_text(encoding="utf-8")
FILES = dict(re.findall(r"^```yaml\n# (\S+)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
RUNS = re.findall(
    r"^```console\n\$ koordpy (.*?)\n(.*?)\$ echo \$\?\n(\d)\n```", PAGE, re.MULTILINE | re.DOTALL
)
LINTING = ROOT / "plugins/koordpy_plugins/admission/cluster_colocation_profile/linting"
RULE = re.compile(r'"((?!koord-|default-)[a-z]+(?:-[a-z]+)+|conflict|overridden|malformed|refused)"')
RULES = {rule for file in LINTING.glob("*.py") for rule in RULE.findall(file.read_text(encoding="utf-8"))}


@pytest.mark.parametrize(("arguments", "output", "code"), RUNS, ids=[run[0] for run in RUNS])
def test_commands_print_what_the_page_shows(tmp_path: Path, arguments: str, output: str, code: str) -> None:
    for name, text in FILES.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", "from koordpy.cli import main; main()", *arguments.split()],
        cwd=tmp_path,
        env=os.environ,
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
    )
    assert done.stdout + done.stderr == output
    assert done.returncode == int(code)


def test_every_rule_of_the_linter_is_listed() -> None:
    rows = re.findall(r"^\| ([a-z-]+(?:, [a-z-]+)*) \| (?:error|warning|note)", PAGE, re.MULTILINE)
    listed = {rule for row in rows for rule in row.split(", ")}
    assert len(RUNS) == 3
    assert listed == RULES


def test_the_configuration_works(tmp_path: Path) -> None:
    file = tmp_path / "koordpy.yaml"
    file.write_text(FILES["koordpy.yaml"], encoding="utf-8")
    read = settings.load(file)
    installed = controller_host.installed()
    controllers = read.worker.controllers
    handle = Handle(Cluster(), controller_host.feature_gates(installed, read.feature_gates))
    built = controller_host.build(installed, controllers.selection, controllers.args, handle)
    [made] = [each for each in built if each.name == "colocationprofile"]
    told = re.findall(r"^\| `(\w+)` \| `--colocation-profile-", PAGE, re.MULTILINE)
    fields = type(made.args).model_fields.values()
    assert told == [field.alias for field in fields]
