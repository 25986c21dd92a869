"""Which privileges this process has on its node, and which of those that its plugins need it lacks.

Used by the agent, which warns at its start, and by `koordpy doctor --node`.
"""

import logging
import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from prometheus_client import Gauge

from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.engine.eviction import ONLY_BY_API
from koordpy.agent.interface.flags import FlagSet
from koordpy.agent.interface.gates import PRESSURE_TRIGGERS
from koordpy.agent.interface.node_plugin import NodePlugin
from koordpy.agent.toolkit import networks, resctrl
from koordpy.agent.toolkit.eviction.needs import KILLING
from koordpy.api.needs import Privilege, PrivilegeNeed
from koordpy.lib.feature_gates import FeatureGates

log = logging.getLogger(__name__)

MISSING: Final = Gauge(
    "koordpy_agent_missing_privilege",
    "1 for a privilege that a running plugin needs and the agent does not have.",
    ["privilege", "plugin"],
)

OF_THE_AGENT: Final = (
    PrivilegeNeed(
        privilege=Privilege.CGROUPS,
        purpose="all that is enforced",
        without="nothing is enforced, failures are logged and counted in koordlet_resource_updates_total",
    ),
    PrivilegeNeed(
        privilege=Privilege.KUBELET,
        purpose="the kubelet's configuration and its record of CPUs, read-only",
        without="what the kubelet writes itself is found only by its effect, and CPUs of its static policy "
        "are not in the reported topology",
        is_problem=False,
    ),
)
"""What the agent needs whichever plugins run."""

OF_PRESSURE_TRIGGERS: Final = (
    PrivilegeNeed(
        privilege=Privilege.SYS_RESOURCE,
        purpose="triggers of the kernel",
        without="pressure files are read every 100 ms instead, and the log says so",
        is_problem=False,
    ),
)

_CAPABILITIES: Final = {
    Privilege.DAC_OVERRIDE: 1,
    Privilege.KILL: 5,
    Privilege.NET_ADMIN: 12,
    Privilege.PERFMON: 38,
    Privilege.SYS_PTRACE: 19,
    Privilege.SYS_RESOURCE: 24,
}
"""Numbers of capabilities, from linux/capability.h."""

_INITIAL_PID_NAMESPACE: Final = 0xEFFFFFFC
"""Its inode; linux/proc_ns.h."""


@dataclass(frozen=True)
class Missing:
    """A privilege that is missing: who needs it, and why it is missing."""

    plugin: str
    need: PrivilegeNeed
    reason: str

    def __str__(self) -> str:
        return f"{self.plugin} lacks {self.need.privilege} ({self.reason}): {self.need.without}"


@dataclass(frozen=True)
class Held:
    """The privileges of this process, by the node's files as the agent sees them."""

    files: CgroupFiles
    kubelet_dir: Path = Path("/var/lib/kubelet")
    terway_dir: Path = Path("/host-var-lib/terway/qos")
    own: Path = Path("/proc")
    """Where this process finds itself, whatever the node's procfs is."""

    def missing(self, plugin: str, needs: Iterable[PrivilegeNeed]) -> Iterator[Missing]:
        """Yield the privileges that are missing of those that this node takes."""
        for need in needs:
            if self._applies(need) and (reason := self.lacks(need.privilege)) is not None:
                yield Missing(plugin, need, reason)

    def lacks(self, privilege: Privilege) -> str | None:
        """Return why this process does not have a privilege, None if it has."""
        if privilege.is_capability:
            return None if self._has_capability(privilege) else "the container does not have it"
        if privilege is Privilege.HOST_PID:
            return None if self._sees_all_processes() else "the container has a PID namespace of its own"
        if privilege is Privilege.HOST_NETWORK:
            shared = networks.is_of_node(self.files.proc_root, self.own)
            return None if shared else "the container has a network of its own"
        if privilege is Privilege.KUBELET:
            return None if self.kubelet_dir.is_dir() else f"{self.kubelet_dir} does not exist"
        if privilege is Privilege.SYS_FS:
            mounted = resctrl.ResctrlFiles(self.files.resctrl_root).is_mounted
            if not mounted:
                return f"resctrl is not mounted at {self.files.resctrl_root}"
        return _not_writable(self._folder(privilege))

    def _folder(self, privilege: Privilege) -> Path:
        return {
            Privilege.CGROUPS: self.files.root,
            Privilege.PROC: self.files.proc_root / "sys",
            Privilege.SYS: self.files.sys_root,
            Privilege.SYS_FS: self.files.resctrl_root,
            Privilege.TERWAY: self.terway_dir,
        }[privilege]

    def _applies(self, need: PrivilegeNeed) -> bool:
        """Return whether this node has what a privilege is needed for."""
        if need.cgroup_v1 and self.files.unified:
            return False
        if need.proc_file and not (self.files.proc_root / need.proc_file).exists():
            return False
        if need.cpu_flag:
            try:
                return need.cpu_flag in resctrl.processors(self.files.proc_root).flags
            except OSError:
                return False
        return True

    def _has_capability(self, privilege: Privilege) -> bool:
        try:
            text = (self.own / "self/status").read_text(encoding="ascii", errors="replace")
            held = int(text.partition("CapEff:")[2].split(maxsplit=1)[0], 16)
        except (OSError, ValueError, IndexError):
            return False
        return bool(held >> _CAPABILITIES[privilege] & 1)

    def _sees_all_processes(self) -> bool:
        """Return whether process 1 is the node's: of the kernel's first PID namespace, or in another cgroup.

        A node may itself be a container (kind); there process 1 is not of the kernel's first namespace.
        """
        try:
            if os.stat(self.own / "self/ns/pid").st_ino == _INITIAL_PID_NAMESPACE:
                return True
            return (self.own / "1/cgroup").read_bytes() != (self.own / "self/cgroup").read_bytes()
        except OSError:
            return False


def needs(
    plugins: Mapping[str, type[NodePlugin]], gates: FeatureGates, flags: FlagSet
) -> Iterator[tuple[str, tuple[PrivilegeNeed, ...]]]:
    """Yield what the agent and these plugins need, with these gates and flags."""
    yield "the agent", OF_THE_AGENT
    by_api = flags.boolean(ONLY_BY_API)
    for name, type_ in plugins.items():
        yield name, tuple(need for need in type_.needs.privileges if not (by_api and need in KILLING))
    if gates.enabled(PRESSURE_TRIGGERS):
        yield PRESSURE_TRIGGERS, OF_PRESSURE_TRIGGERS


def warn(missing: Iterable[Missing]) -> None:
    """Log what is missing, and export it as a metric."""
    MISSING.clear()
    for each in missing:
        log.warning("missing privilege: %s", each)
        MISSING.labels(each.need.privilege, each.plugin).set(1)


def _not_writable(folder: Path) -> str | None:
    try:
        if os.statvfs(folder).f_flag & os.ST_RDONLY:
            return f"{folder} is mounted read-only"
    except OSError as error:
        return f"{folder}: {error.strerror}"
    return None
