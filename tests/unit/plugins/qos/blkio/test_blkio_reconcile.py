"""Rounds of BlkioReconcile on a folder that looks like cgroup v1."""

import json
from pathlib import Path
from typing import Any

import pytest

from koordpy.agent.cgroups.table import Version
from koordpy.agent.interface.facts import NODE_LOCAL_STORAGE_INFO, LocalStorageInfo
from koordpy.api.core import PersistentVolumeClaim, Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.scheme import decode
from koordpy.testing.cluster import cluster
from koordpy.testing.node import set_up
from koordpy_plugins.qos.blkio import BlkioReconcile

from ..documents import node, pod, slo

LIMITS = (
    "blkio.throttle.read_iops_device",
    "blkio.throttle.read_bps_device",
    "blkio.throttle.write_iops_device",
    "blkio.throttle.write_bps_device",
    "blkio.cost.weight",
)
STORAGE = LocalStorageInfo(
    disk_numbers={"/dev/vda": "253:0", "/dev/vdb": "253:16"},
    partition_disks={"/dev/vda1": "/dev/vda"},
    volume_group_disks={"pool": "/dev/vdb"},
    logical_volume_groups={"/dev/mapper/pool-a": "pool"},
    mount_devices={
        "/var/lib/kubelet/pods/u1/volumes/kubernetes.io~csi/pv1/mount": "/dev/mapper/pool-a",
    },
)


class Stage:
    def __init__(self, root: Path, strategy: dict[str, Any], *pods: Pod) -> None:
        claim = decode(
            PersistentVolumeClaim,
            {"metadata": {"namespace": "d", "name": "data"}, "spec": {"volumeName": "pv1"}},
        )
        self.cluster = cluster(node(), slo(resourceQOSStrategy=strategy), claim, *pods)
        self.on = set_up(
            BlkioReconcile, self.cluster, "n", root, gates={"BlkIOReconcile": True}, version=Version.V1
        )
        self.on.handle.metrics.set_fact(NODE_LOCAL_STORAGE_INFO, STORAGE)
        self.root = root / "blkio"
        self.make("", "blkio.cost.qos", "blkio.cost.model")
        self.make(self.on.handle.layout.kubepods, *LIMITS)
        self.best_effort = self.on.handle.layout.qos("BestEffort")
        self.make(self.best_effort, *LIMITS)
        for meta in self.on.handle.states.pods():
            self.make(meta.cgroup_dir, *LIMITS)

    def make(self, directory: str, *files: str) -> None:
        (self.root / directory).mkdir(parents=True, exist_ok=True)
        for file in files:
            (self.root / directory / file).write_text("")

    def text(self, directory: str, file: str) -> str:
        return (self.root / directory / file).read_text().strip()

    def reconcile(self) -> None:
        self.on.plugin.reconcile()


def blocks(*found: dict[str, Any]) -> dict[str, Any]:
    return {"blkioQOS": {"enable": True, "blocks": list(found)}}


def test_best_effort_pods_are_limited_on_a_partitions_disk(tmp_path: Path) -> None:
    block = {"name": "/dev/vda1", "type": "device", "ioCfg": {"readIOPS": 2048, "ioWeightPercent": 60}}
    stage = Stage(tmp_path, {"beClass": blocks(block)})
    stage.reconcile()
    assert stage.text(stage.best_effort, LIMITS[0]) == "253:0 2048"
    assert stage.text(stage.best_effort, LIMITS[4]) == "253:0 60"


def test_what_is_no_longer_configured_is_removed(tmp_path: Path) -> None:
    block = {"name": "/dev/vda", "type": "device", "ioCfg": {"readIOPS": 2048}}
    stage = Stage(tmp_path, {"beClass": blocks(block)})
    stage.reconcile()
    stage.cluster.store(NodeSLO).apply(slo(resourceQOSStrategy={"beClass": {"blkioQOS": {"enable": False}}}))
    stage.reconcile()
    assert stage.text(stage.best_effort, LIMITS[0]) == "253:0 0"


def test_the_root_gets_latency_targets_and_a_model(tmp_path: Path) -> None:
    block = {"name": "pool", "type": "volumegroup", "ioCfg": {"readLatency": 4000}}
    stage = Stage(tmp_path, {"cgroupRoot": blocks(block)})
    stage.reconcile()
    expected = "253:16 enable=1 ctrl=user rpct=95 rlat=4000 wpct=95 wlat=3000"
    assert stage.text("", "blkio.cost.qos") == expected
    assert stage.text("", "blkio.cost.model") == "253:16 ctrl=auto"


def test_a_pod_is_limited_on_the_disk_of_its_volume(tmp_path: Path) -> None:
    block = {"name": "data", "type": "podvolume", "ioCfg": {"writeBPS": 1048576}}
    annotated = pod(
        "u1",
        annotations={"koordinator.sh/blkioQOS": json.dumps({"blocks": [block]})},
        volumes=[{"name": "data", "persistentVolumeClaim": {"claimName": "data"}}],
    )
    stage = Stage(tmp_path, {}, annotated)
    stage.reconcile()
    (meta,) = stage.on.handle.states.pods()
    assert stage.text(meta.cgroup_dir, LIMITS[3]) == "253:16 1048576"


def test_an_unknown_disk_leaves_the_whole_directory_alone_and_is_reported_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    known = {"name": "/dev/vda", "type": "device", "ioCfg": {"readIOPS": 2048}}
    stage = Stage(tmp_path, {"beClass": blocks(known, {"name": "/dev/vdz", "type": "device"})})
    stage.reconcile()
    stage.reconcile()
    assert stage.text(stage.best_effort, LIMITS[0]) == ""
    assert caplog.text.count("block '/dev/vdz' of type device: its disk is not known") == 1


def test_blocks_of_other_classes_are_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(tmp_path, {"lsClass": blocks({"name": "/dev/vda", "type": "device"})})
    stage.reconcile()
    stage.reconcile()
    assert caplog.text.count("blocks of lsClass have no effect") == 1


def test_nothing_happens_before_the_disks_are_known(tmp_path: Path) -> None:
    block = {"name": "/dev/vda", "type": "device", "ioCfg": {"readIOPS": 2048}}
    stage = Stage(tmp_path, {"beClass": blocks(block)})
    stage.on.handle.metrics.set_fact(NODE_LOCAL_STORAGE_INFO, LocalStorageInfo())
    stage.reconcile()
    assert stage.text(stage.best_effort, LIMITS[0]) == ""
