"""Rounds of CgroupReconcile on a folder that looks like cgroup v2."""

import json
from pathlib import Path
from typing import Any

import pytest

from koordpy.agent.interface import MEMORY_QOS
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.slo.pod_memory_qos import PodMemoryQOSConfig
from koordpy.lib.clock import FakeClock
from koordpy.testing.cluster import cluster
from koordpy.testing.node import PluginOnNode, set_up
from koordpy_plugins.qos.cgreconcile import CgroupReconcile

from ..documents import node, pod, slo

FILES = {
    "memory.min": "0\n",
    "memory.low": "0\n",
    "memory.high": "max\n",
    "memory.oom.group": "0\n",
}
GIB = 1 << 30
CONFIGURED = {"enable": True, "minLimitPercent": 50, "lowLimitPercent": 80, "throttlingPercent": 50}


class Stage:
    """A node with one latency-sensitive pod that requests 2 GiB of its 4 GiB."""

    def __init__(self, root: Path, annotation: str | None = None) -> None:
        annotations = {} if annotation is None else {"koordinator.sh/memoryQOS": annotation}
        self.slo = slo(resourceQOSStrategy={"lsClass": {"memoryQOS": CONFIGURED}})
        self.pod = pod("u1", requests={"memory": "2Gi"}, limits={"memory": "4Gi"}, annotations=annotations)
        self.cluster = cluster(node(), self.slo, self.pod)
        self.on: PluginOnNode[CgroupReconcile] = set_up(CgroupReconcile, self.cluster, "n", root)
        self.kubepods = self.on.cgroup(self.on.handle.layout.kubepods, FILES)
        self.burstable = self.on.cgroup(self.on.handle.layout.qos("Burstable"), FILES)
        self.on.cgroup(self.on.handle.layout.qos("BestEffort"), FILES)
        (meta,) = self.on.handle.states.pods()
        self.pod_folder = self.on.cgroup(meta.cgroup_dir, FILES)
        self.container = self.on.cgroup(
            self.on.handle.layout.container(meta.cgroup_dir, "containerd://u1c"), FILES
        )

    def reconcile(self) -> None:
        self.on.plugin.reconcile()

    def wait(self, seconds: float) -> None:
        clock = self.cluster.clock
        assert isinstance(clock, FakeClock)
        clock.advance(seconds)

    def update(self, kind: type[NodeSLO | Node | Pod], changed: Any) -> None:
        self.cluster.store(kind).apply(changed)


def value(folder: Path, file: str) -> str:
    return (folder / file).read_text().strip()


def test_the_requested_memory_is_protected_in_every_level(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.reconcile()
    for folder in (stage.kubepods, stage.burstable, stage.pod_folder, stage.container):
        assert value(folder, "memory.min") == str(GIB)
        assert value(folder, "memory.low") == str(2 * GIB * 80 // 100)
    assert value(stage.container, "memory.high") == str(3 * GIB)
    assert value(stage.pod_folder, "memory.high") == "max"


def test_disabling_the_class_removes_protection_and_throttling(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.reconcile()
    stage.update(NodeSLO, slo(resourceQOSStrategy={"lsClass": {"memoryQOS": {"enable": False}}}))
    stage.reconcile()
    for folder in (stage.kubepods, stage.burstable, stage.pod_folder, stage.container):
        assert value(folder, "memory.min") == value(folder, "memory.low") == "0"
    assert value(stage.container, "memory.high") in ("max", str(2**63 - 1))


def test_values_that_others_changed_are_restored_within_seconds(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.reconcile()
    (stage.container / "memory.min").write_text("0\n")
    for _ in range(12):
        stage.wait(1)
        stage.reconcile()
    assert value(stage.container, "memory.min") == str(GIB)


def test_nothing_is_written_while_nothing_changes(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.reconcile()
    folders = (stage.kubepods, stage.burstable, stage.pod_folder, stage.container)
    before = [(folder / file).stat().st_mtime_ns for folder in folders for file in FILES]
    for _ in range(70):
        stage.wait(1)
        stage.reconcile()
    assert [(folder / file).stat().st_mtime_ns for folder in folders for file in FILES] == before


@pytest.mark.parametrize(
    ("annotation", "minimum"),
    [
        ('{"policy": "none", "minLimitPercent": 90}', 0),
        ('{"policy": "auto"}', 0),
        ('{"policy": "auto", "minLimitPercent": 25}', GIB // 2),
        ('{"minLimitPercent": 100}', 2 * GIB),
        ('{"minLimitPercent": "all"}', GIB),
        ("not JSON", GIB),
    ],
)
def test_a_pod_overrides_the_settings_of_its_class(tmp_path: Path, annotation: str, minimum: int) -> None:
    stage = Stage(tmp_path, annotation)
    stage.reconcile()
    assert value(stage.pod_folder, "memory.min") == str(minimum)


def test_a_plugin_supplies_settings_for_pods_without_annotation(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    supplied = {"u1": PodMemoryQOSConfig(min_limit_percent=100)}
    stage.on.handle.pod_policies.register(MEMORY_QOS, "third", lambda pod: supplied.get(pod.metadata.uid))
    stage.reconcile()
    assert value(stage.pod_folder, "memory.min") == str(2 * GIB)
    supplied.clear()
    stage.reconcile()
    assert value(stage.pod_folder, "memory.min") == str(GIB)


def test_an_annotation_takes_precedence_over_what_a_plugin_supplies(tmp_path: Path) -> None:
    stage = Stage(tmp_path, json.dumps({"minLimitPercent": 25}))
    stage.on.handle.pod_policies.register(
        MEMORY_QOS, "third", lambda pod: PodMemoryQOSConfig(min_limit_percent=100)
    )
    stage.reconcile()
    assert value(stage.pod_folder, "memory.min") == str(GIB // 2)


def test_inactive_pods_protect_nothing(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.reconcile()
    ended = pod("u2", requests={"memory": "1Gi"})
    ended.status.phase = "Succeeded"
    stage.update(Pod, ended)
    stage.wait(10)
    stage.reconcile()
    assert value(stage.burstable, "memory.min") == str(GIB)


def test_without_a_strategy_nothing_is_touched(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.cluster.store(NodeSLO).discard("n")
    stage.reconcile()
    assert value(stage.kubepods, "memory.min") == "0"
