"""CPU suppress rounds: `koordpy_plugins.qos.cpusuppress`, on a cgroup tree in memory."""

from dataclasses import replace
from pathlib import Path
from typing import Any

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.interface import (
    CgroupLayout,
    Handle,
    NodeCPUInfo,
    PodMeta,
    Processor,
    UnsupportedError,
    Update,
    gates,
)
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.states.informer import StatesInformer
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.qos.cpusuppress.plugin import CPUSuppress, Inputs, suppress_milli

BEST_EFFORT = "kubepods.slice/kubepods-besteffort.slice"


class MemoryFiles(CgroupFiles):
    """A cgroup v1 tree that is a dict."""

    def __init__(self, directories: list[str], files: dict[tuple[str, str], str]) -> None:
        super().__init__(Path("/cgroup"), Version.V1)
        self.directories, self.files = directories, files

    def walk(self, directory, depth, subsystem="cpuset"):
        found = [d for d in self.directories if len(d.split("/")) <= depth or not d]
        for name in sorted(found, key=lambda d: d.split("/") if d else []):
            level = len(name.split("/")) if name else 0
            yield (f"{directory}/{name}" if name else directory), level

    def read(self, name, directory):
        text = self.files.get((name, directory))
        if text is None:
            raise UnsupportedError(f"no {name} in {directory}")
        return text

    read_raw = read

    def write(self, name, directory, text):
        self.files[name, directory] = text


class RecordingExecutor(Executor):
    """Remembers every update that was asked for. Nothing stays in place, so that every round asks for all."""

    files: MemoryFiles

    def __init__(self, files: MemoryFiles) -> None:
        super().__init__(files, SystemClock())
        self.asked: list[list[str]] = []

    def update(self, update: Update, *, cached: bool = True) -> bool:
        directory = update.directory.removeprefix(BEST_EFFORT).removeprefix("/")
        kind = "cpuset" if update.resource == "cpuset.cpus" else "quota"
        self.asked.append([kind, directory, update.value])
        self.revision += 1
        self.files.files.setdefault((update.resource, update.directory), "")  # a write makes a file readable
        return super().update(update, cached=cached)


def slo_of(spec: dict[str, Any] | None) -> NodeSLOSpec | None:
    return None if spec is None else decode(NodeSLOSpec, spec)


def run(case: dict[str, Any], tag: str | None) -> Any:
    contents = {
        ("cpu.cfs_quota_us", BEST_EFFORT): case.get("quota"),
        ("cpuset.cpus", BEST_EFFORT): case.get("cpuset"),
    }
    files = MemoryFiles(case["cgroupDirs"], {k: str(v) for k, v in contents.items() if v is not None})
    executor = RecordingExecutor(files)
    feature_gates = FeatureGates(gates.GATES, {gates.BE_CPU_MANAGER: case["beCPUManager"]})
    clock = SystemClock()
    cluster, layout = Cluster(clock), CgroupLayout(systemd=True)
    handle = Handle(
        node_name="n",
        states=StatesInformer(cluster, "n", layout),
        metrics=MetricCache(clock),
        layout=layout,
        cgroups=files,
        executor=executor,
        cluster=cluster,
        gates=feature_gates,
        flags=flags_of([CPUSuppress]),
        clock=clock,
    )
    plugin = CPUSuppress(NoArgs(), handle)
    inputs = Inputs(
        slo=None,
        node=decode(Node, case["node"]) if case["node"] else None,
        topology=decode(NodeResourceTopology, case["topology"]) if case["topology"] else None,
        pods=[PodMeta(decode(Pod, entry["pod"]), entry["cgroupDir"]) for entry in case["pods"]],
        cpus=NodeCPUInfo(tuple(Processor(*row) for row in case["cpus"]))
        if case["cpus"] is not None
        else None,
        node_used=None,
        pod_used={},
        application_used={},
    )
    rounds = []
    for turn in case["rounds"]:
        inputs = replace(
            inputs,
            slo=slo_of(turn["nodeSLOSpec"]) if "nodeSLOSpec" in turn else inputs.slo,
            node_used=turn.get("nodeUsed"),
            pod_used=turn.get("podUsed") or {},
            application_used=turn.get("hostAppUsed") or {},
        )
        executor.asked = []
        plugin.round(inputs)
        answer: dict[str, Any] = {"writes": executor.asked, "policies": dict(plugin.policies)}
        suppress = suppress_milli(inputs)
        if suppress is not None:
            answer["suppressMilli"] = suppress
        rounds.append(answer)
    return {"rounds": rounds}
