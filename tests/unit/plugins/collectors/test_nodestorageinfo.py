"""Disks and mounts of a made-up node."""

from pathlib import Path

import pytest

from koordpy.agent.interface import CollectError
from koordpy.agent.interface.facts import NODE_LOCAL_STORAGE_INFO, LocalStorageInfo
from koordpy.testing.cluster import cluster
from koordpy.testing.node import PluginOnNode, set_up
from koordpy.testing.objects import node
from koordpy_plugins.collectors.nodestorageinfo import NodeStorageInfo

VOLUME = "/var/lib/kubelet/pods/u1/volumes/kubernetes.io~csi/pv1/mount"
MOUNTINFO = f"""\
22 1 253:1 / / rw,relatime shared:1 - ext4 /dev/vda1 rw
30 22 0:5 / /proc rw - proc proc rw
40 22 252:0 / {VOLUME} rw shared:5 master:1 - xfs /dev/mapper/pool--a-data rw
41 22 253:1 /some/folder /bound rw - ext4 /dev/vda1 rw
42 22 253:16 / /with\\040space rw - ext4 /dev/vdb rw
broken
"""


class Stage:
    """Two disks, one with a partition; a volume group on the partition of a third one."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.file("proc/1/mountinfo", MOUNTINFO)
        for name, number in (("vda", "253:0"), ("vdb", "253:16"), ("nvme0n1", "259:0"), ("loop0", "7:0")):
            self.file(f"sys/block/{name}/dev", number)
        self.file("sys/block/vda/vda1/partition", "1")
        self.file("sys/block/nvme0n1/nvme0n1p1/partition", "1")
        self.file("sys/block/sr0/dev", "11:0")
        self.file("sys/block/sr0/device/type", "5")
        self.mapped("dm-0", "pool--a-data", "LVM-x", "nvme0n1p1")
        self.mapped("dm-1", "secret", "CRYPT-LUKS2-x", "vdb")

    def file(self, name: str, text: str) -> None:
        (self.root / name).parent.mkdir(parents=True, exist_ok=True)
        (self.root / name).write_text(text + "\n")

    def mapped(self, device: str, name: str, uuid: str, *slaves: str) -> None:
        self.file(f"sys/block/{device}/dm/name", name)
        self.file(f"sys/block/{device}/dm/uuid", uuid)
        for slave in slaves:
            (self.root / f"sys/block/{device}/slaves/{slave}").mkdir(parents=True)

    def plugin(self) -> PluginOnNode[NodeStorageInfo]:
        return set_up(
            NodeStorageInfo,
            cluster(node("n")),
            "n",
            self.root / "cgroup",
            proc_root=self.root / "proc",
            sys_root=self.root / "sys",
        )

    def info(self) -> LocalStorageInfo:
        on = self.plugin()
        on.plugin.collect()
        found = on.handle.metrics.fact(NODE_LOCAL_STORAGE_INFO)
        assert found is not None
        return found


def test_disks_partitions_groups_and_mounts_are_found(tmp_path: Path) -> None:
    info = Stage(tmp_path).info()
    assert info.disk_numbers == {"/dev/nvme0n1": "259:0", "/dev/vda": "253:0", "/dev/vdb": "253:16"}
    assert info.number_disks["253:16"] == "/dev/vdb"
    assert info.partition_disks == {"/dev/vda1": "/dev/vda", "/dev/nvme0n1p1": "/dev/nvme0n1"}
    assert info.logical_volume_groups == {"/dev/mapper/pool--a-data": "pool-a"}
    assert info.volume_group_disks == {"pool-a": "/dev/nvme0n1"}
    assert info.mount_devices == {
        "/": "/dev/vda1",
        VOLUME: "/dev/mapper/pool--a-data",
        "/with space": "/dev/vdb",
    }


def test_a_group_on_several_disks_has_none(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.mapped("dm-2", "pool--a-logs", "LVM-y", "vdb")
    assert stage.info().volume_group_disks == {}


def test_volumes_on_encrypted_disks_are_followed_to_the_disk(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.mapped("dm-2", "safe-data", "LVM-y", "dm-1")
    assert stage.info().volume_group_disks["safe"] == "/dev/vdb"


def test_an_unreadable_file_is_named(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    (tmp_path / "proc/1/mountinfo").unlink()
    with pytest.raises(CollectError, match="mountinfo"):
        stage.plugin().plugin.collect()
