"""A node's cgroups below a group of this test's own, or a folder that looks like them.

    def test_something(node_cgroups):
        node_cgroups.make("kubepods/besteffort/podx")
        burner = node_cgroups.burn("kubepods/besteffort/podx")
        node_cgroups.files.cpu_usage_ns("kubepods/besteffort/podx")

`root` is what `agent.cgroupRoot` would be; `files` reads and writes below it. `real` says whether a kernel is
behind it: a test of what the kernel does must look at it, a test of what is written need not.
"""

import itertools
import os
import subprocess
import sys
from pathlib import Path

from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Version
from koordpy.agent.interface import CgroupLayout
from tests.cgroups import delegation
from tests.cgroups.delegation import PREFIX, Hierarchy

_NUMBERS = itertools.count()
# A test run that is killed takes its processes with it (PR_SET_PDEATHSIG).
_WITH_PARENT = "import ctypes, sys; ctypes.CDLL(None).prctl(1, 9); sys.stdin.readline()\n"
_BURN = _WITH_PARENT + "while True: pass"
_HOLD = _WITH_PARENT + (
    "held = bytearray(int(sys.argv[1]))\n"
    "for i in range(0, len(held), 4096): held[i] = 1\n"
    "print('held', flush=True)\nsys.stdin.readline()"
)

V1_FILES = {
    "cpu": {
        "cpu.shares": "1024\n",
        "cpu.cfs_quota_us": "-1\n",
        "cpu.cfs_period_us": "100000\n",
        "cpu.cfs_burst_us": "0\n",
        "cpu.idle": "0\n",
        "cpu.stat": "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
        "cgroup.procs": "",
        "tasks": "",
    },
    "cpuacct": {"cpuacct.usage": "0\n", "cgroup.procs": ""},
    "cpuset": {"cpuset.cpus": "0-3\n", "cpuset.mems": "0\n", "cgroup.procs": ""},
    "memory": {
        "memory.limit_in_bytes": "9223372036854771712\n",
        "memory.usage_in_bytes": "0\n",
        "memory.stat": "total_cache 0\ntotal_rss 0\ntotal_inactive_file 0\ntotal_active_file 0\n"
        "total_inactive_anon 0\ntotal_active_anon 0\ntotal_unevictable 0\n",
        "cgroup.procs": "",
    },
    "blkio": {"cgroup.procs": ""},
}
_QUIET = "avg10=0.00 avg60=0.00 avg300=0.00 total=0"
V2_FILES = {
    "cgroup.procs": "",
    "cgroup.threads": "",
    "cpu.weight": "100\n",
    "cpu.max": "max 100000\n",
    "cpu.max.burst": "0\n",
    "cpu.idle": "0\n",
    "cpu.stat": "usage_usec 0\nuser_usec 0\nsystem_usec 0\nnr_periods 0\nnr_throttled 0\nthrottled_usec 0\n",
    "cpuset.cpus": "\n",
    "cpuset.cpus.effective": "0-3\n",
    "memory.max": "max\n",
    "memory.current": "0\n",
    "memory.min": "0\n",
    "memory.low": "0\n",
    "memory.high": "max\n",
    "memory.oom.group": "0\n",
    "memory.stat": "anon 0\nfile 0\ninactive_anon 0\nactive_anon 0\ninactive_file 0\nactive_file 0\n"
    "unevictable 0\n",
    **{f"{name}.pressure": f"some {_QUIET}\nfull {_QUIET}\n" for name in ("cpu", "memory", "io")},
}


class CgroupTree:
    """The groups of one test. Use the fixtures `node_cgroups` and `v2_cgroups`, which close it."""

    def __init__(self, folder: Path, version: Version, needed: frozenset[str]) -> None:
        self.version = version
        self.root = folder / "cgroup"
        self.root.mkdir()
        self._groups: list[Path] = []
        self._processes: list[subprocess.Popen[bytes]] = []
        usable = [found for found in delegation.hierarchies() if found.v2 is (version is Version.V2)]
        self.controllers = frozenset().union(*(found.controllers for found in usable))
        self.real = bool(usable) and needed <= self.controllers
        """Whether a kernel is behind the tree."""
        if self.real:
            self.real = self._delegate(usable)
        self.files = CgroupFiles(self.root, version)
        self.layout = CgroupLayout(systemd=False)
        for directory in ("", "kubepods", "kubepods/burstable", "kubepods/besteffort"):
            self.make(directory)

    @property
    def description(self) -> str:
        """What the tree is, for the report of a test run."""
        version = self.version.name.lower()
        if self.real:
            return f"real cgroups {version} ({', '.join(sorted(self.controllers)) or 'pressure alone'})"
        return f"a folder that looks like cgroups {version}: none of this machine's can be written"

    def make(self, directory: str) -> None:
        """Create a cgroup; its parent must exist. CPU sets of v1 start with the parent's."""
        if self.version is Version.V2:
            self._make(self.root / directory, V2_FILES)
            return
        for subsystem, files in V1_FILES.items():
            self._make(self.root / subsystem / directory, files)

    def remove(self, directory: str) -> None:
        """Remove a cgroup and all below it. Its processes must have ended, or been killed."""
        for top in self._tops():
            delegation.remove(top / directory) if self.real else _remove_folder(top / directory)

    def attach(self, directory: str, pid: int) -> None:
        """Move a process into a cgroup, in every subsystem."""
        for top in self._tops():
            with (top / directory / "cgroup.procs").open("a") as file:
                file.write(f"{pid}\n")

    def burn(self, directory: str) -> subprocess.Popen[bytes]:
        """Start a process in a cgroup that uses a whole CPU until it is killed."""
        return self._start(directory, _BURN)

    def hold(self, directory: str, size: int) -> subprocess.Popen[bytes]:
        """Start a process in a cgroup that touches some bytes of memory and holds them until it is killed.

        It prints `held` once it has them; a limit may kill it before.
        """
        return self._start(directory, _HOLD, str(size))

    def close(self) -> None:
        """Kill all processes that were started here and remove all groups."""
        for process in self._processes:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                if pipe is not None:
                    pipe.close()
        self.files.open_files.close()
        for group in self._groups:
            delegation.remove(group)

    def _start(self, directory: str, program: str, *args: str) -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [sys.executable, "-c", program, *args], stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        self._processes.append(process)
        self.attach(directory, process.pid)
        assert process.stdin is not None
        process.stdin.write(b"\n")
        return process

    def _delegate(self, usable: list[Hierarchy]) -> bool:
        """Make a group in each hierarchy, where the root has a link to it. Return False if one cannot be."""
        name = f"{PREFIX}{os.getpid()}-{next(_NUMBERS)}"
        try:
            for hierarchy in usable:
                delegation.remove_leftovers(hierarchy.mount)
                group = hierarchy.mount / name
                group.mkdir()
                self._groups.append(group)
                if hierarchy.v2:
                    self.root.rmdir()
                    self.root.symlink_to(group)
                    break
                for controller in hierarchy.controllers:
                    (self.root / controller).symlink_to(group)
                if "cpuset" in hierarchy.controllers:
                    _inherit_cpus(group)
        except OSError:
            for group in self._groups:
                delegation.remove(group)
            self._groups = []
            for link in (*self.root.iterdir(), self.root):
                if link.is_symlink():
                    link.unlink()
            self.root.mkdir(exist_ok=True)
            return False
        return True

    def _make(self, folder: Path, files: dict[str, str]) -> None:
        if self.real:
            if folder.is_dir():
                return
            if self.version is Version.V2 and self.controllers:
                # On v2 a parent passes controllers on to its children, and then has no processes itself.
                controllers = " ".join(f"+{name}" for name in sorted(self.controllers))
                (folder.parent / "cgroup.subtree_control").write_text(controllers)
            folder.mkdir()
            if (folder / "cpuset.mems").exists() and self.version is Version.V1:
                _inherit_cpus(folder)
            return
        folder.mkdir(parents=True, exist_ok=True)
        for name, text in files.items():
            if not (folder / name).exists():
                (folder / name).write_text(text)

    def _tops(self) -> list[Path]:
        if self.version is Version.V2:
            return [self.root]
        return [self.root / name for name in V1_FILES if (self.root / name).is_dir()]


def _inherit_cpus(group: Path) -> None:
    for name in ("cpuset.mems", "cpuset.cpus"):
        if not (group / name).read_text().strip():
            (group / name).write_text((group.parent / name).read_text())


def _remove_folder(folder: Path) -> None:
    for parent, folders, files in os.walk(folder, topdown=False):
        for name in files:
            os.unlink(f"{parent}/{name}")
        for name in folders:
            os.rmdir(f"{parent}/{name}")
    if folder.is_dir():
        folder.rmdir()
