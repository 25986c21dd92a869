"""Dumps that can be audited, and what is said about others."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from koordpy.audit import dump
from koordpy.audit.objects import Objects, UnusableDump, of_documents

NODE: dict[str, Any] = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n1"}}
POD: dict[str, Any] = {
    "apiVersion": "v1",
    "kind": "Pod",
    "metadata": {"name": "a", "namespace": "default"},
    "spec": {"nodeName": "n1"},
}
DEVICE: dict[str, Any] = {
    "apiVersion": "scheduling.koordinator.sh/v1alpha1",
    "kind": "Device",
    "metadata": {"name": "n1"},
}


def read(tmp_path: Path, text: str, name: str = "dump.yaml") -> Objects:
    (tmp_path / name).write_text(text)
    return of_documents(dump.read(tmp_path / name))


def listed(kind: str = "List", *items: dict[str, Any]) -> dict[str, Any]:
    return {"apiVersion": "v1", "kind": kind, "items": list(items)}


@pytest.mark.parametrize(
    "text",
    [
        json.dumps(listed("List", NODE, POD, DEVICE)),
        yaml.safe_dump(listed("List", NODE, POD, DEVICE)),
        yaml.safe_dump_all([NODE, POD, None, DEVICE]),
        yaml.safe_dump_all([listed("NodeList", {"metadata": {"name": "n1"}}), listed("List", POD, DEVICE)]),
        f"{json.dumps(NODE)}\n{json.dumps(listed('List', POD), indent=4)}\n\n{json.dumps(DEVICE)}\n",
    ],
)
def test_lists_and_documents_in_json_and_yaml(tmp_path: Path, text: str) -> None:
    found = read(tmp_path, text)
    assert (len(found.nodes), len(found.pods), len(found.devices)) == (1, 1, 1)
    assert "Device" not in found.missing
    assert found.missing["Reservation"] == "none in the dump"


@pytest.mark.parametrize("name", ["dump.json.gz", "dump.yaml"])
def test_a_compressed_dump(tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_bytes(gzip.compress(json.dumps(listed("List", NODE, POD)).encode()))
    assert len(of_documents(dump.read(tmp_path / name)).pods) == 1
    assert len(of_documents(dump.read(tmp_path)).pods) == 1


@pytest.mark.parametrize("coding", ["utf-8-sig", "utf-16"])
def test_a_dump_with_a_byte_order_mark(tmp_path: Path, coding: str) -> None:
    (tmp_path / "dump.json").write_bytes(json.dumps(listed("List", NODE, POD)).encode(coding))
    assert len(of_documents(dump.read(tmp_path / "dump.json")).pods) == 1


def test_a_folder_of_kubectl_cluster_info_dump(tmp_path: Path) -> None:
    node = {"metadata": {"name": "n1"}}
    (tmp_path / "nodes.json").write_text(json.dumps(listed("NodeList", node), indent=4))
    for namespace in ("default", "kube-system"):
        folder = tmp_path / namespace
        (folder / "a").mkdir(parents=True)
        pod = {"metadata": {"name": "a", "namespace": namespace}, "spec": {"nodeName": "n1"}}
        (folder / "pods.json").write_text(json.dumps(listed("PodList", pod), indent=4))
        (folder / "events.json").write_text(json.dumps(listed("EventList", {"metadata": {"name": "e"}})))
        (folder / "services.json").write_text(json.dumps({"kind": "ServiceList", "items": None}))
        (folder / "a" / "logs.txt").write_text("==== START logs for container c of pod a ====\n{")
    found = of_documents(dump.read(tmp_path))
    assert (len(found.nodes), len(found.pods)) == (1, 2)


def test_a_folder_of_files(tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    (tmp_path / "nodes.json").write_text(json.dumps(listed("List", NODE)))
    (tmp_path / "deep" / "pods.yml").write_text(yaml.safe_dump(listed("List", POD)))
    (tmp_path / "notes.txt").write_text("[")
    found = of_documents(dump.read(tmp_path))
    assert (len(found.nodes), len(found.pods)) == (1, 1)


def test_an_object_in_two_files_counts_once(tmp_path: Path) -> None:
    assert len(read(tmp_path, json.dumps(listed("List", NODE, POD, POD))).pods) == 1


def test_objects_of_other_groups_are_left_out(tmp_path: Path) -> None:
    metrics = {"apiVersion": "metrics.k8s.io/v1beta1", "kind": "Node", "metadata": {"name": "x"}}
    assert len(read(tmp_path, json.dumps(listed("List", NODE, POD, metrics))).nodes) == 1


@pytest.mark.parametrize("version", ["v1alpha1", "v1alpha2"])
def test_topologies_in_every_version_that_the_cluster_serves(tmp_path: Path, version: str) -> None:
    topology = {
        "apiVersion": f"topology.node.k8s.io/{version}",
        "kind": "NodeResourceTopology",
        "metadata": {"name": "n1"},
        "zones": [{"name": "node-0", "type": "Node"}],
    }
    found = read(tmp_path, json.dumps(listed("List", NODE, POD, topology)))
    assert [zone.name for zone in found.topologies[0].zones] == ["node-0"]
    assert "NodeResourceTopology" not in found.missing


def test_a_recording(tmp_path: Path) -> None:
    scenario = {
        "kind": "Scenario",
        "nodes": [
            {"name": "n1", "allocatable": {"cpu": "4"}, "annotations": {"a": "b"}},
            {"name": "late", "joins": "5s"},
        ],
        "objects": [{"manifest": DEVICE}],
        "workloads": [{"name": "recorded", "trace": {"file": "s.pods.jsonl"}}],
    }
    rows = [{"pod": POD, "arrival": 0}, {"pod": {**POD, "metadata": {"name": "late"}}, "arrival": 3.5}]
    (tmp_path / "s.pods.jsonl").write_text("\n".join(map(json.dumps, rows)) + "\n")
    found = read(tmp_path, yaml.safe_dump(scenario), "s.yaml")
    assert [node.metadata.name for node in found.nodes] == ["n1"]
    assert found.nodes[0].status.allocatable == {"cpu": "4"}
    assert [pod.metadata.name for pod in found.pods] == ["a"]
    assert len(found.devices) == 1


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[1]", "expected an object with a kind"),
        (f"{json.dumps(NODE)} x", "neither JSON nor YAML"),
        (f"{json.dumps(NODE)}[1]", "document 2: got '[1]', expected an object with a kind"),
        ("a: [", "neither JSON nor YAML: line 2"),
        (yaml.safe_dump_all([NODE, 3]), "dump.yaml, document 2: got '3', expected an object with a kind"),
        (json.dumps(listed("List", NODE, [])), "dump.yaml, items[1]: got '[]'"),  # type: ignore[arg-type]
        (json.dumps({"kind": "List", "items": 3}), "items: got '3', expected a list"),
        (json.dumps(listed("List", NODE)), "no Pod found; expected nodes, pods"),
        (json.dumps(listed("List", NODE, {**POD, "spec": 3})), "dump.yaml, items[1]: Pod: "),
        (json.dumps(listed("List", NODE, {**POD, "metadata": {}})), "items[1]: Pod without metadata.name"),
        ("{" * 200, "neither JSON nor YAML"),
        (yaml.safe_dump({"kind": "Scenario", "nodes": [{}]}), "nodes[0]: expected a node with a name"),
        (yaml.safe_dump({"kind": "Scenario", "workloads": [{"pods": {}}]}), "a workload without a table"),
    ],
)
def test_what_cannot_be_audited_says_where_and_what_was_expected(
    tmp_path: Path, text: str, message: str
) -> None:
    with pytest.raises(UnusableDump) as error:
        read(tmp_path, text)
    assert message in str(error.value)


@pytest.mark.parametrize("kept", [20, -4])
def test_a_compressed_dump_that_is_damaged(tmp_path: Path, kept: int) -> None:
    (tmp_path / "dump.json.gz").write_bytes(
        gzip.compress(json.dumps(listed("List", NODE, POD)).encode())[:kept]
    )
    with pytest.raises(UnusableDump, match=r"dump\.json\.gz: .*compressed, and damaged"):
        list(dump.read(tmp_path / "dump.json.gz"))


@pytest.mark.parametrize(("row", "message"), [("{", "not JSON"), ("{}", "expected a row with a pod")])
def test_a_bad_row_of_a_recording_says_its_line(tmp_path: Path, row: str, message: str) -> None:
    scenario = {"kind": "Scenario", "workloads": [{"trace": {"file": "s.jsonl"}}]}
    (tmp_path / "s.jsonl").write_text(f"{json.dumps({'pod': POD})}\n\n{row}\n")
    with pytest.raises(UnusableDump, match=r"s\.jsonl, line 3: ") as error:
        read(tmp_path, yaml.safe_dump(scenario))
    assert message in str(error.value)


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(UnusableDump, match=r"no file ends in \.json, \.yaml, \.yml"):
        list(dump.read(tmp_path))
