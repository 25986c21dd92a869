"""The cgroup paths of pods in Kubernetes (pkg/koordlet/util/system: both cgroup drivers).

Paths are relative to the root of a subsystem and have no slash at the end.
"""

import re
from dataclasses import dataclass
from typing import Final

from koordpy.api import qos as qos_classes
from koordpy.api.core import Pod
from koordpy.api.slo.host_application import CgroupPath, HostApplicationSpec

ANNOTATION_MIRROR: Final = "kubernetes.io/config.mirror"
"""On the object by which the API server shows a static pod: the UID that kubelet gave to that pod."""

_NAME: Final = re.compile(r"(?!\.+\Z)[A-Za-z0-9._:-]{1,253}")
"""What the UID of a pod and the id of a container consist of: never a path to somewhere else."""

_SHOWN: Final = 80
_LONGEST_PATH: Final = 1024

_SYSTEMD_SCOPE = {"docker": "docker-", "containerd": "cri-containerd-", "pouch": "pouch-", "cri-o": "crio-"}


@dataclass(frozen=True)
class CgroupLayout:
    """The layout of one cgroup driver: systemd's slices or cgroupfs' plain names."""

    systemd: bool

    @property
    def kubepods(self) -> str:
        """The parent of all pods."""
        return "kubepods.slice" if self.systemd else "kubepods"

    def qos(self, kube_qos: str) -> str:
        """Return the directory of a Kubernetes QoS class; Guaranteed pods are right below the parent."""
        if kube_qos not in ("Burstable", "BestEffort"):
            return self.kubepods
        name = kube_qos.lower()
        return f"{self.kubepods}/kubepods-{name}.slice" if self.systemd else f"{self.kubepods}/{name}"

    def pod(self, pod: Pod) -> str:
        """Return a pod's directory."""
        kube_qos = qos_classes.kube_qos(pod)
        uid = kubelet_uid(pod)
        if not self.systemd:
            return f"{self.qos(kube_qos)}/pod{uid}"
        infix = f"-{kube_qos.lower()}" if kube_qos in ("Burstable", "BestEffort") else ""
        return f"{self.qos(kube_qos)}/kubepods{infix}-pod{uid.replace('-', '_')}.slice"

    def container(self, pod_directory: str, container_id: str) -> str:
        """Return a container's directory from its id, `runtime://id`. Raises ValueError for another form."""
        runtime, mark, identifier = container_id.partition("://")
        if not mark or not identifier:
            raise ValueError(f"container id {container_id[:_SHOWN]!r} is not RUNTIME://ID")
        if not is_name(identifier):
            raise ValueError(f"container id {container_id[:_SHOWN]!r}: expected letters, digits, . _ : -")
        if not self.systemd:
            return f"{pod_directory}/{identifier}"
        prefix = _SYSTEMD_SCOPE.get(runtime)
        if prefix is None:
            known = ", ".join(_SYSTEMD_SCOPE)
            raise ValueError(
                f"container id {container_id[:_SHOWN]!r}: unknown runtime, expected one of {known}"
            )
        return f"{pod_directory}/{prefix}{identifier}.scope"

    def host_application(self, application: HostApplicationSpec) -> str:
        """Return the directory of an entry of NodeSLO `hostApplications`."""
        path, name, qos = application.cgroup_path, application.name, application.qos
        if path is None or path == CgroupPath():
            if qos in ("LSE", "LSR", "LS"):
                return f"host-latency-sensitive/{name}"
            return f"host-best-effort/{name}" if qos == "BE" else name
        bases = {
            "Kubepods": self.kubepods,
            "KubepodsBurstable": self.qos("Burstable"),
            "KubepodsBesteffort": self.qos("BestEffort"),
        }
        parts = [bases.get(path.base, ""), path.parent_dir, path.relative_path]
        return "/".join(part.strip("/") for part in parts if part.strip("/"))


def kubelet_uid(pod: Pod) -> str:
    """Return the UID by which kubelet knows a pod: that of its cgroup, its volumes, its CPUs.

    The API server has another one for static pods. An annotation that is no UID is ignored.
    """
    mirrored = pod.metadata.annotations.get(ANNOTATION_MIRROR)
    return mirrored if mirrored and is_name(mirrored) else pod.metadata.uid


def is_name(text: str) -> bool:
    """Return whether a text can be the name of a cgroup, or a part of it, and is no path."""
    return _NAME.fullmatch(text) is not None


def is_inside(directory: str) -> bool:
    """Return whether a directory is one below the root of a subsystem."""
    return len(directory) <= _LONGEST_PATH and "\0" not in directory and ".." not in directory.split("/")
