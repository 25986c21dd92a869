"""The process of `koordpy agent` runs on every node, so it loads no library that it can do without."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
import json, sys
import click
import koordpy.cli
import koordpy.main
from koordpy import settings
from koordpy.commands import agent_flags
from koordpy.compose.process import Process

koordpy.cli.cli.get_command(click.Context(koordpy.cli.cli), "agent")
found = settings.load(None, json.loads(sys.argv[1]))
agent_flags.installed()
process = Process(found, ["agent"])
print(json.dumps(sorted(sys.modules)))
"""

LARGE = {
    "aiohttp",
    "cryptography",
    "fastapi",
    "httpx",
    "kubernetes",
    "numpy",
    "pandas",
    "polars",
    "rich",
    "sqlalchemy",
    "starlette",
}
"""Packages of more than a megabyte of memory that only other processes need."""

OF_OTHER_PARTS = (
    "koordpy.admission.chain",
    "koordpy.commands.doctor",
    "koordpy.commands.why",
    "koordpy.controllers",
    "koordpy.descheduling",
    "koordpy.embedded",
    "koordpy.features",
    "koordpy.http.server.application",
    "koordpy.scheduling.framework",
    "koordpy.scheduling.interface",
    "koordpy.simulation",
    "koordpy_plugins.admission",
    "koordpy_plugins.descheduling",
    "koordpy_plugins.scheduling",
)


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> set[str]:
    """The modules that a complete agent process has loaded before it starts."""
    root: Path = tmp_path_factory.mktemp("node")
    (root / "cgroup/kubepods.slice").mkdir(parents=True)
    (root / "cgroup/cgroup.controllers").write_text("cpu cpuset memory\n")
    settings = {
        "client": {"server": "http://127.0.0.1:1"},
        "debug": {"port": 0, "certDir": str(root / "certs")},
        "agent": {"nodeName": "n1", "cgroupRoot": str(root / "cgroup")},
    }
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, json.dumps(settings)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout))


def test_the_agent_loads_no_large_library(loaded: set[str]) -> None:
    assert {module.partition(".")[0] for module in loaded} & LARGE == set()


def test_the_agent_loads_nothing_of_other_parts(loaded: set[str]) -> None:
    assert [module for module in sorted(loaded) if module.startswith(OF_OTHER_PARTS)] == []
