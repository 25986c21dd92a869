"""The columns of free GPUs that plugins score by."""

import json
from collections.abc import Mapping
from typing import Any

import pytest

from koordpy.api import device_allocations
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib import int64
from koordpy_plugins.scheduling.deviceshare.state.free_gpus import FreeGPUs
from koordpy_plugins.scheduling.deviceshare.state.ledger import DeviceLedger

from ..nodes import WHOLE, device, gpu

ALLOCATED = "scheduling.koordinator.sh/device-allocated"
MODEL = "node.koordinator.sh/gpu-model"
Share = tuple[int, int]
"""Percent of the cores and of the memory of a GPU."""


def put_node(cluster: Cluster, name: str, gpus: int = 0, model: str = "", **changes: Any) -> None:
    labels = {MODEL: model} if model else {}
    document = {
        "metadata": {"name": name, "uid": name, "labels": labels},
        "status": {"allocatable": {"cpu": "8", "pods": "110"}},
    }
    cluster.store(Node).apply(decode(Node, document))
    if gpus:
        cluster.store(Device).apply(device([gpu(minor, **changes) for minor in range(gpus)], name=name))


def bound(name: str, to: str, shares: Mapping[int, Share] | None = None, cpu: str = "1") -> Pod:
    """A pod on a node with shares of GPUs, by minor."""
    listed = [
        {
            "minor": minor,
            "resources": {
                "koordinator.sh/gpu-core": str(core),
                "koordinator.sh/gpu-memory-ratio": str(ratio),
            },
        }
        for minor, (core, ratio) in (shares or {}).items()
    ]
    return decode(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": "x",
                "uid": name,
                "annotations": {ALLOCATED: json.dumps({"gpu": listed})} if shares else {},
            },
            "spec": {"nodeName": to, "containers": [{"name": "c", "resources": {"requests": {"cpu": cpu}}}]},
        },
    )


def seen(cluster: Cluster, name: str) -> dict[str, Any]:
    """What the columns say of a node."""
    columns, row = cluster.shared(FreeGPUs).columns(), cluster.nodes.row_of(name)
    model = int(columns.model[row])
    return {
        "cpu": int(columns.cpu_free[row]),
        "free": columns.free[row].tolist(),
        "pods": columns.pods[row].tolist(),
        "model": None if model < 0 else columns.models[model],
    }


def generations(cluster: Cluster, *names: str) -> list[int]:
    columns = cluster.shared(FreeGPUs).columns()
    return [int(columns.generation[cluster.nodes.row_of(name)]) for name in names]


def test_the_smaller_rest_of_cores_and_memory_is_free() -> None:
    cluster = Cluster()
    put_node(cluster, "n", gpus=3)
    for pod in (bound("a", "n", {0: (30, 20)}), bound("b", "n", {1: (10, 45)})):
        cluster.store(Pod).apply(pod)
    assert seen(cluster, "n")["free"] == [700, 550, 1000]


def test_pods_are_counted_by_the_gpus_that_they_have() -> None:
    cluster = Cluster()
    put_node(cluster, "n", gpus=4)
    whole, half = (100, 100), (50, 50)
    for pod in (
        bound("shares", "n", {0: half}),
        bound("too", "n", {0: half}),
        bound("one", "n", {1: whole}),
        bound("two", "n", {2: whole, 3: whole}),
        bound("none", "n"),
    ):
        cluster.store(Pod).apply(pod)
    assert seen(cluster, "n") == {
        "cpu": 3000,
        "free": [0, 0, 0, 0],
        "pods": [2, 1, 1, 0, 0],
        "model": None,
    }


def test_what_is_no_healthy_gpu_is_none() -> None:
    cluster = Cluster()
    put_node(cluster, "plain", model="T4")
    put_node(cluster, "n", model="T4")
    cluster.store(Device).apply(
        device([gpu(0, health=False), gpu(1), {**gpu(2), "type": "fpga"}, gpu(32)], name="n")
    )
    cluster.store(Pod).apply(bound("a", "n", {3: (10, 10)}))
    assert seen(cluster, "n")["free"] == [-1, 1000]
    assert seen(cluster, "plain") == {"cpu": 8000, "free": [-1, -1], "pods": [0, 0, 0], "model": None}


def test_gpus_that_become_unhealthy_or_unknown_are_none() -> None:
    cluster = Cluster()
    put_node(cluster, "n", gpus=2)
    assert seen(cluster, "n")["free"] == [1000, 1000]
    cluster.store(Device).apply(device([gpu(0, health=False), gpu(1)], name="n"))
    assert seen(cluster, "n")["free"] == [-1, 1000]
    cluster.store(Device).discard("n")
    assert seen(cluster, "n")["free"] == [-1, -1]


def test_allocations_count_before_an_object_shows_them() -> None:
    cluster = Cluster()
    put_node(cluster, "n", gpus=1)
    ledger = cluster.shared(DeviceLedger)
    shares = device_allocations.of(bound("a", "n", {0: (40, 40)}).metadata.annotations)
    ledger.reserve("n", "x/a", shares)
    assert seen(cluster, "n")["free"] == [600]
    ledger.release("n", "x/a")
    assert seen(cluster, "n")["free"] == [1000]


def test_free_cpu_follows_assumed_pods_and_the_node() -> None:
    cluster = Cluster()
    put_node(cluster, "n")
    waiting = bound("a", "", cpu="2500m")
    cluster.nodes.assume(waiting, "n")
    assert seen(cluster, "n")["cpu"] == 5500
    cluster.nodes.forget("a")
    assert seen(cluster, "n")["cpu"] == 8000
    cluster.store(Pod).apply(bound("b", "n", cpu="9"))
    assert seen(cluster, "n")["cpu"] == -1000


def test_the_model_is_that_of_the_nodes_label() -> None:
    cluster = Cluster()
    put_node(cluster, "a", gpus=1, model="T4")
    put_node(cluster, "b", gpus=1, model="A10")
    assert [seen(cluster, name)["model"] for name in "ab"] == ["T4", "A10"]
    put_node(cluster, "a", model="A10")
    assert [seen(cluster, name)["model"] for name in "ab"] == ["A10", "A10"]


def test_only_rows_that_changed_have_another_generation() -> None:
    cluster = Cluster()
    for name in "abc":
        put_node(cluster, name, gpus=2)
    before = generations(cluster, *"abc")
    assert len(set(before)) == 3
    cluster.store(Pod).apply(bound("p", "b", {1: (10, 10)}))
    after = generations(cluster, *"abc")
    assert [new != old for new, old in zip(after, before, strict=True)] == [False, True, False]
    cluster.store(Pod).apply(bound("q", "c"))
    assert generations(cluster, "a", "b") == after[:2]
    assert generations(cluster, "c") != after[2:]


def test_a_row_that_is_used_again_has_a_generation_of_its_own() -> None:
    cluster = Cluster()
    put_node(cluster, "old", gpus=1)
    known = generations(cluster, "old")
    row = cluster.nodes.row_of("old")
    cluster.store(Device).replace(())
    cluster.store(Node).replace(())
    put_node(cluster, "new")
    assert cluster.nodes.row_of("new") == row
    assert generations(cluster, "new") != known
    assert seen(cluster, "new")["free"] == [-1]


def test_columns_grow_with_the_table_and_the_minors() -> None:
    cluster = Cluster()
    put_node(cluster, "first", gpus=1)
    columns = cluster.shared(FreeGPUs).columns()
    assert columns.free.shape == (64, 1)
    for number in range(100):
        put_node(cluster, f"n{number}", gpus=8)
    assert cluster.shared(FreeGPUs).columns() is columns
    assert columns.free.shape == (cluster.nodes.capacity, 8)
    assert columns.pods.shape == (cluster.nodes.capacity, 9)
    assert seen(cluster, "first")["free"] == [1000] + [-1] * 7


@pytest.mark.parametrize(
    ("sizes", "expected"),
    [([], None), (["16Gi"], 16 << 30), (["16Gi", "16Gi"], 16 << 30), (["16Gi", "32Gi"], None)],
)
def test_the_memory_of_gpus_is_known_where_all_have_the_same(sizes: list[str], expected: int | None) -> None:
    cluster = Cluster()
    put_node(cluster, "plain")
    for number, size in enumerate(sizes):
        resources = WHOLE | {"koordinator.sh/gpu-memory": size}
        put_node(cluster, f"n{number}", gpus=2, resources=resources)
    assert cluster.shared(FreeGPUs).memory() == expected


def test_the_common_memory_follows_nodes_and_devices() -> None:
    cluster = Cluster()
    small, large = WHOLE, WHOLE | {"koordinator.sh/gpu-memory": "32Gi"}
    gpus = cluster.shared(FreeGPUs)
    put_node(cluster, "a", gpus=1, resources=small)
    assert gpus.memory() == 16 << 30
    put_node(cluster, "b", gpus=1, resources=large)
    assert gpus.memory() is None
    cluster.store(Node).discard("a")
    assert gpus.memory() == 32 << 30
    cluster.store(Device).apply(device([gpu(0, resources=small)], name="b"))
    assert gpus.memory() == 16 << 30


def test_gpus_of_one_node_may_differ_in_memory() -> None:
    cluster = Cluster()
    put_node(cluster, "n")
    other = WHOLE | {"koordinator.sh/gpu-memory": "32Gi"}
    cluster.store(Device).apply(device([gpu(0), gpu(1, resources=other)], name="n"))
    assert cluster.shared(FreeGPUs).memory() is None


def test_more_gpus_than_there_are_columns_count_as_these() -> None:
    cluster = Cluster()
    put_node(cluster, "n", gpus=40)
    cluster.store(Pod).apply(bound("a", "n", dict.fromkeys(range(40), (100, 100))))
    assert seen(cluster, "n")["free"] == [0] * 32
    assert seen(cluster, "n")["pods"] == [0] * 32 + [1]


def test_nodes_are_worked_off_in_parts() -> None:
    cluster = Cluster()
    gpus = cluster.shared(FreeGPUs)
    for name in ("a", "b", "c"):
        put_node(cluster, name, 2)
    assert [gpus.refresh_some(1) for _ in range(3)] == [True, True, False]
    assert not gpus.refresh_some(0)
    put_node(cluster, "b", 3)
    assert gpus.refresh_some(0)


def test_requests_beyond_64_bits_leave_a_number() -> None:
    cluster = Cluster()
    put_node(cluster, "n", 1)
    half = str(2**62 // 1000 + 1)  # cores; whoever names the node in the spec may ask for them
    for name in ("a", "b"):
        cluster.store(Pod).apply(bound(name, "n", cpu=half))
    columns = cluster.shared(FreeGPUs).columns()
    assert columns.cpu_free[cluster.nodes.row_of("n")] == int64.wrap(8000 - 2 * 1000 * int(half))
