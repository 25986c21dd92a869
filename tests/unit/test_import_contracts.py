"""The import contracts of `pyproject.toml` notice what they are there for: a violation of each kind, planted
in a copy of the sources, makes `lint-imports` fail and name the contract.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

VIOLATIONS = {
    "a framework imports the HTTP server": (
        "app/koordpy/scheduling/extender/planted.py",
        "from koordpy.http.server import listener",
        "the floors: a file imports only from its own floor or below",
    ),
    "the HTTP server imports a route": (
        "app/koordpy/http/server/planted.py",
        "from koordpy.http.routes import health",
        "inside http: routes build on the server, the server knows no route",
    ),
    "the application imports a plugin": (
        "app/koordpy/admission/planted.py",
        "from koordpy_plugins.scheduling.loadaware import plugin",
        "app never imports plugins",
    ),
    "an SLO strategy imports how strategies are merged": (
        "app/koordpy/api/slo/threshold.py",
        "from .merge import merge",
        "inside api/slo: strategies, how they are merged, sections, what is made of them",
    ),
    "a file of api/slo has no place in the order": (
        "app/koordpy/api/slo/planted.py",
        "",
        "inside api/slo: strategies, how they are merged, sections, what is made of them",
    ),
    "the amounts of quotas import the rules of quotas": (
        "app/koordpy/api/quota/amounts.py",
        "from . import validation",
        "inside api/quota: amounts, what an ElasticQuota says, rules",
    ),
    "what quotas are imports the quota tree": (
        "app/koordpy/api/quota/info.py",
        "from koordpy.cluster.quota import topology",
        "the floors: a file imports only from its own floor or below",
    ),
    "the toolkit of plugins imports the framework": (
        "app/koordpy/scheduling/toolkit/planted.py",
        "from koordpy.scheduling.framework import framework",
        "inside scheduling: its folders in their order",
    ),
    "a stand-in imports the scheduling framework": (
        "app/koordpy/embedded/kubelet/planted.py",
        "from koordpy.scheduling.framework import framework",
        "the stand-ins know the cluster view and the work queues",
    ),
    "a workload controller imports the kubelets": (
        "app/koordpy/embedded/workloads/planted.py",
        "from koordpy.embedded.kubelet import kubelets",
        "the parts of the embedded control plane talk over HTTP alone",
    ),
    "a folder of scheduling has no place in the order": (
        "app/koordpy/scheduling/planted/__init__.py",
        "",
        "inside scheduling: its folders in their order",
    ),
    "two files of a folder import each other": (
        "app/koordpy/scheduling/interface/status.py",
        "from . import outcome",
        "no import cycles among the files of a folder, or among folders",
    ),
    "a plugin imports another plugin": (
        "plugins/koordpy_plugins/scheduling/loadaware/planted.py",
        "from koordpy_plugins.scheduling.reservation import plugin",
        "no plugin imports another plugin",
    ),
    "a plugin imports one of kube-scheduler's": (
        "plugins/koordpy_plugins/scheduling/loadaware/planted.py",
        "from koordpy_plugins.scheduling.stock.nodename import plugin",
        "no plugin imports another plugin",
    ),
    "a plugin of kube-scheduler's imports another one": (
        "plugins/koordpy_plugins/scheduling/stock/nodename/planted.py",
        "from koordpy_plugins.scheduling.stock.nodeports import plugin",
        "no plugin of kube-scheduler's imports another one",
    ),
    "a plugin imports the extender": (
        "plugins/koordpy_plugins/scheduling/loadaware/planted.py",
        "from koordpy.scheduling.extender import extender",
        "plugins import the public floors only",
    ),
    "a QoS plugin imports the engine that runs it": (
        "plugins/koordpy_plugins/qos/cpusuppress/planted.py",
        "from koordpy.agent.engine import agent",
        "plugins import the public floors only",
    ),
    "a collector imports NumPy": (
        "plugins/koordpy_plugins/collectors/planted.py",
        "import numpy",
        "the node agent and its plugins are small: no large libraries",
    ),
    "a descheduling plugin imports the descheduler": (
        "plugins/koordpy_plugins/descheduling/lownodeload/planted.py",
        "from koordpy.descheduling.engine import descheduler",
        "plugins import the public floors only",
    ),
    "an admission handler imports the chain that calls it": (
        "plugins/koordpy_plugins/admission/multi_quota_tree/planted.py",
        "from koordpy.admission import chain",
        "plugins import the public floors only",
    ),
    "a plugin imports an informer": (
        "plugins/koordpy_plugins/scheduling/loadaware/planted.py",
        "from koordpy.cluster import informer",
        "plugins import the public floors only",
    ),
    "a plugin imports the settings": (
        "plugins/koordpy_plugins/admission/multi_quota_tree/planted.py",
        "from koordpy import settings",
        "plugins import the public floors only",
    ),
    "the embedded API server imports the cluster view": (
        "app/koordpy/embedded/apiserver/planted.py",
        "from koordpy.cluster import store",
        "the embedded API server knows only tools and vocabulary",
    ),
}


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of all that the contracts are about."""
    copy = tmp_path_factory.mktemp("contracts")
    for tree in ("app", "plugins"):
        shutil.copytree(ROOT / tree, copy / tree, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    return copy


def broken(sources: Path) -> list[str]:
    """The contracts that do not hold."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=sources,
        env={**os.environ, "PYTHONPATH": f"{sources / 'app'}:{sources / 'plugins'}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    lines = [line for line in done.stdout.splitlines() if " BROKEN" in line]
    assert (done.returncode != 0) == bool(lines), done.stdout + done.stderr
    return [line.partition(" BROKEN")[0].strip() for line in lines]


def test_the_sources_keep_every_contract(sources: Path) -> None:
    assert broken(sources) == []


@pytest.mark.parametrize(
    ("place", "line", "contract"), VIOLATIONS.values(), ids=[name.replace(" ", "-") for name in VIOLATIONS]
)
def test_a_planted_violation_is_noticed(sources: Path, place: str, line: str, contract: str) -> None:
    planted = sources / place
    before = planted.read_text() if planted.exists() else None
    planted.parent.mkdir(exist_ok=True)
    planted.write_text(f"{before or ''}\n{line}\n")
    try:
        assert contract in broken(sources)
    finally:
        if before is not None:
            planted.write_text(before)
        elif planted.name == "__init__.py":
            shutil.rmtree(planted.parent)
        else:
            planted.unlink()
