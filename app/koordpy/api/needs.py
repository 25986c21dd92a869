"""Requirements of a plugin, beyond those that can be detected.

Much is detected by creating a plugin: the objects that it follows are the custom resource definitions and the
rights to list and watch that it needs, the extension points that it implements are the verbs that
kube-scheduler must call. The rest is declared here, once, and read by `koordpy doctor`, which reports what a
cluster lacks, and by `docs/features.md`.
"""

from dataclasses import dataclass
from enum import StrEnum

from .meta import KubeObject


class Privilege(StrEnum):
    """Something that a container has only if its pod asks for it: a namespace, a capability, a host path."""

    HOST_NETWORK = "hostNetwork"
    HOST_PID = "hostPID"
    DAC_OVERRIDE = "CAP_DAC_OVERRIDE"
    KILL = "CAP_KILL"
    NET_ADMIN = "CAP_NET_ADMIN"
    PERFMON = "CAP_PERFMON"
    SYS_PTRACE = "CAP_SYS_PTRACE"
    SYS_RESOURCE = "CAP_SYS_RESOURCE"
    PROC = "/proc"
    SYS = "/sys"
    SYS_FS = "/sys/fs"
    CGROUPS = "/sys/fs/cgroup"
    KUBELET = "/var/lib/kubelet"
    TERWAY = "/var/lib/terway/qos"

    @property
    def is_capability(self) -> bool:
        """Whether it is a capability of Linux."""
        return self.startswith("CAP_")

    @property
    def is_host_path(self) -> bool:
        """Whether it is a folder of the node, which the container has at another path."""
        return self.startswith("/")


@dataclass(frozen=True, kw_only=True)
class PrivilegeNeed:
    """A privilege that a plugin needs, what for, and what happens without it, as a clause.

    With `cgroup_v1` it is needed on nodes with cgroup v1 alone, with `cpu_flag` where `/proc/cpuinfo` has
    that flag, with `proc_file` where the kernel has that file below `/proc`. Unless `is_problem`, the plugin
    works without it, with less than it is meant to have.
    """

    privilege: Privilege
    purpose: str
    without: str
    cgroup_v1: bool = False
    cpu_flag: str = ""
    proc_file: str = ""
    is_problem: bool = True

    @property
    def on_every_node(self) -> bool:
        """Whether it is needed whatever the node's kernel and processors are."""
        return not (self.cgroup_v1 or self.cpu_flag or self.proc_file)


@dataclass(frozen=True, order=True)
class Right:
    """One verb on one resource of the API server; `pods/binding` is a resource with its subresource.

    With `name` it is limited to the object of that name, with `namespace` to objects in that namespace. With
    `gate` it is needed only where that feature gate is enabled.
    """

    verb: str
    resource: str
    group: str = ""
    namespace: str = ""
    name: str = ""
    gate: str = ""

    def __str__(self) -> str:
        what = f"{self.resource}.{self.group}" if self.group else self.resource
        where = f" in {self.namespace}" if self.namespace else ""
        when = f" (gate {self.gate})" if self.gate else ""
        return f"{self.verb} {what}{f' {self.name}' if self.name else ''}{where}{when}"


@dataclass(frozen=True, kw_only=True)
class Needs:
    """The requirements of a plugin that its class does not show.

    `rights` are those beyond listing and watching what the plugin follows. `later` are types that it follows
    only on demand, so that creating it does not show them. `longest_wait` is the longest time, in seconds,
    that a Permit plugin makes a pod wait; None if unknown. `leads` means that part of it runs only in the
    process that holds the Lease. `elsewhere` describes what else must be set or run. `privileges` are those
    of the container that it runs in, on a node.
    """

    rights: tuple[Right, ...] = ()
    later: tuple[type[KubeObject], ...] = ()
    longest_wait: float | None = None
    leads: bool = False
    elsewhere: tuple[str, ...] = ()
    privileges: tuple[PrivilegeNeed, ...] = ()


@dataclass(frozen=True)
class Lack:
    """A requirement that a cluster does not meet, and how to fix that.

    With `is_problem` the feature does not work, otherwise it works with less than it is meant to have.
    """

    what: str
    fix: str
    is_problem: bool = True
