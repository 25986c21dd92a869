"""From a scenario to nodes and pods with their times."""

from pathlib import Path
from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.simulation import plan
from koordpy.simulation.planned import Plan

from .scenarios import load

TRACE = """\
id,made,began,gone,milli,mib,gpus,share,model,class
a,0,5,65,1500,1024,1,500,T4|V100,LS
b,10,,40,250,512,0,0,,BE
"""
COLUMNS = {
    "name": "id",
    "arrival": "made",
    "end": ["gone", "began", "made"],
    "requests": {"cpu": "milli*m", "memory": "mib*Mi", "x.io/gpu": "gpus*share"},
    "labels": {"class": "class"},
    "nodeAffinity": {"model": "model"},
}


def planned(folder: Path, **changes: Any) -> Plan:
    return plan.of(load(folder, **changes), folder)


def test_nodes_of_a_group_are_numbered_and_join_one_after_the_other(tmp_path: Path) -> None:
    group = {
        "name": "w",
        "count": 3,
        "joins": "1m",
        "every": "10s",
        "allocatable": {"cpu": 4, "memory": "1Gi"},
    }
    nodes = planned(tmp_path, nodes=[group]).nodes
    assert [(node.name, node.joins) for node in nodes] == [("w-0", 60), ("w-1", 70), ("w-2", 80)]
    assert nodes[0].capacity == (4000, 1 << 30)
    assert nodes[0].document["metadata"]["labels"] == {"kubernetes.io/hostname": "w-0"}
    assert nodes[0].document["status"]["allocatable"]["pods"] == "110"


def test_nodes_come_from_tables(tmp_path: Path) -> None:
    (tmp_path / "nodes.csv").write_text("sn,milli,gpus,model\nn1,2000,2,T4\nn2,500,0,\n")
    columns = {
        "name": "sn",
        "amounts": {"cpu": "milli*m", "x.io/gpu": "gpus*1000"},
        "labels": {"model": "model"},
    }
    nodes = planned(tmp_path, nodes=[{"table": "nodes.csv", "columns": columns}]).nodes
    assert nodes[0].document["status"]["allocatable"] == {"pods": "110", "cpu": "2", "x.io/gpu": "2000"}
    assert nodes[0].document["metadata"]["labels"]["model"] == "T4"
    assert "x.io/gpu" not in nodes[1].document["status"]["allocatable"]
    assert "model" not in nodes[1].document["metadata"]["labels"]


def test_a_node_that_is_there_twice_is_refused(tmp_path: Path) -> None:
    group = {"name": "w", "allocatable": {"cpu": 1}}
    with pytest.raises(ConfigError, match="several nodes 'w'"):
        planned(tmp_path, nodes=[group, group])


def test_pods_of_a_trace_have_its_times_requests_labels_and_nodes(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(TRACE)
    workload = {"name": "t", "trace": {"file": "pods.csv", "columns": COLUMNS, "namespace": "trace"}}
    one, two = planned(tmp_path, workloads=[workload]).pods
    assert (one.arrival, one.duration) == (0, 60)
    assert (two.arrival, two.duration) == (10, 30)
    [container] = one.document["spec"]["containers"]
    requests = {"cpu": "1500m", "memory": str(1 << 30), "x.io/gpu": "500"}
    assert container["resources"] == {"requests": requests, "limits": {"x.io/gpu": "500"}}
    assert one.document["metadata"] == {"name": "a", "namespace": "trace", "labels": {"class": "LS"}}
    required = one.document["spec"]["affinity"]["nodeAffinity"][
        "requiredDuringSchedulingIgnoredDuringExecution"
    ]
    [term] = required["nodeSelectorTerms"]
    assert term["matchExpressions"] == [{"key": "model", "operator": "In", "values": ["T4", "V100"]}]
    assert "affinity" not in two.document["spec"]
    assert one.base == (750, 0.6 * (1 << 30))


def test_a_limit_takes_the_first_rows_of_a_trace(tmp_path: Path) -> None:
    (tmp_path / "pods.csv").write_text(TRACE)
    workload = {"name": "t", "trace": {"file": "pods.csv", "columns": COLUMNS, "limit": 1}}
    assert [pod.document["metadata"]["name"] for pod in planned(tmp_path, workloads=[workload]).pods] == ["a"]


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ("a,0,9,5,1,1,0,0,,LS", "the pod ends before it begins"),
        ("a,x,5,65,1,1,0,0,,LS", "made: got 'x', expected seconds"),
        ("a,0,5,65,lots,1,0,0,,LS", "milli: got 'lots', expected a number"),
    ],
)
def test_an_invalid_row_is_reported_by_file_and_line(tmp_path: Path, row: str, expected: str) -> None:
    (tmp_path / "pods.csv").write_text(TRACE.splitlines()[0] + "\n" + row + "\n")
    with pytest.raises(ConfigError) as told:
        planned(tmp_path, workloads=[{"name": "t", "trace": {"file": "pods.csv", "columns": COLUMNS}}])
    assert "workloads[0]" in str(told.value)
    assert "pods.csv:2" in str(told.value)
    assert expected in str(told.value)


def test_a_recorded_pod_is_whole_and_has_its_usage(tmp_path: Path) -> None:
    (tmp_path / "pods.jsonl").write_text(
        '{"pod": {"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}, '
        '"arrival": 5, "duration": null, "usage": {"cpu": [[0, 700], [60, 100]]}}\n'
    )
    scenario = {"workloads": [{"name": "t", "trace": {"file": "pods.jsonl"}}], "duration": "1h"}
    [pod] = planned(tmp_path, **scenario).pods
    assert pod.document["metadata"] == {"name": "p", "namespace": "default"}
    assert (pod.arrival, pod.duration) == (5, None)
    assert pod.base[0] == 1
    assert [(step.at, step.value) for step in pod.curves[0].steps] == [(0, 700), (60, 100)]


def test_random_arrivals_and_durations_depend_on_the_seed_alone(tmp_path: Path) -> None:
    pods = {
        "count": 50,
        "arrivals": {"every": "10s", "random": True},
        "duration": "1m",
        "spread": 0.5,
        "requests": {"cpu": 1},
    }

    def times(seed: int, *others: dict[str, Any]) -> list[tuple[float, float | None]]:
        made = planned(tmp_path, seed=seed, workloads=[*others, {"name": "w", "pods": pods}]).pods
        return [(pod.arrival, pod.duration) for pod in made if pod.workload == "w"]

    assert times(1) == times(1, {"name": "other", "pods": pods})
    assert times(1) != times(2)
    assert all(30 <= duration <= 90 for _, duration in times(1) if duration is not None)


def test_pods_without_an_end_need_a_duration_of_the_scenario(tmp_path: Path) -> None:
    workload = {"name": "w", "pods": {"count": 1, "requests": {"cpu": 1}}}
    with pytest.raises(ConfigError, match="pods of workload 'w' run for ever"):
        planned(tmp_path, workloads=[workload])
    assert len(planned(tmp_path, workloads=[workload], duration="1h").pods) == 1


def test_a_pod_that_is_none_is_refused(tmp_path: Path) -> None:
    template = {"spec": {"containers": [{"name": "c", "resources": {"requests": {"cpu": "much"}}}]}}
    with pytest.raises(ConfigError, match="workloads"):
        planned(
            tmp_path, workloads=[{"name": "w", "pods": {"count": 1, "duration": "1m", "template": template}}]
        )


def gangs(name: str, size: int, **more: Any) -> dict[str, Any]:
    pods = {"count": 2 * size, "arrivals": {"every": "1m"}, "duration": "1m", "requests": {"cpu": 1}}
    return {"name": name, "namespace": "ml", "pods": {**pods, "gang": {"size": size, "group": "job", **more}}}


def test_pods_of_a_workload_form_gangs_in_groups(tmp_path: Path) -> None:
    found = planned(tmp_path, workloads=[gangs("ps", 1), gangs("worker", 2, min=1, every="5s")])
    by_name = {pod.document["metadata"]["name"]: pod for pod in found.pods}
    assert [pod.gang for pod in by_name.values()] == [
        "ml/ps-0", "ml/worker-0", "ml/worker-0", "ml/ps-1", "ml/worker-1", "ml/worker-1"
    ]  # fmt: skip
    assert [by_name[f"worker-{index}"].arrival for index in range(4)] == [0.0, 5.0, 60.0, 65.0]
    assert by_name["worker-3"].gang_minimum == 1
    notes = by_name["worker-3"].document["metadata"]["annotations"]
    assert notes["gang.scheduling.koordinator.sh/groups"] == '["ml/ps-1", "ml/worker-1"]'
    assert notes["gang.scheduling.koordinator.sh/total-number"] == "2"


@pytest.mark.parametrize(
    ("workloads", "told"),
    [
        ([gangs("a", 1), {**gangs("b", 2), "pods": {**gangs("b", 2)["pods"], "count": 2}}], "has 1 gang,"),
        ([{**gangs("a", 2), "pods": {**gangs("a", 2)["pods"], "count": 3}}], "a multiple of gang.size, 2"),
        ([gangs("a", 2, min=3)], "at most the size, 2"),
    ],
)
def test_gangs_that_cannot_be_are_refused(tmp_path: Path, workloads: list[dict[str, Any]], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        load(tmp_path, workloads=workloads)
