"""`koordpy audit` on dumps: what it prints, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner, Result

from koordpy.api import extension
from koordpy.cli import cli


def pod(name: str, cpus: str) -> dict[str, Any]:
    annotations = {extension.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus})}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": "default", "uid": name, "annotations": annotations},
        "spec": {"nodeName": "n1"},
    }


def dumped(folder: Path, *pods: dict[str, Any]) -> str:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
    path = folder / "dump.json"
    path.write_text(json.dumps({"apiVersion": "v1", "kind": "List", "items": [node, *pods]}))
    return str(path)


def run(*arguments: str, **more: Any) -> Result:
    return CliRunner().invoke(cli, ["audit", *arguments], **more)


def test_clean_books_exit_with_0_and_say_what_was_checked(tmp_path: Path) -> None:
    done = run("-f", dumped(tmp_path, pod("a", "0"), pod("b", "1")))
    assert done.exit_code == 0, done.output
    assert "cpus            done: 1 node, 2 CPU sets, 2 CPUs" in done.output
    assert "devices         not possible: Device: none in the dump" in done.output
    assert done.output.rstrip().endswith("nothing is handed out twice")


def test_what_colocation_brings_about_is_printed_and_exits_with_0(tmp_path: Path) -> None:
    batch = pod("a", "")
    requests = {extension.BATCH_CPU: "2000"}
    batch["spec"]["containers"] = [{"name": "main", "resources": {"requests": requests}}]
    done = run("-f", dumped(tmp_path, batch))
    assert done.exit_code == 0, done.output
    assert "more requested than the node offers now" in done.output
    assert done.output.rstrip().endswith("nothing is handed out twice, 1 note")


def test_findings_exit_with_1_and_name_both_owners(tmp_path: Path) -> None:
    done = run("-f", dumped(tmp_path, pod("a", "0"), pod("b", "0-1")))
    assert done.exit_code == 1
    assert "Pod default/a (CPUs 0), Pod default/b (CPUs 0-1)" in done.output
    assert "handed out twice" in done.output
    assert "1 error, 0 warnings" in done.output


def test_a_finding_with_many_owners_names_some(tmp_path: Path) -> None:
    pods = [
        {
            **pod(f"p{number}", ""),
            "spec": {
                "nodeName": "n1",
                "containers": [{"name": "main", "resources": {"requests": {"cpu": "1"}}}],
            },
        }
        for number in range(6)
    ]
    assert "and 2 more" in run("-f", dumped(tmp_path, *pods)).output


@pytest.mark.parametrize(("output", "load"), [("json", json.loads), ("yaml", yaml.safe_load)])
def test_structured_output_has_everything(tmp_path: Path, output: str, load: Any) -> None:
    done = run("-f", dumped(tmp_path, pod("a", "0"), pod("b", "0")), "-o", output)
    found = load(done.output)
    assert found["findings"] == [
        {
            "check": "cpus",
            "severity": "error",
            "node": "n1",
            "what": "CPU 0",
            "problem": "handed out twice",
            "owners": [
                {"kind": "Pod", "name": "default/a", "amount": "CPUs 0"},
                {"kind": "Pod", "name": "default/b", "amount": "CPUs 0"},
            ],
            "held": "1 CPU",
            "limit": "",
        }
    ]
    assert found["objects"]["Pod"] == 2
    assert (found["errors"], found["warnings"]) == (1, 0)


def test_stdin(tmp_path: Path) -> None:
    text = Path(dumped(tmp_path, pod("a", "0"))).read_text()
    assert run("-f", "-", input=text).exit_code == 0


def test_unusable_input_exits_with_2(tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text("a: [")
    done = run("-f", str(tmp_path / "bad.yaml"))
    assert done.exit_code == 2
    assert "bad.yaml: neither JSON nor YAML" in done.output
    assert run("-f", str(tmp_path / "absent.json")).exit_code == 2
    assert run("--server", "http://127.0.0.1:9").exit_code == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kubeconfig", "absent"], "absent"),
        (["--kubeconfig", "bad.yaml"], "bad.yaml"),
        (["--kubeconfig", "empty.yaml"], "empty.yaml"),
        (["--server", "nonsense"], "nonsense"),
        (["--server", "http://127.0.0.1:9"], "127.0.0.1:9"),
        (["--watch", "--server", "http://127.0.0.1:9"], "127.0.0.1:9"),
        (["-f", "damaged.json.gz"], "damaged.json.gz"),
        (["-f", "empty.yaml"], "no Node and Pod found"),
        (["-f", "folder"], "no file ends in .json"),
        (["-o", "xml"], "'xml' is not one of"),
        (["--recheck", "-1"], "Invalid value for '--recheck'"),
        (["more"], "unexpected extra argument"),
        (["--nonsense"], "No such option"),
    ],
)
def test_what_cannot_be_audited_exits_with_2_and_says_what_is_wrong(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, arguments: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "bad.yaml").write_text("a: [")
    (tmp_path / "empty.yaml").write_text("")
    (tmp_path / "damaged.json.gz").write_bytes(b"\x1f\x8b")
    done = run(*arguments)
    assert done.exit_code == 2, done.output
    assert message in done.output
    assert isinstance(done.exception, SystemExit)


def test_a_dump_and_a_cluster_exclude_each_other(tmp_path: Path) -> None:
    done = run("-f", dumped(tmp_path), "--server", "http://127.0.0.1:9")
    assert done.exit_code == 2
    assert "-f cannot be combined" in done.output


def test_a_dump_cannot_be_watched(tmp_path: Path) -> None:
    done = run("-f", dumped(tmp_path), "--watch")
    assert done.exit_code == 2
    assert "a dump does not change" in done.output
    assert run("--watch", "--server", "http://127.0.0.1:9").exit_code == 2
