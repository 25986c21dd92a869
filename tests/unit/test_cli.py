"""The command line as a user has it: another process, its output and its exit code."""

import json
import subprocess
import sys

import pytest
import yaml

PROFILE = """\
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: batch}
spec:
  selector: {matchLabels: {app: spark}}
  qosClass: BE
---
apiVersion: config.koordinator.sh/v1alpha1
kind: ClusterColocationProfile
metadata: {name: online}
spec:
  selector: {matchLabels: {app: web}}
  qosClass: LS
---
apiVersion: v1
kind: Namespace
metadata: {name: default}
---
apiVersion: v1
kind: Pod
metadata: {name: p, labels: {app: spark}}
spec: {containers: [{name: c, image: x}]}
"""


def koordpy(*arguments, stdin=""):
    return subprocess.run(
        [sys.executable, "-c", "from koordpy.cli import main; main()", *arguments],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_version_lists_the_installed_plugins():
    done = koordpy("version", "--output", "json")
    assert done.returncode == 0, done.stderr
    plugins = json.loads(done.stdout)["plugins"]
    assert "LoadAwareScheduling" in plugins["scheduling"]
    assert "LowNodeLoad" in plugins["descheduling"]
    assert "CPUSuppress" in plugins["qos"]


def test_explain_tells_matches_skips_and_changes_offline():
    done = koordpy("profile", "explain", "-f", "-", stdin=PROFILE)
    assert done.returncode == 0, done.stderr
    assert "matches batch" in done.stdout
    assert "skipped online: selector 'app=web' does not match" in done.stdout
    assert '+ /metadata/labels/koordinator.sh~1qosClass: "BE"' in done.stdout
    assert "\x1b[" not in done.stdout


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_explain_is_readable_by_programs(output, load):
    done = koordpy("profile", "explain", "-f", "-", "-o", output, stdin=PROFILE)
    [found] = load(done.stdout)
    assert {"op": "add", "path": "/metadata/labels/koordinator.sh~1qosClass", "value": "BE"} in found["patch"]
    assert found["result"]["metadata"]["labels"]["koordinator.sh/qosClass"] == "BE"


@pytest.mark.parametrize(
    ("arguments", "stdin", "complaint"),
    [
        (["profile", "explain", "-f", "missing.yaml"], "", "missing.yaml: No such file"),
        (["profile", "explain", "-f", "-"], "{", "not YAML"),
        (["profile", "explain", "-f", "-"], "just text", "expected Kubernetes objects"),
        (
            ["profile", "explain", "-f", "-"],
            "kind: Namespace\nmetadata: {name: x}\napiVersion: v1",
            "no pod in -",
        ),
        (["profile", "explain", "-f", "-", "--feature-gates", "Nope=true"], PROFILE, "Nope"),
        (["why", "justaname"], "", "expected NAMESPACE/POD"),
        (["why", "a/b", "--debug-server", "http://127.0.0.1:1"], "", "is koordpy serve running"),
        (["health", "--debug-server", "http://127.0.0.1:1"], "", "http://127.0.0.1:1/readyz"),
        (["serve", "--doors", "window"], "", "doors[0]"),
        (["serve", "--extender-bind", "nowhere"], "", "expected ADDRESS:PORT"),
        (["serve", "--kubeconfig", "missing"], "", "missing"),
        (
            ["serve", "--server", "http://127.0.0.1:1", "--debug-bind", "0.0.0.0:0", "--doors", "debug"],
            "",
            "loopback",
        ),
        (["worker"], "", "nothing to host"),
        (["worker", "--descheduler", "--server", "http://127.0.0.1:1"], "", "worker.descheduler.config"),
        (["worker", "--evict-with", "x"], "", "expected NAME=INSTEAD"),
        (["demo", "--nodes", "3", "--exit"], "", "--nodes"),
        (["frobnicate"], "", "frobnicate"),
    ],
)
def test_an_error_is_one_clear_line_and_a_code(arguments, stdin, complaint):
    done = koordpy(*arguments, stdin=stdin)
    assert done.returncode != 0
    lines = [line for line in done.stderr.splitlines() if " I " not in line]
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("koordpy: ")
    assert complaint in lines[0]
    assert "Traceback" not in done.stderr
