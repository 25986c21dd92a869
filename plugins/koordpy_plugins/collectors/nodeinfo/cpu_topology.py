"""The processors of a node from sysfs, numbered as lscpu numbers them.

lscpu counts cores, sockets and caches in the order of their first CPU, so that two sockets never have a core
of the same number. NUMA nodes keep the kernel's ids.
"""

from pathlib import Path

from koordpy.agent.interface.facts import Processor
from koordpy.lib import cpuset


class CPUTopologyReader:
    """Reads the topology anew only when other CPUs are online than before."""

    def __init__(self, sys_root: Path) -> None:
        self._cpus = sys_root / "devices/system/cpu"
        self._nodes = sys_root / "devices/system/node"
        self._online = ""
        self._processors: tuple[Processor, ...] = ()

    def read(self) -> tuple[Processor, ...]:
        """Return all online processors by NUMA node, socket, core and CPU. Raises OSError or ValueError."""
        online = (self._cpus / "online").read_text(encoding="ascii")
        if online != self._online or not self._processors:
            self._processors = self._read(sorted(cpuset.parse(online.strip())))
            self._online = online
        return self._processors

    def _read(self, cpus: list[int]) -> tuple[Processor, ...]:
        nodes = self._numa_nodes()
        cores, sockets, caches = _Numbers(), _Numbers(), _Numbers()
        processors = []
        for cpu in cpus:
            topology = self._cpus / f"cpu{cpu}/topology"
            socket = _number(topology / "physical_package_id")
            core = (socket, _optional(topology / "die_id"), _number(topology / "core_id"))
            shared = self._caches(cpu)
            first, last = shared.get("L1d", ""), shared.get("L3", "")
            processors.append(
                Processor(
                    cpu=cpu,
                    core=cores.of("core", core),
                    socket=sockets.of("socket", socket),
                    node=nodes.get(cpu, 0),
                    l1d_l1i_l2=str(caches.of("L1d", first)) if first else "",
                    l3=caches.of("L3", last) if last else 0,
                )
            )
        if not processors:
            raise ValueError(f"{self._cpus / 'online'} lists no CPU")
        return tuple(sorted(processors, key=lambda p: (p.node, p.socket, p.core, p.cpu)))

    def _caches(self, cpu: int) -> dict[str, str]:
        """Return the CPUs that share each cache, by `L1d`, `L1i`, `L2`, `L3`; a machine may show none."""
        found: dict[str, str] = {}
        for folder in (self._cpus / f"cpu{cpu}/cache").glob("index[0-9]*"):
            try:
                level, kind = _number(folder / "level"), (folder / "type").read_text(encoding="ascii").strip()
                suffix = {"Data": "d", "Instruction": "i"}.get(kind, "")
                shared = (folder / "shared_cpu_list").read_text(encoding="ascii").strip()
            except FileNotFoundError:
                continue
            found[f"L{level}{suffix}"] = shared
        return found

    def _numa_nodes(self) -> dict[int, int]:
        found: dict[int, int] = {}
        for folder in self._nodes.glob("node[0-9]*"):
            for cpu in cpuset.parse((folder / "cpulist").read_text(encoding="ascii").strip()):
                found[cpu] = int(folder.name[len("node") :])
        return found


class _Numbers:
    """Numbers things of several kinds from 0 in the order in which they are first seen."""

    def __init__(self) -> None:
        self._known: dict[str, dict[object, int]] = {}

    def of(self, kind: str, thing: object) -> int:
        known = self._known.setdefault(kind, {})
        return known.setdefault(thing, len(known))


def _number(path: Path) -> int:
    text = path.read_text(encoding="ascii").strip()
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{path}: got {text!r}, expected a number") from None


def _optional(path: Path) -> int:
    return _number(path) if path.exists() else 0
