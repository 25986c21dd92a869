"""The import contracts of `pyproject.toml` notice what they are there for: `lint-imports` names each of the
violations that are planted in a copy of the sources under its contract.
"""

import os
import re
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


def planted_at(name: str) -> Path:
    """The file of a violation: no two new ones are the same."""
    place, number = Path(VIOLATIONS[name][0]), list(VIOLATIONS).index(name)
    return place.with_name(f"planted_{number}.py") if place.name == "planted.py" else place


def module_of(file: Path) -> str:
    parts = file.with_suffix("").parts[1:]
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The contracts that do not hold for a copy with all violations, and what is said of each."""
    copy = tmp_path_factory.mktemp("contracts")
    for tree in ("app", "plugins"):
        shutil.copytree(ROOT / tree, copy / tree, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", copy)
    for name, (_, line, _) in VIOLATIONS.items():
        file = copy / planted_at(name)
        before = file.read_text() if file.exists() else ""
        file.parent.mkdir(exist_ok=True)
        file.write_text(f"{before}\n{line}\n")
    return broken_in(copy)


def broken_in(sources: Path) -> dict[str, str]:
    """What is said of the contracts that do not hold."""
    done = subprocess.run(
        [Path(sys.executable).with_name("lint-imports"), "--no-cache"],
        cwd=sources,
        env={**os.environ, "PYTHONPATH": f"{sources / 'app'}:{sources / 'plugins'}", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=300,
    )
    found = [line.partition(" BROKEN")[0] for line in done.stdout.splitlines() if " BROKEN" in line]
    assert (done.returncode != 0) == bool(found), done.stdout + done.stderr
    sections = re.split(r"\n\n([^\n]+)\n-+\n", done.stdout.partition("Broken contracts")[2])
    told = dict(zip(sections[1::2], sections[2::2], strict=True))
    return {name: told[name] for name in found}


def test_the_sources_keep_every_contract() -> None:
    assert broken_in(ROOT) == {}


@pytest.mark.parametrize("name", VIOLATIONS)
def test_a_planted_violation_is_noticed(broken: dict[str, str], name: str) -> None:
    module, contract = module_of(planted_at(name)), VIOLATIONS[name][2]
    said = broken[contract]
    if "cycles" in contract:  # which are said by folders, with the files in them
        folder, _, file = module.rpartition(".")
        assert re.search(rf"allowed in {re.escape(folder)}\.\n[^\n]*\n\n- \.{file} -> ", said)
    else:
        assert re.search(rf"^- +{re.escape(module)}\b", said, re.MULTILINE)
