"""Rounds of CPUSuppress on cgroup files in a temporary folder: Koordinator's pinned examples."""

from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.interface import CgroupLayout, Handle, NodeCPUInfo, PodMeta, Processor
from koordpy.agent.interface.gates import GATES
from koordpy.agent.metrics.cache import MetricCache
from koordpy.agent.states.informer import StatesInformer
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec, completed
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.qos.cpusuppress import CPUSuppress
from koordpy_plugins.qos.cpusuppress.plugin import Inputs

ROOT = "kubepods.slice/kubepods-besteffort.slice"
POD = f"{ROOT}/kubepods-besteffort-podbe.slice"
CONTAINER = f"{POD}/cri-containerd-c.scope"
EIGHT = NodeCPUInfo(tuple(Processor(cpu, cpu // 2, cpu // 4, cpu // 4) for cpu in range(8)))


class Stage:
    """The plugin on a node of eight CPUs, of which an LSR pod has 0 and 6 and an LSE pod 7."""

    def __init__(self, root: Path, gates: dict[str, bool] | None = None) -> None:
        self.root = root
        clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        files = CgroupFiles(root, Version.V1)
        for directory in (ROOT, POD, CONTAINER):
            for subsystem, name, text in (
                ("cpuset", "cpuset.cpus", "0-7\n"),
                ("cpu", "cpu.cfs_quota_us", "-1\n"),
            ):
                folder = root / subsystem / directory
                folder.mkdir(parents=True)
                (folder / name).write_text(text)
        cluster, layout = Cluster(clock), CgroupLayout(systemd=True)
        handle = Handle(
            node_name="n",
            states=StatesInformer(cluster, "n", layout),
            metrics=MetricCache(clock),
            layout=layout,
            cgroups=files,
            executor=Executor(files, clock),
            cluster=cluster,
            gates=FeatureGates(GATES, gates),
            flags=flags_of([CPUSuppress]),
            clock=clock,
        )
        self.plugin = CPUSuppress(NoArgs(), handle)

    def set_cpus(self, text: str) -> None:
        for directory in (ROOT, POD, CONTAINER):
            (self.root / "cpuset" / directory / "cpuset.cpus").write_text(text)

    def cpus(self, directory: str = ROOT) -> str:
        return (self.root / "cpuset" / directory / "cpuset.cpus").read_text().strip()

    def quota(self) -> str:
        return (self.root / "cpu" / ROOT / "cpu.cfs_quota_us").read_text().strip()


def pod(uid: str, qos: str, cpus: str = "", **annotations: str) -> PodMeta:
    if cpus:
        annotations["scheduling.koordinator.sh/resource-status"] = f'{{"cpuset":"{cpus}"}}'
    metadata = {
        "name": uid,
        "namespace": "d",
        "uid": uid,
        "labels": {"koordinator.sh/qosClass": qos},
        "annotations": annotations,
    }
    requests = {} if qos == "BE" else {"requests": {"cpu": "1"}}
    document = {"metadata": metadata, "spec": {"containers": [{"name": "c", "resources": requests}]}}
    return PodMeta(decode(Pod, document), POD if qos == "BE" else f"kubepods.slice/pod{uid}")


def inputs(annotations: dict[str, Any] | None = None, *, used: float = 2.2, **section: Any) -> Inputs:
    """Return inputs: 65 % of 8 cores less what others use (2.2) are 3 cores."""
    section = {"enable": True, "cpuSuppressThresholdPercent": 65, **section}
    capacity = {"cpu": "8", "memory": "16Gi"}
    node = {"metadata": {"name": "n"}, "status": {"capacity": capacity, "allocatable": capacity}}
    texts = {key: msgspec.json.encode(value).decode() for key, value in (annotations or {}).items()}
    topology = {"metadata": {"name": "n", "annotations": texts}}
    return Inputs(
        slo=completed(decode(NodeSLOSpec, {"resourceUsedThresholdWithBE": section})),
        node=decode(Node, node),
        topology=decode(NodeResourceTopology, topology),
        pods=[pod("lsr", "LSR", "0,6"), pod("lse", "LSE", "7"), pod("be", "BE")],
        cpus=EIGHT,
        node_used=used,
        pod_used={},
        application_used={},
    )


@pytest.mark.parametrize("old", ["2-3,6-7", "6-7"])
@pytest.mark.parametrize(
    ("annotations", "expected"),
    [
        ({}, "2-4"),
        ({"node.koordinator.sh/reservation": {"reservedCPUs": "3"}}, "0,4-5"),
        ({"node.koordinator.sh/reservation": {"reservedCPUs": "0-1,5-6"}}, "2-4"),
        ({"node.koordinator.sh/system-qos-resource": {"cpuset": "3"}}, "0,4-5"),
        ({"node.koordinator.sh/system-qos-resource": {"cpuset": "3", "cpusetExclusive": False}}, "2-4"),
    ],
)
def test_cpus_of_others_are_left_alone(
    tmp_path: Path, old: str, annotations: dict[str, Any], expected: str
) -> None:
    stage = Stage(tmp_path)
    stage.set_cpus(old)
    stage.plugin.round(inputs(annotations))
    assert [stage.cpus(directory) for directory in (ROOT, POD, CONTAINER)] == [expected] * 3
    assert stage.quota() == "-1"


def test_nothing_is_written_when_too_few_cpus_are_left(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.set_cpus("6-7")
    stage.plugin.round(inputs({"node.koordinator.sh/reservation": {"reservedCPUs": "1-6"}}))
    assert stage.cpus() == "6-7"
    assert stage.plugin.policies["cpuset"] == "using"


def test_at_least_two_cpus_are_left(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.plugin.round(inputs(used=50.0))
    assert stage.cpus() == "2-3"


def test_kubelets_static_policy_keeps_its_own_levels(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.plugin.round(inputs({"kubelet.koordinator.sh/cpu-manager-policy": {"policy": "static"}}))
    assert [stage.cpus(directory) for directory in (ROOT, POD, CONTAINER)] == ["0-6", "0-6", "2-4"]


def test_the_other_policy_is_undone(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.plugin.round(inputs())
    stage.plugin.round(inputs(cpuSuppressPolicy="cfsQuota"))
    assert (stage.quota(), stage.cpus(), stage.cpus(CONTAINER)) == ("300000", "0-6", "0-6")
    stage.plugin.round(inputs())
    assert (stage.quota(), stage.cpus()) == ("-1", "2-4")


def test_a_strategy_that_is_switched_off_undoes_everything(tmp_path: Path) -> None:
    stage = Stage(tmp_path)
    stage.plugin.round(inputs())
    stage.plugin.round(inputs(enable=False))
    assert (stage.quota(), stage.cpus(), stage.cpus(CONTAINER)) == ("-1", "0-6", "0-6")
    assert stage.plugin.policies == {"cpuset": "recovered", "cfsQuota": "recovered"}


def test_the_cpu_manager_keeps_containers_whose_cpus_were_allocated(tmp_path: Path) -> None:
    stage = Stage(tmp_path, {"BECPUManager": True})
    stage.set_cpus("2")
    given = inputs()
    status = '{"numaNodeResources":[{"node":0}]}'
    allocated = pod("be", "BE", **{"scheduling.koordinator.sh/resource-status": status})
    stage.plugin.round(replace(given, pods=[*given.pods[:2], allocated]))
    assert [stage.cpus(directory) for directory in (ROOT, POD, CONTAINER)] == ["0-6", "0-6", "2"]
