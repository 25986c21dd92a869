"""A node of folders that look like procfs, sysfs and cgroups, and one collector on it."""

import asyncio
from collections.abc import Awaitable
from datetime import timedelta
from typing import Any

from koordpy.agent.cgroups.files import Version
from koordpy.agent.interface import Aggregation, Collector, MetricError, StateType
from koordpy.agent.interface.states import CallbackTarget
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeSLO
from koordpy.api.scheme import decode
from koordpy.testing.cluster import cluster
from koordpy.testing.node import set_up

V1, V2 = Version.V1, Version.V2
BEST_EFFORT = "kubepods.slice/kubepods-besteffort.slice"


def pod(uid: str, *containers: str, best_effort: bool = True, batch_cpu: int = 0) -> Pod:
    resources: dict[str, Any] = {"requests": {}}
    if not best_effort:
        resources["requests"]["cpu"] = "1"
    if batch_cpu:
        resources["requests"]["kubernetes.io/batch-cpu"] = str(batch_cpu)
    return decode(
        Pod,
        {
            "metadata": {
                "name": f"pod-{uid}",
                "namespace": "d",
                "uid": uid,
                "labels": {"koordinator.sh/qosClass": "BE"} if best_effort else {},
            },
            "spec": {"nodeName": "n1", "containers": [{"name": "main", "resources": resources}]},
            "status": {
                "phase": "Running",
                "containerStatuses": [
                    {"name": name, "containerID": f"containerd://{name}"} for name in containers
                ],
            },
        },
    )


async def _awaited(measuring: Awaitable[None]) -> None:
    await measuring


class NodeFiles:
    """One collector, and the files that it reads."""

    def __init__(self, root, type_, *objects, version=V2, **kwargs):
        self.cgroups, self.proc, self.sys = root / "cgroup", root / "proc", root / "sys"
        for folder in (self.cgroups, self.proc, self.sys):
            folder.mkdir(exist_ok=True)
        self.version = version
        self.cluster = cluster(decode(Node, {"metadata": {"name": "n1", "uid": "n"}}), *objects)
        self.clock: Any = self.cluster.clock
        placed = set_up(
            type_,
            self.cluster,
            "n1",
            self.cgroups,
            version=version,
            proc_root=self.proc,
            sys_root=self.sys,
            **kwargs,
        )
        self.collector: Any = placed.plugin
        self.handle = placed.handle
        assert isinstance(self.collector, Collector)

    # --- files -----------------------------------------------------------------------------------

    def write(self, path, text):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def cgroup(self, directory, **files):
        """Write cgroup files; `__` in a name stands for a dot: `memory__stat`."""
        for name, text in files.items():
            name = name.replace("__", ".")
            if self.version is V2:
                self.write(self.cgroups / directory / name, text)
            else:
                subsystem = name.split(".")[0]
                self.write(self.cgroups / subsystem / directory / name, text)

    def usage(self, directory, cpu_ms, memory=None):
        if self.version is V2:
            self.cgroup(directory, cpu__stat=f"usage_usec {cpu_ms * 1000}\nuser_usec 1\n")
        else:
            self.cgroup(directory, cpuacct__usage=f"{cpu_ms * 1_000_000}\n")
        if memory is not None:
            self.memory(directory, memory)

    def memory(self, directory, size):
        prefix = "" if self.version is V2 else "total_"
        own = "" if self.version is V2 else "inactive_anon 77\nactive_anon 77\nunevictable 77\n"
        lines = (f"{prefix}inactive_anon {size}", f"{prefix}active_anon 2", f"{prefix}unevictable 4")
        files = (f"{prefix}inactive_file 100", f"{prefix}active_file 200")
        self.cgroup(directory, memory__stat=own + "\n".join(lines + files) + "\n")

    # --- states ----------------------------------------------------------------------------------

    def apply(self, *objects):
        for obj in objects:
            self.cluster.store(type(obj)).apply(obj)
        self.pods_changed()

    def remove(self, obj):
        self.cluster.store(type(obj)).discard(f"{obj.metadata.namespace}/{obj.metadata.name}")
        self.pods_changed()

    def pods_changed(self):
        states: Any = self.handle.states
        target = CallbackTarget(states.pods(), [])
        for _, callback in states._mailboxes[StateType.ALL_PODS].callbacks.values():
            callback(StateType.ALL_PODS, states.pods(), target)

    def node_slo(self, **spec):
        self.cluster.store(NodeSLO).apply(
            decode(NodeSLO, {"metadata": {"name": "n1", "uid": "s"}, "spec": spec})
        )

    # --- measuring -------------------------------------------------------------------------------

    def collect(self, seconds=0.0):
        self.clock.advance(seconds)
        if (measuring := self.collector.collect()) is not None:
            asyncio.run(_awaited(measuring))

    def values(self, kind, how=Aggregation.LAST, **properties):
        now = self.clock.now()
        return self.handle.metrics.query(kind, how, now - timedelta(hours=1), now, properties)

    def fact(self, fact) -> Any:
        return self.handle.metrics.fact(fact)

    def count(self, kind, **properties):
        return self.values(kind, Aggregation.COUNT, **properties)

    def missing(self, kind, **properties):
        try:
            self.values(kind, **properties)
        except MetricError:
            return True
        return False
