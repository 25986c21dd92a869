"""What the reasons of NUMA nodes and devices mean, and which devices kube-scheduler allocates."""

import re
from pathlib import Path
from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_class import DeviceClass
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.device_classes import DeviceClasses
from koordpy.scheduling.explain import device_causes as device_causes_module
from koordpy.scheduling.explain.cause import Cause
from koordpy.scheduling.explain.device_causes import device_causes, left_causes, not_offered_causes
from koordpy.testing.objects import node, pod

GPU_CLASS = {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
NO_GPUS = "0/2 nodes are available: 2 Insufficient gpu devices."


def device(name: str, *health: bool, type_: str = "gpu") -> Device:
    devices = [{"type": type_, "minor": minor, "health": is_well} for minor, is_well in enumerate(health)]
    return decode(Device, {"metadata": {"name": name}, "spec": {"devices": devices}})


def found(message: str, *objects: Any, labels: dict[str, str] | None = None) -> list[Cause]:
    cluster = Cluster()
    for type_ in (Node, Device):
        cluster.store(type_)
    for each in objects:
        cluster.store(type(each)).apply(each)
    return list(device_causes(cluster, pod("p", labels=labels or {}), message))


def test_devices_that_no_object_lists_are_not_reported() -> None:
    [cause] = found(NO_GPUS, device("a", True, type_="rdma"))
    assert (cause.cause, "type gpu" in cause.message) == ("DevicesNotReported", True)


def test_nodes_with_unhealthy_devices_of_the_type_are_named() -> None:
    [cause] = found(NO_GPUS, *(device(name, True, False) for name in "dcba"), device("e", True))
    assert cause.cause == "DevicesUnhealthy"
    assert cause.message.endswith("on a, b, c and 1 more")


def test_healthy_devices_are_taken() -> None:
    [cause] = found(NO_GPUS, device("a", True), device("b", False, type_="rdma"))
    assert (cause.cause, cause.message[:10]) == ("DevicesTaken", "1 node has")
    assert "about to be bound" not in cause.message


def test_pods_that_hold_devices_and_are_not_bound_yet_are_named() -> None:
    cluster = Cluster()
    for each in (node("a"), device("a", True), *(pod(name) for name in "vwxyz")):
        cluster.store(type(each)).apply(each)
    for each in cluster.store(Pod):
        if each.metadata.name != "v":
            cluster.nodes.assume(each, "a")
    [cause] = device_causes(cluster, pod("p"), NO_GPUS)
    names = "default/w, default/x, default/y and 1 more"
    assert cause.message.endswith(f"; pods that are about to be bound count already: {names}")


def test_unaligned_numa_nodes_are_named_by_number() -> None:
    hints = "cpu prefer [0011 1100] among [0011 1100 1111],memory prefer [0001] among [0001]"
    [cause] = found(f"0/1 nodes are available: 1 Unaligned NUMA Hint cause {hints}.")
    assert cause.message.endswith("(NUMA nodes with room, in some node: cpu 0+1 or 2+3, memory 0)")


@pytest.mark.parametrize(
    ("requests", "named"),
    [
        ({"koordinator.sh/rdma": "1", "a.b/c": "1"}, "a.b/c, koordinator.sh/rdma"),
        ({"koordinator.sh/gpu-core": "100", "kubernetes.io/batch-cpu": "1"}, ""),
        ({"nvidia.com/gpu": "1"}, ""),
    ],
)
def test_resources_that_no_node_offers_are_named(requests: dict[str, str], named: str) -> None:
    cluster = Cluster()
    cluster.shared(DeviceClasses)
    cluster.store(DeviceClass).apply(decode(DeviceClass, GPU_CLASS))
    offered = {"koordinator.sh/gpu-core": "100", "koordinator.sh/rdma": "0"}
    cluster.store(Node).apply(node("a", resources=offered))
    causes = list(not_offered_causes(cluster, pod("p", resources=requests)))
    told = [f"no node offers {named} (status.allocatable)"] if named else []
    assert [cause.message for cause in causes] == told


@pytest.mark.parametrize(
    ("nodes", "part"), [(("HAMi-core", ""), "1 node has"), (("", "other"), "no node has")]
)
def test_an_absent_provider_of_isolation_is_named(nodes: tuple[str, str], part: str) -> None:
    name = "koordinator.sh/gpu-isolation-provider"
    own = [node(f"n{at}", labels={name: value} if value else {}) for at, value in enumerate(nodes)]
    message = "0/2 nodes are available: 2 GPUIsolationProviderHAMICore not found on the node."
    [cause] = found(message, *own, labels={name: "HAMi-core"})
    assert cause.cause == "GPUIsolationProviderAbsent"
    assert part in cause.message
    assert "HAMi-core" in cause.fix


@pytest.mark.parametrize(
    ("reason", "cause"),
    [
        ("node(s) NUMA Topology policy not match", "NUMAPolicyConflict"),
        ("node(s) missing NUMA resources", "NUMAResourcesMissing"),
        ("node(s) invalid CPU Topology", "CPUTopologyMissing"),
        ("not enough cpus available to satisfy request", "CPUsBound"),
        ("Insufficient NUMA cpu", "NUMANodesFull"),
        ("the requested CPUs must be at most 9223372036854775", "CPUsTooMany"),
        (
            "Unaligned NUMA Hint cause cpu prefer [01] among [01] & gpu prefer [10] among [10]",
            "NUMANodesUnaligned",
        ),
        ("Reservation(s) Insufficient NUMA memory", "NUMANodesFull"),
        ("node(s) Insufficient NUMA Node resources", "NUMANodesFull"),
        ("node(s) missing GPU Partition Table", "GPUPartitionsMissing"),
        ("node(s) Device Joint-Allocate rules violation", "JointAllocationImpossible"),
        ('model "M" of vendor "V" does not support GPU Share', "GPUShareUnsupported"),
        ("Insufficient Topology Scoped GPU Devices", "GPUTopologyScopeFull"),
        ("Insufficient Partitioned GPU Devices", "GPUPartitionsTaken"),
        ("node(s) Unsupported Multi-Shared GPU", "GPUSharesApart"),
        ("Insufficient rdma VirtualFunctions", "VirtualFunctionsMissing"),
        ("node(s) Insufficient primary device", "JointAllocationImpossible"),
        ("Designated Allocation Lack NUMA Node ID", "DesignatedDevicesUnknown"),
        ("fillGPUTotalMem failed: no healthy gpu device with minor 9", "DesignatedDevicesUnknown"),
        ("invalid resource unit koordinator.sh/gpu: 150", "DeviceRequestInvalid"),
        ("invalid DeviceAllocateHint annotation, err: x", "DeviceAnnotationInvalid"),
        ("invalid VFSelector of DeviceHint, deviceType: rdma, err: x", "DeviceAnnotationInvalid"),
        ('failed to lock node: node "n" has been locked', "DevicePluginNotTold"),
        ("Insufficient GPU Devices", "DevicesNotReported"),
        ("Reservation(s) Insufficient GPU Devices", "DevicesOfReservationTaken"),
        ("Reservation(s) Insufficient rdma devices", "DevicesOfReservationTaken"),
    ],
)
def test_each_reason_has_one_cause(reason: str, cause: str) -> None:
    assert [each.cause for each in found(f"0/1 nodes are available: 1 {reason}.")] == [cause]


def test_other_reasons_have_none() -> None:
    assert found("0/1 nodes are available: 1 Insufficient cpu.", device("a", False)) == []


def claimed() -> Pod:
    return pod("p", spec={"resourceClaims": [{"name": "one"}]})


@pytest.mark.parametrize(
    ("subject", "part"),
    [
        (claimed(), "resource claim one"),
        (pod("p", resources={"nvidia.com/gpu": "1"}), "nvidia.com/gpu (DeviceClass gpus)"),
        (pod("p", resources={"koordinator.sh/gpu-core": "50"}), ""),
    ],
)
def test_devices_that_kube_scheduler_allocates_are_named(subject: Pod, part: str) -> None:
    cluster = Cluster()
    cluster.shared(DeviceClasses)
    cluster.late_store(DeviceClass).apply(decode(DeviceClass, GPU_CLASS))
    causes = list(left_causes(cluster, subject))
    assert [cause.cause for cause in causes] == (["LeftToDynamicResources"] if part else [])
    assert all(part in cause.message for cause in causes)


def test_nothing_is_said_where_no_plugin_leaves_devices() -> None:
    assert list(left_causes(Cluster(), claimed())) == []


def test_the_guide_to_debugging_names_every_cause() -> None:
    guide = (Path(__file__).parents[4] / "docs" / "debugging.md").read_text()
    source = Path(device_causes_module.__file__).read_text()
    causes = set(
        re.findall(
            r'^ +"((?:CPU|NUMA|Des|Device|GPU|Joint|Left|Virtual)[A-Za-z]{3,})",$', source, re.MULTILINE
        )
    )
    assert len(causes) > 15
    assert [cause for cause in sorted(causes) if f"`{cause}`" not in guide] == []
