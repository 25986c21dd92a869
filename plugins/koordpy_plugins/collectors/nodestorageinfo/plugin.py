"""nodestorageinfo: the disks of the node, their partitions, volume groups and mounts, as a fact.

Block I/O QoS finds the disks of pods' volumes with it. Source: Koordinator,
pkg/koordlet/metricsadvisor/collectors/nodestorageinfo, which runs lsblk, vgs, lvs and findmnt.
"""

from datetime import timedelta
from typing import ClassVar

from prometheus_client import Gauge

from koordpy.agent.interface import CollectError, Collector, FlagSet, Handle
from koordpy.agent.interface.facts import NODE_LOCAL_STORAGE_INFO, LocalStorageInfo
from koordpy.agent.interface.gates import BLK_IO_RECONCILE
from koordpy.api.needs import Needs, Privilege, PrivilegeNeed
from koordpy.api.plugin import PluginArgs

from . import devices, mounts

INTERVAL_FLAG = "collect-node-storage-info-interval"

# A gauge, because the name of a counter would end in `_total`.
STATUS = Gauge(
    "koordlet_collect_node_local_storage_info_status",
    "Attempts to read the node's disks and mounts.",
    ["node", "status"],
)


class NodeStorageInfo(Collector):
    """The collector of the node's storage."""

    name: ClassVar[str] = "nodestorageinfo"
    feature: ClassVar[str | None] = BLK_IO_RECONCILE
    interval_flag: ClassVar[str] = INTERVAL_FLAG
    needs: ClassVar[Needs] = Needs(
        privileges=(
            PrivilegeNeed(
                privilege=Privilege.HOST_PID,
                purpose="the mounts of process 1, by which the disks of volumes are found",
                without="the disks of volumes are not known, and the log names the blocks without one",
            ),
        )
    )

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._mountinfo = ""
        self._mounts: dict[str, str] = {}

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the interval."""
        flags.declare(INTERVAL_FLAG, timedelta(seconds=1), "time between two readings of the node's storage")

    def collect(self) -> None:
        """Read devices and mounts. Raises CollectError."""
        handle = self.handle
        try:
            found = devices.read(handle.sys_root)
            mountinfo = (handle.proc_root / "1" / "mountinfo").read_text(errors="replace")
        except OSError as error:
            STATUS.labels(handle.node_name, "failed").inc()
            raise CollectError(f"cannot read the node's storage: {error}") from None
        STATUS.labels(handle.node_name, "succeeded").inc()
        if mountinfo != self._mountinfo:
            self._mountinfo, self._mounts = mountinfo, mounts.parse(mountinfo)
        info = LocalStorageInfo(
            disk_numbers=found.numbers,
            number_disks={number: disk for disk, number in found.numbers.items()},
            partition_disks=found.partitions,
            volume_group_disks=found.groups,
            logical_volume_groups=found.volumes,
            mount_devices=self._mounts,
        )
        if info != handle.metrics.fact(NODE_LOCAL_STORAGE_INFO):
            handle.metrics.set_fact(NODE_LOCAL_STORAGE_INFO, info)
