"""Where the files of the node are: koordlet's root flags, the settings, and the defaults of `agent_mode`.

Source: Koordinator, `pkg/koordlet/util/system/config.go`. Koordlet is in `dsMode` unless the environment
variable says `hostMode`; without the variable koordpy expects the node's own paths, or what its settings say.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Final

from koordpy.agent.engine.settings import AgentSettings
from koordpy.agent.interface.flags import FlagSet

CGROUP: Final = "cgroup-root-dir"
PROC: Final = "proc-root-dir"
SYS: Final = "sys-root-dir"
SYS_FS: Final = "sys-fs-root-dir"
KUBELET: Final = "var-lib-kubelet-dir"

_OF_MODE: Final = {
    "hostMode": {CGROUP: "/sys/fs/cgroup", PROC: "/proc", SYS: "/sys", SYS_FS: "/sys/fs"},
    "dsMode": {CGROUP: "/host-cgroup", PROC: "/proc", SYS: "/host-sys", SYS_FS: "/host-sys-fs"},
}


@dataclass(frozen=True)
class NodeRoots:
    """The folders below which the files of the node are found."""

    cgroup: Path
    proc: Path
    sys: Path
    sys_fs: Path
    """Where resctrl is mounted: `/sys/fs`."""
    kubelet: Path

    @classmethod
    def init_flags(cls, flags: FlagSet) -> None:
        """Declare the flags. Empty ones are those of the settings or of `agent_mode`."""
        flags.declare(CGROUP, "", "where cgroups of the node are mounted; empty: as configured")
        flags.declare(PROC, "", "where procfs of the node is; empty: as configured")
        flags.declare(SYS, "", "where sysfs of the node is; empty: as configured")
        flags.declare(SYS_FS, "", "where /sys/fs of the node is, with resctrl; empty: fs below sysfs")
        flags.declare(KUBELET, "/var/lib/kubelet/", "the kubelet's folder, with its volumes")

    @classmethod
    def of(cls, flags: FlagSet, settings: AgentSettings) -> "NodeRoots":
        """Return the folders: of the flags, else of the settings, else of the mode."""
        defaults = _OF_MODE.get(settings.mode or "", {})
        configured = {"cgroup_root": CGROUP, "proc_root": PROC, "sys_root": SYS}
        found = {
            flag: defaults[flag]
            if flag in defaults and field not in settings.model_fields_set
            else str(getattr(settings, field))
            for field, flag in configured.items()
        }
        in_sysfs = SYS not in defaults or flags.text(SYS) or "sys_root" in settings.model_fields_set
        sys = flags.text(SYS) or found[SYS]
        return cls(
            cgroup=Path(flags.text(CGROUP) or found[CGROUP]),
            proc=Path(flags.text(PROC) or found[PROC]),
            sys=Path(sys),
            sys_fs=Path(flags.text(SYS_FS) or (f"{sys}/fs" if in_sysfs else defaults[SYS_FS])),
            kubelet=Path(flags.text(KUBELET)),
        )
