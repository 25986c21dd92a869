"""Rounds of ResctrlReconcile on a folder that looks like a resctrl file system."""

from pathlib import Path
from typing import Any

import pytest

from koordpy.agent.cgroups.table import Version
from koordpy.api.koordinator import NodeSLO
from koordpy.api.plugin import NoArgs
from koordpy.testing.cluster import cluster
from koordpy.testing.node import set_up
from koordpy_plugins.qos.resctrl import ResctrlReconcile

from ..documents import node, pod, slo

CPU_INFO = "processor\t: 0\nvendor_id\t: {}\nflags\t\t: fpu {} sse\n\nprocessor\t: 1\n"
ROOT_SCHEMATA = "    L3:0=7ff;1=7ff\n    MB:0=100;1=100\n"
CLASSES = {
    "lsrClass": {"resctrlQOS": {"enable": True}},
    "lsClass": {"resctrlQOS": {"enable": True}},
    "beClass": {
        "resctrlQOS": {"enable": True, "catRangeStartPercent": 0, "catRangeEndPercent": 30, "mbaPercent": 42}
    },
}


class Stage:
    """A node whose kernel makes the files of a new group; mounting makes the root's."""

    def __init__(self, folder: Path, strategy: dict[str, Any], *, mounted: bool = True) -> None:
        self.proc, self.root = folder / "proc", folder / "sys" / "fs" / "resctrl"
        self.proc.mkdir()
        self.root.mkdir(parents=True)
        (self.proc / "cpuinfo").write_text(CPU_INFO.format("GenuineIntel", "cat_l3 mba"))
        self.mounts = 0
        if mounted:
            self.mount(self.root)
        self.cluster = cluster(
            node(), slo(resourceQOSStrategy=strategy), pod("u1", "BE"), pod("u2", "LS"), pod("u3", "SYSTEM")
        )
        self.on = set_up(
            ResctrlReconcile,
            self.cluster,
            "n",
            folder / "cgroup",
            proc_root=self.proc,
            sys_root=folder / "sys",
            version=Version.V2,
        )
        self.plugin = ResctrlReconcile(NoArgs(), self.on.handle, mount=self.mount)
        for meta in self.on.handle.states.pods():
            uid = meta.pod.metadata.uid
            directory = self.on.handle.layout.container(meta.cgroup_dir, f"containerd://{uid}c")
            self.on.cgroup(directory, {"cgroup.threads": f"{uid[1:]}01\n{uid[1:]}00\n"})

    def mount(self, root: Path) -> None:
        self.mounts += 1
        (root / "info" / "L3").mkdir(parents=True)
        (root / "info" / "L3" / "cbm_mask").write_text("7ff\n")
        for group in (root, *(root / name for name in ("LSR", "LS", "BE"))):
            group.mkdir(exist_ok=True)
            (group / "schemata").write_text(ROOT_SCHEMATA)
            (group / "tasks").write_text("")

    def threads_moved(self, group: str, thread: int) -> bool:
        return str(thread) in (self.root / group / "tasks").read_text()

    def schemata(self, group: str) -> str:
        return (self.root / group / "schemata").read_text()


def test_each_class_gets_its_cache_ways_and_bandwidth(tmp_path: Path) -> None:
    stage = Stage(tmp_path, CLASSES)
    stage.plugin.reconcile()
    assert stage.schemata("BE").strip() == "MB:0=50;1=50"  # a folder keeps the last line alone
    assert stage.schemata("LS") == ROOT_SCHEMATA


def test_threads_of_enabled_classes_join_their_group(tmp_path: Path) -> None:
    stage = Stage(tmp_path, CLASSES)
    stage.plugin.reconcile()
    assert "100" in (stage.root / "BE" / "tasks").read_text()
    assert "200" in (stage.root / "LS" / "tasks").read_text()
    assert (stage.root / "LSR" / "tasks").read_text() == ""


def test_threads_of_disabled_classes_stay_where_they_are(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"beClass": {"resctrlQOS": {"enable": False}}})
    stage.plugin.reconcile()
    assert (stage.root / "BE" / "tasks").read_text() == ""


def test_the_file_system_is_mounted_once(tmp_path: Path) -> None:
    stage = Stage(tmp_path, CLASSES, mounted=False)
    stage.plugin.reconcile()
    stage.plugin.reconcile()
    assert stage.mounts == 1
    assert stage.plugin.files.cache_ids() == (0, 1)


def test_a_failed_mount_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    stage = Stage(tmp_path, CLASSES, mounted=False)

    def refuse(root: Path) -> None:
        raise PermissionError(1, "Operation not permitted", str(root))

    plugin = ResctrlReconcile(NoArgs(), stage.on.handle, mount=refuse)
    plugin.reconcile()
    plugin.reconcile()
    assert caplog.text.count("Operation not permitted") == 1


def test_without_a_strategy_nothing_is_mounted(tmp_path: Path) -> None:
    stage = Stage(tmp_path, CLASSES, mounted=False)
    stage.cluster.store(NodeSLO).discard("n")
    stage.plugin.reconcile()
    assert stage.mounts == 0


def test_processors_that_cannot_allocate_are_the_reason_to_be_off(tmp_path: Path) -> None:
    stage = Stage(tmp_path, CLASSES)
    assert stage.plugin.refusal() is None
    (stage.proc / "cpuinfo").write_text(CPU_INFO.format("GenuineIntel", "cat_l3"))
    assert stage.plugin.refusal() == "the processors cannot allocate cache and memory bandwidth"
    (stage.proc / "cpuinfo").unlink()
    assert "the processors are not known" in (stage.plugin.refusal() or "")


def test_threads_of_the_sandbox_join_the_group_too(tmp_path: Path) -> None:
    stage = Stage(tmp_path, CLASSES)
    (meta,) = (meta for meta in stage.on.handle.states.pods() if meta.pod.metadata.uid == "u1")
    stage.on.cgroup(f"{meta.cgroup_dir}/cri-containerd-pause.scope", {"cgroup.threads": "77\n"})
    stage.plugin.reconcile()
    stage.plugin.reconcile()
    assert stage.threads_moved("BE", 77)
