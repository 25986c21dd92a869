"""Workers and node agents in this process, on an embedded API server, with the files of a made-up node."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx

from koordpy import settings
from koordpy.cluster.client import Client
from koordpy.compose.process import Process
from tests.eventually import PATIENCE

BEST_EFFORT = "kubepods.slice/kubepods-besteffort.slice"
POD = f"{BEST_EFFORT}/kubepods-besteffort-pod1.slice"
CONTAINER = f"{POD}/cri-containerd-abc.scope"
CPUS = 8


def worker_settings(server: str, **changes: Any) -> settings.Settings:
    """Return a worker's settings; `changes` are laid over those of its parts."""
    return settings.load(None, {"client": {"server": server}, "debug": {"port": 0}, "worker": changes})


def agent_settings(server: str, **changes: Any) -> settings.Settings:
    """Return a node agent's settings; `changes` are laid over them."""
    return settings.load(None, {"client": {"server": server}, "debug": {"port": 0}, "agent": changes})


@asynccontextmanager
async def working(process: Process) -> AsyncIterator[httpx.AsyncClient]:
    """Run a process; yields a client of its debug API. An error of its parts fails the block's end."""
    running = asyncio.create_task(process.run())
    [listener] = process.listeners.values()
    try:
        async with asyncio.timeout(PATIENCE):
            while not listener.is_listening and not running.done():
                await asyncio.sleep(0.01)
        if running.done():
            await running
        async with httpx.AsyncClient(
            base_url=listener.url, trust_env=False, verify=False, timeout=PATIENCE
        ) as client:
            yield client
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def create(client: Client, resource: Any, document: dict[str, Any], status: Any = None) -> None:
    """Create an object, and write its status."""
    meta = document["metadata"]
    namespace = meta.get("namespace", "")
    whole = {"apiVersion": resource.api_version, "kind": resource.kind, **document}
    await client.create_raw(resource, namespace, whole)
    if status is not None:
        await client.patch_status(resource.type, namespace, meta["name"], {"status": status})


class NodeFiles:
    """cgroup, procfs and sysfs files of an idle node with eight CPUs: two sockets, hyper-threads in pairs."""

    def __init__(self, root: Path, version: int) -> None:
        self.version = version
        self.cgroup, self.proc, self.sys = root / "cgroup", root / "proc", root / "sys"
        self._make_processors()
        self._make_usage()
        for directory in ("kubepods.slice", BEST_EFFORT, POD, CONTAINER):
            self._make_group(directory)
        if version == 2:
            (self.cgroup / "cgroup.controllers").write_text("cpuset cpu memory\n")

    @property
    def settings(self) -> dict[str, str]:
        return {"cgroupRoot": str(self.cgroup), "procRoot": str(self.proc), "sysRoot": str(self.sys)}

    def cpus(self, directory: str = BEST_EFFORT) -> str:
        return (self._folder("cpuset", directory) / "cpuset.cpus").read_text().strip()

    def quota(self) -> str:
        name = "cpu.cfs_quota_us" if self.version == 1 else "cpu.max"
        return (self._folder("cpu", BEST_EFFORT) / name).read_text().split()[0]

    def _folder(self, subsystem: str, directory: str) -> Path:
        return (self.cgroup / subsystem if self.version == 1 else self.cgroup) / directory

    def _make_group(self, directory: str) -> None:
        every = f"0-{CPUS - 1}\n"
        if self.version == 1:
            files = {
                "cpuset": {"cpuset.cpus": every},
                "cpu": {"cpu.cfs_quota_us": "-1\n", "cpu.cfs_period_us": "100000\n"},
                "cpuacct": {"cpuacct.usage": "0\n"},
                "memory": {
                    "memory.stat": "total_inactive_anon 0\ntotal_active_anon 0\ntotal_unevictable 0\n"
                },
            }
        else:
            files = {
                "cpuset": {"cpuset.cpus": every, "cpuset.cpus.effective": every},
                "cpu": {"cpu.max": "max 100000\n", "cpu.stat": "usage_usec 0\n"},
                "memory": {"memory.stat": "inactive_anon 0\nactive_anon 0\nunevictable 0\n"},
            }
        for subsystem, contents in files.items():
            folder = self._folder(subsystem, directory)
            folder.mkdir(parents=True, exist_ok=True)
            for name, text in contents.items():
                (folder / name).write_text(text)

    def _make_processors(self) -> None:
        cpu_root, node_root = self.sys / "devices/system/cpu", self.sys / "devices/system/node"
        for cpu in range(CPUS):
            topology = cpu_root / f"cpu{cpu}/topology"
            topology.mkdir(parents=True)
            (topology / "core_id").write_text(f"{cpu // 2}\n")
            (topology / "physical_package_id").write_text(f"{cpu // 4}\n")
        (cpu_root / "online").write_text(f"0-{CPUS - 1}\n")
        for node, text in enumerate(("0-3\n", "4-7\n")):
            (node_root / f"node{node}").mkdir(parents=True)
            (node_root / f"node{node}/cpulist").write_text(text)
            sizes = {
                "MemTotal": 500,
                "MemFree": 100,
                "Active(file)": 0,
                "Inactive(file)": 0,
                "SReclaimable": 0,
            }
            lines = [f"Node {node} {name}: {size} kB\n" for name, size in sizes.items()]
            (node_root / f"node{node}/meminfo").write_text("".join(lines))

    def _make_usage(self) -> None:
        self.proc.mkdir(parents=True)
        (self.proc / "stat").write_text("cpu  0 0 0 1000 0 0 0 0 0 0\ncpu0 0 0 0 0 0 0 0 0 0 0\n")
        (self.proc / "cpuinfo").write_text("processor\t: 0\nvendor_id\t: Other\nflags\t\t: fpu\n\n")
        (self.proc / "meminfo").write_text("MemTotal: 1000 kB\nMemAvailable: 400 kB\n")
