"""Which disk a configured block is on. Disks are written to cgroup files by number, `MAJOR:MINOR`."""

from collections.abc import Callable
from dataclasses import dataclass

from koordpy.agent.interface import PodMeta, kubelet_uid
from koordpy.agent.interface.facts import LocalStorageInfo
from koordpy.api.slo.resource_qos import BlockCfg


class TargetError(ValueError):
    """Nothing may be written for a target; the message names the block or the file, and why."""


@dataclass(frozen=True)
class Disks:
    """Finds the disk of a block."""

    storage: LocalStorageInfo
    volume_of_claim: Callable[[str, str], str]
    """Returns the volume of a claim (namespace, name); "" if it has none."""
    kubelet_root: str

    def number(self, block: BlockCfg, pod: PodMeta | None) -> str:
        """Return the number of a block's disk. Raises TargetError."""
        if block.type == "device":
            number = self._of_device(block.name)
        elif block.type == "volumegroup":
            number = self._of_group(block.name)
        elif block.type == "podvolume":
            number = self._of_pod_volume(block.name, pod)
        else:
            raise TargetError(
                f"block {block.name!r}: type {block.type!r}, expected device, volumegroup or podvolume"
            )
        if not number:
            raise TargetError(f"block {block.name!r} of type {block.type}: its disk is not known")
        return number

    def _of_device(self, device: str) -> str | None:
        storage = self.storage
        disk = device if device in storage.disk_numbers else storage.partition_disks.get(device, "")
        return storage.disk_numbers.get(disk)

    def _of_group(self, name: str) -> str | None:
        return self.storage.disk_numbers.get(self.storage.volume_group_disks.get(name, ""))

    def _of_mount(self, mount_point: str) -> str | None:
        """A whole disk, a partition or a logical volume may be mounted."""
        storage = self.storage
        device = storage.mount_devices.get(mount_point, "")
        if device in storage.disk_numbers or device in storage.partition_disks:
            return self._of_device(device)
        group = storage.logical_volume_groups.get(device)
        return self._of_group(group) if group is not None else None

    def _of_pod_volume(self, name: str, pod: PodMeta | None) -> str | None:
        if pod is None:
            raise TargetError(f"block {name!r}: type podvolume is only for pods")
        number = None
        for volume in pod.pod.spec.volumes:
            if volume.name != name:
                continue
            claim = volume.persistent_volume_claim
            names = [self.volume_of_claim(pod.pod.metadata.namespace, claim.claim_name)] if claim else []
            for found in names + ([volume.name] if volume.csi is not None else []):
                number = self._of_mount(self._mount_point(kubelet_uid(pod.pod), found))
                if not number:
                    raise TargetError(f"block {name!r}: the disk of volume {found!r} is not known")
        return number

    def _mount_point(self, uid: str, volume: str) -> str:
        parts = (self.kubelet_root, "pods", uid, "volumes/kubernetes.io~csi", volume, "mount")
        return "/".join(part for part in parts if part)
