"""`docs/writing-a-plugin.md`, word for word: its commands run, its files work, its plugin acts."""

import json
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from koordpy.embedded.apiserver import ApiServer
from tests import loopback
from tests.e2e.controlplane.process import free_port
from tests.e2e.installed import PROJECT, Installed
from tests.integration.apiserver.objects import node, pod
from tests.integration.apiserver.rest import Rest, ok

PAGE = (PROJECT / "docs" / "writing-a-plugin.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```(sh|python|yaml)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
PACKAGE = "koordpy-plugin-spare-nodes"


@pytest.fixture(scope="module")
def after_the_page(installed: Installed) -> Iterator[Installed]:
    """An environment after all commands of the page, in their order."""
    environment = {
        **installed.environment,
        "PATH": f"{installed.pip_command()}:{installed.prefix}/bin:{os.environ['PATH']}",
    }
    for language, text in BLOCKS:
        if language == "sh":
            done = subprocess.run(
                ["sh", "-e", "-c", text],
                cwd=installed.work,
                env=environment,
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == 0, f"{text}\n{done.stdout}{done.stderr}"
            if "pytest -q" in text:
                assert "passed" in done.stdout
            continue
        name, _, content = text.removeprefix("# ").partition("\n")
        (installed.work / name).write_text(content, encoding="utf-8")
    yield installed
    installed.pip("uninstall", "--quiet", "--yes", PACKAGE)


def test_the_plugin_is_short() -> None:
    [plugin] = [text for _, text in BLOCKS if text.startswith(f"# {PACKAGE}/src/spare_nodes/plugin.py")]
    assert len(plugin.splitlines()) - 1 < 30


def test_the_plugin_acts_in_a_service(after_the_page: Installed) -> None:
    ports = {part: free_port() for part in ("extender", "debug")}
    with ApiServer.in_thread(crds=[PROJECT / "deploy" / "crds"]) as server:
        rest = Rest(server.url)
        with rest.http:
            for document in (node("plain"), node("spare", {"example.com/spare": ""})):
                ok(rest.collection("nodes").create(document), 201)
        settings = {
            "apiVersion": "config.koordpy.dev/v1alpha1",
            "kind": "KoordpyConfiguration",
            "parts": ["extender", "debug"],
            "client": {"server": server.url},
            "extender": {"port": ports["extender"], "schedulerConfig": "profiles.yaml"},
            "debug": {"port": ports["debug"]},
        }
        with after_the_page.serving(settings):
            extender = f"http://127.0.0.1:{ports['extender']}"
            kept = {name: filtered(extender, priority) for name, priority in PODS.items()}
    assert kept == {"web": ["plain"], "checkout": ["plain", "spare"]}


PODS = {"web": 1000, "checkout": 2000}  # the page says minPriority: 2000


def filtered(extender: str, priority: int) -> list[str]:
    document = pod(f"p-{priority}")
    document["metadata"] |= {"namespace": "default", "uid": f"uid-{priority}"}
    document["spec"] |= {"priority": priority, "schedulerName": "default-scheduler"}
    body = json.dumps({"Pod": document, "NodeNames": ["plain", "spare"]})
    headers = {"Content-Type": "application/json"}
    answer = (
        loopback.post(f"{extender}/extender/filter", content=body, headers=headers).raise_for_status().json()
    )
    names: list[str] = answer["NodeNames"]
    return names


def test_looking_at_all_nodes_at_once_comes_to_the_same(after_the_page: Installed) -> None:
    script = after_the_page.work / "compare.py"
    script.write_text(COMPARE, encoding="utf-8")
    assert after_the_page.command("python", Path(script)).strip() == "same"


COMPARE = """
from koordpy.testing.cluster import cluster
from koordpy.testing.objects import node, pod
from koordpy.testing.scheduling import Scheduling
from spare_nodes.fast import FastSpareNodes
from spare_nodes.plugin import SpareNodes

nodes = cluster(*(node(f"n{i}", labels={"example.com/spare": ""} if i % 3 else {}) for i in range(20)))
for priority in (0, 999, 1000, 5000):
    plugins = (SpareNodes, FastSpareNodes)
    slow, fast = (Scheduling(nodes, plugin).find(pod("p", priority=priority)) for plugin in plugins)
    assert slow.refused == fast.refused and slow.scores == fast.scores
print("same")
"""
