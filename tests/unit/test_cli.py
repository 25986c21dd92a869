"""The command line as a user has it: another process, its output and its exit code."""

import json
import subprocess
import sys

import pytest
import yaml

from koordpy import data
from tests.eventually import PATIENCE

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
        timeout=PATIENCE,
        check=False,
    )


def test_version_lists_the_installed_plugins():
    done = koordpy("version", "--output", "json")
    assert done.returncode == 0, done.stderr
    plugins = json.loads(done.stdout)["plugins"]
    assert "LoadAwareScheduling" in plugins["scheduling"]
    assert "LowNodeLoad" in plugins["descheduling"]
    assert "CPUSuppresss" in plugins["qos"]
    assert "colocationprofile" in plugins["controllers"]


def test_explain_shows_matches_skips_and_changes_offline():
    done = koordpy("profile", "explain", "-f", "-", stdin=PROFILE)
    assert done.returncode == 3, done.stderr  # /validate-pod refuses it
    assert "matches batch" in done.stdout
    assert "skipped online: selector 'app=web' does not match" in done.stdout
    assert '+ /metadata/labels/koordinator.sh~1qosClass: "BE"' in done.stdout
    assert "\x1b[" not in done.stdout


def test_explain_names_where_profiles_come_from_when_the_files_have_none():
    pod = "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c}]}\n"
    done = koordpy("profile", "explain", "-f", "-", stdin=pod)
    assert done.returncode == 0, done.stderr
    assert "no ClusterColocationProfile in the files: add some with -f, or a cluster's with" in done.stdout


def test_explain_prints_the_patch_and_what_validation_says():
    done = koordpy("profile", "explain", "-f", "-", stdin=PROFILE)
    assert "patch, 1 operation:" in done.stdout
    assert '{"op": "add", "path": "/metadata/labels/koordinator.sh~1qosClass", "value": "BE"}' in done.stdout
    assert "refused by /validate-pod with 400: Pod: Forbidden: " in done.stdout


def test_explain_takes_workloads_for_the_pods_that_they_create():
    deployment = (
        "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: d, namespace: ns}\n"
        "spec: {template: {metadata: {labels: {app: spark}}, spec: {containers: [{name: c}]}}}\n"
    )
    done = koordpy("profile", "explain", "-f", "-", stdin=f"{PROFILE}---\n{deployment}")
    assert "Pod ns/d-\n" in done.stdout
    assert done.stdout.count("matches batch") == 2


def test_lint_prints_findings_and_exits_with_3_where_there_are_errors():
    done = koordpy("profile", "lint", "-f", "-", stdin=PROFILE)
    assert done.returncode == 0, done.stderr
    assert "warning batch spec.qosClass = BE  refused-unless" in done.stdout
    assert done.stdout.endswith("2 profiles: 0 errors, 1 warning, 0 notes\n")
    broken = PROFILE.replace("qosClass: BE", "qosClass: best")
    done = koordpy("profile", "lint", "-f", "-", "-o", "json", stdin=broken)
    assert done.returncode == 3
    report = json.loads(done.stdout)
    assert (report["profiles"], report["errors"]) == (2, 1)
    assert report["findings"][0] == {
        "severity": "error",
        "rule": "unknown-qos",
        "kind": "ClusterColocationProfile",
        "name": "batch",
        "field": "spec.qosClass",
        "value": "best",
        "expectation": "the API server refuses the profile; expected one of LSE, LSR, LS, BE, SYSTEM",
    }


def test_preview_prints_groups_and_exits_with_3_where_pods_would_be_refused(tmp_path):
    there = tmp_path / "pods.yaml"
    there.write_text("\n---\n".join(PROFILE.split("---\n")[2:]))
    done = koordpy("profile", "preview", "-f", "-", "--pods", str(there), stdin=PROFILE)
    assert done.returncode == 3, done.stderr
    assert "batch (new): applies to 1 pod\n" in done.stdout
    assert "1 of 1 pod would be different" in done.stdout
    assert "1 pod in 1 workload refused: Pod: Forbidden" in done.stdout
    harmless = PROFILE.replace("qosClass: BE", "qosClass: LS")
    done = koordpy("profile", "preview", "-f", "-", "--pods", str(there), "-o", "yaml", stdin=harmless)
    assert done.returncode == 0, done.stderr
    found = yaml.safe_load(done.stdout)
    assert (found["touched"], found["refused"]) == (1, 0)
    assert found["groups"][0]["workloads"] == [
        {"namespace": "default", "kind": "Pod", "name": "p", "pods": 1, "example": "p"}
    ]


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
            "-: no pod or workload",
        ),
        (["profile", "explain", "-f", "-", "--feature-gates", "Nope=true"], PROFILE, "Nope"),
        (["profile", "explain"], "", "expected -f FILE or NAMESPACE/POD"),
        (
            ["profile", "explain", "-f", "-"],
            "kind: Pod\nmetadata: text",
            "Pod: metadata: got 'text', expected",
        ),
        (
            ["profile", "explain", "-f", "-"],
            PROFILE.replace("qosClass: LS", "qosClass: 5"),
            "ClusterColocationProfile online: Expected `str`, got `int` - at `$.spec.qosClass`",
        ),
        (["profile", "explain", "justaname"], "", "expected NAMESPACE/POD"),
        (
            ["profile", "explain", "-f", "-", "--feature-gates", "PodMutatingWebhook=false"],
            PROFILE,
            "no admission webhook at /mutate-pod",
        ),
        (["profile", "lint", "-f", "-"], "kind: Pod", "-: no ClusterColocationProfile: nothing to lint"),
        (["profile", "lint", "--server", "http://127.0.0.1:1"], "", "http://127.0.0.1:1"),
        (["profile", "preview", "--pods", "-"], "", "-f"),
        (["profile", "preview", "-f", "-", "--pods", "missing.yaml"], PROFILE, "missing.yaml: No such file"),
        (["profile", "preview", "-f", "-", "--server", "http://127.0.0.1:1"], PROFILE, "http://127.0.0.1:1"),
        (["why", "justaname"], "", "expected NAMESPACE/POD"),
        (["why", "a/b", "--debug-server", "http://127.0.0.1:1"], "", "is koordpy running"),
        (["health", "--debug-server", "http://127.0.0.1:1"], "", "http://127.0.0.1:1/readyz"),
        (["descheduler", "config", "--file", "missing.yaml"], "", "'missing.yaml' does not exist"),
        (["serve", "--parts", "window"], "", "parts[0]"),
        (["serve", "--doors", "admission"], "", "--doors: renamed to --parts"),
        (["serve", "--extender-bind", "nowhere"], "", "expected ADDRESS:PORT"),
        (["serve", "--kubeconfig", "missing"], "", "missing"),
        (
            ["serve", "--server", "http://127.0.0.1:1", "--debug-bind", "0.0.0.0:0", "--parts", "debug"],
            "",
            "loopback",
        ),
        (["worker"], "", "choose parts with --parts"),
        (["worker", "--qos"], "", "--qos: renamed to koordpy agent"),
        (["worker", "--descheduler"], "", "--descheduler: renamed to --parts descheduler"),
        (["worker", "--controllers"], "", "--parts controllers runs them"),
        (
            ["worker", "--parts", "descheduler", "--server", "http://127.0.0.1:1"],
            "",
            "worker.descheduler.config",
        ),
        (
            [
                "worker",
                "--parts=descheduler",
                f"--descheduler-config={data.deploy('kustomize', 'base', 'worker', 'descheduler.yaml')}",
                "--scheduler-config=/no/profiles.yaml",
                "--server=http://127.0.0.1:1",
            ],
            "",
            "/no/profiles.yaml",
        ),
        (
            ["worker", "--parts=controllers", "--scheduler-config=x", "--server=http://127.0.0.1:1"],
            "",
            "--scheduler-config: part descheduler does not run",
        ),
        (
            [
                "worker",
                "--parts=controllers",
                "--controllers=colocationprofile",
                "--server",
                "http://127.0.0.1:1",
            ],
            "",
            "leave none of the controllers: colocationprofile (feature gate ColocationProfileController)",
        ),
        (
            ["worker", "--parts=controllers", "--controllers=typo", "--server", "http://127.0.0.1:1"],
            "",
            "got 'typo', expected",
        ),
        (["worker", "--controller-arg", "x"], "", "expected NAME.FIELD=VALUE"),
        (
            [
                "worker",
                "--parts",
                "controllers",
                "--controller-arg",
                "nope.a=1",
                "--server",
                "http://127.0.0.1:1",
            ],
            "",
            'worker.controllers.args: got "nope", expected an installed plugin of entry point group',
        ),
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


def test_whatif_wants_something_that_has_pods():
    done = koordpy("whatif", "-f", "-", stdin="kind: Service\napiVersion: v1\n")
    assert (done.returncode, done.stderr) == (
        1,
        "koordpy: -: no pod or workload (Deployment, ReplicaSet, StatefulSet, Job)\n",
    )


def test_whatif_and_following_name_an_address_without_a_server():
    nowhere = ("--debug-server", "http://127.0.0.1:9")
    for arguments in (("whatif", "-f", "-"), ("why", "--follow")):
        done = koordpy(*arguments, *nowhere, stdin="kind: Pod\napiVersion: v1\n")
        assert done.returncode == 1
        assert done.stderr.startswith("koordpy: http://127.0.0.1:9: ")
        assert "is koordpy running" in done.stderr


def test_why_wants_a_pod_unless_it_follows():
    done = koordpy("why")
    assert done.returncode == 2
    assert "Missing argument 'NAMESPACE/POD'" in done.stderr


def test_a_group_without_a_command_shows_its_help_as_it_is():
    for arguments in ((), ("profile",), ("plugin",)):
        done = koordpy(*arguments)
        assert (done.returncode, done.stdout) == (2, "")
        assert done.stderr.startswith("Usage: ")
        assert "\nCommands:\n" in done.stderr


def test_a_file_that_is_not_there_is_named_first():
    for arguments in (("serve", "--config"), ("doctor", "--config"), ("simulate", "-f")):
        done = koordpy(*arguments, "nowhere.yaml")
        assert (done.returncode, done.stderr) == (1, "koordpy: nowhere.yaml: No such file or directory\n")


def test_a_kubeconfig_that_cannot_be_read_is_named(tmp_path):
    broken = tmp_path / "config"
    broken.write_text("{{{")
    done = koordpy("doctor", "--kubeconfig", str(broken))
    assert done.returncode == 1
    assert done.stderr.startswith(f"koordpy: kubeconfig {broken}: ")


def test_what_is_not_for_a_screen_has_no_blanks_at_the_ends_of_lines():
    for arguments in (("features",), ("plugin", "measure", "NodeName", "--nodes", "5", "--calls", "10")):
        done = koordpy(*arguments)
        assert done.returncode == 0
        assert [line for line in done.stdout.splitlines() if line != line.rstrip()] == []
