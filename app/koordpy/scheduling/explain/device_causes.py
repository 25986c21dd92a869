"""Why CPUs of NUMA nodes, and devices, keep a pod waiting, and which of them are not koordpy's to allocate.

The reasons of attempts are Koordinator's: they count nodes. What they mean, and what the Device objects and
labels of nodes show about it, is added here.
"""

import re
from collections.abc import Iterator
from typing import Final, TypeVar

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device, DeviceInfo
from koordpy.api.device_class import left_to_dynamic_resources
from koordpy.api.extension import (
    ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO,
    LABEL_GPU_ISOLATION_PROVIDER,
    LABEL_NODE_NUMA_TOPOLOGY_POLICY,
)
from koordpy.api.meta import KubeObject
from koordpy.api.quantity import QuantityError
from koordpy.api.resource_names import is_extended
from koordpy.api.resources import pod_requests
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.device_classes import DeviceClasses
from koordpy.lib.counting import counted, have

from .cause import Cause, Certainty

T = TypeVar("T", bound=KubeObject)

SHOWN: Final = 3
"""The number of nodes that are named."""

_TYPES: Final = ("gpu", "rdma", "fpga")

_UNALIGNED: Final = "NUMANodesUnaligned"
_OF_RESERVATIONS: Final = re.compile(r"Reservation\(s\) Insufficient (\w+ devices|GPU Devices)")
_HINT: Final = re.compile(r"([^ ,]+) prefer \[([01 ]*)\] among")
"""A resource in a reason of unaligned hints, with the sets of NUMA nodes that it prefers."""

_MEANINGS: Final = (
    (
        "node(s) NUMA Topology policy not match",
        "NUMAPolicyConflict",
        "the pod asks for another NUMA topology policy than nodes have",
        f"ask for the policy of the nodes (label {LABEL_NODE_NUMA_TOPOLOGY_POLICY}), or for none",
    ),
    (
        "node(s) missing NUMA resources",
        "NUMAResourcesMissing",
        "a NUMA topology policy applies, and the NodeResourceTopology of nodes has no zones of NUMA nodes",
        "let the node agent report the topology (gate NodeTopologyReport)",
    ),
    (
        "node(s) invalid CPU Topology",
        "CPUTopologyMissing",
        "nodes have no NodeResourceTopology with the topology of their CPUs, so no CPUs can be bound there",
        "let the node agent report the topology (gate NodeTopologyReport)",
    ),
    (
        "node(s) requested cpus not multiple cpus per core",
        "CPUsNotWholeCores",
        "the pod must have whole physical cores and requests a number of CPUs that does not fill them",
        "request a multiple of the threads of a core, or another bind policy",
    ),
    (
        "node(s) cpu bind policy conflicts with pod's required cpu bind policy",
        "CPUBindPolicyConflict",
        "the bind policy of nodes (label, or kubelet's static policy) is another than the pod requires",
        "prefer the bind policy (preferredCPUBindPolicy) instead of requiring it",
    ),
    (
        "the requested CPUs must be integer",
        "CPUsNotWhole",
        "CPUs are bound to the pod, and it requests a fraction of one",
        "request whole CPUs, or remove the bind policy from the annotation resource-spec",
    ),
    (
        "the requested CPUs must be at most",
        "CPUsTooMany",
        "the pod requests more CPUs than can be counted, which kube-scheduler takes for another number",
        "correct the request",
    ),
    (
        "not enough cpus available to satisfy request",
        "CPUsBound",
        "nodes have the CPUs, but other pods are bound to too many of them, or they are reserved on the node",
        "wait until pods with bound CPUs end; GET /apis/v1/plugins/NodeNUMAResource/nodes/NODE shows who has "
        "which",
    ),
    (
        "insufficient CPUs to satisfy required cpu bind policy",
        "CPUsBound",
        "enough CPUs are free on nodes, but not in the arrangement that the pod requires",
        "prefer the bind policy (preferredCPUBindPolicy) instead of requiring it, or wait",
    ),
    (
        "node(s) Insufficient NUMA Node resources",
        "NUMANodesFull",
        "nodes have what the pod requests, but no allowed set of their NUMA nodes has it together",
        "request less than one NUMA node has, or use a less strict NUMA topology policy",
    ),
    (
        "Insufficient NUMA ",
        "NUMANodesFull",
        "nodes have what the pod requests, but their NUMA nodes do not have it where it must be",
        "request less than one NUMA node has, or use a less strict NUMA topology policy",
    ),
    (
        "Unsatisfied NUMA ",
        "NUMANodesFull",
        "nodes have what the pod requests, but their NUMA nodes do not have it where it must be",
        "request less than one NUMA node has, or use a less strict NUMA topology policy",
    ),
    (
        "Unaligned NUMA Hint cause",
        _UNALIGNED,
        "each of the pod's resources has NUMA nodes, but not the same ones, or these are not the fewest that "
        "could hold it, or are shared though the pod excludes that",
        "wait, or use a less strict NUMA topology policy (BestEffort), or singleNUMANodeExclusive: Preferred",
    ),
    (
        "insufficient resources on NUMA Node",
        "NUMAResourcesMissing",
        "a NUMA topology policy applies, and the NodeResourceTopology of nodes has no zones of NUMA nodes",
        "let the node agent report the topology (gate NodeTopologyReport)",
    ),
    (
        "unknown NUMA Topology policy",
        "NUMAPolicyUnknown",
        f"the NUMA topology policy of the pod, or of nodes (label {LABEL_NODE_NUMA_TOPOLOGY_POLICY}), does "
        "not exist",
        "BestEffort, Restricted or SingleNUMANode",
    ),
    (
        "node(s) invalid CPU amplification ratio",
        "CPURatioUnreadable",
        f"the annotation {ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO} of nodes cannot be read",
        """write JSON such as {"cpu": 1.5}""",
    ),
    (
        "Insufficient amplified cpu",
        "CPUsAmplified",
        "the cpu of nodes is amplified, and bound CPUs count as often: that leaves too little of it",
        "wait until pods with bound CPUs end, request less, or amplify less",
    ),
    (
        "reservation NUMA scope is incompatible with the best topology hint",
        "NUMAScopeOfReservation",
        "Reservations have what the pod requests on other NUMA nodes than those that suit it best",
        "reserve with the NUMA topology policy of the pod, or let the pod go without the Reservation",
    ),
    (
        "pod has a nominated reservation but cannot be allocated within its NUMA scope",
        "NUMAScopeOfReservation",
        "Reservations have what the pod requests on other NUMA nodes than those that suit it best",
        "reserve with the NUMA topology policy of the pod, or let the pod go without the Reservation",
    ),
    (
        "node(s) missing GPU Partition Table",
        "GPUPartitionsMissing",
        "GPUs must be allocated as partitions, and the Device of nodes has no partition table",
        "add the annotation scheduling.koordinator.sh/gpu-partitions to the Devices, or drop "
        "gpu-partition-spec from the pod",
    ),
    (
        "node(s) Unsupported number of GPU requests",
        "GPUPartitionsMissing",
        "the partition tables of nodes have no partition with as many GPUs as the pod requests",
        "request a number that the partition table has (usually 1, 2, 4 or 8)",
    ),
    (
        "Insufficient Partitioned GPU Devices",
        "GPUPartitionsTaken",
        "enough GPUs are free on nodes, but no whole partition of them is, or none as fast as the pod "
        "requires (ringBusBandwidth)",
        "wait until pods with GPUs of a partition end, or require less of gpu-partition-spec",
    ),
    (
        "node(s) missing GPU Device Topology Tree",
        "GPUTopologyMissing",
        "the pod requires GPUs of one topology scope, and Devices do not have the topology of their GPUs",
        "let the node agent report it, or drop requiredTopologyScope from the pod's hint",
    ),
    (
        "node(s) Device Joint-Allocate rules violation",
        "JointAllocationImpossible",
        "enough devices are free on nodes, but not GPUs and the others at one PCIe switch",
        "wait, or drop requiredScope from the annotation device-joint-allocate",
    ),
    (
        "does not support GPU Share",
        "GPUShareUnsupported",
        "nodes have GPUs of a model that cannot be shared (gpuShareUnsupportedModels)",
        "request whole GPUs, or nodes of another model",
    ),
    (
        "no matched GPU shared resource template",
        "GPUTemplateMissing",
        "no template of the ConfigMap of GPU shared resource templates equals what the pod requests of a GPU",
        "request what a template has; the ConfigMap is gpuSharedResourceTemplatesConfig of DeviceShareArgs",
    ),
    (
        "Insufficient Topology Scoped GPU Devices",
        "GPUTopologyScopeFull",
        "no topology scope of the kind that the pod requires (PCIe, NUMANode, Node) has enough free GPUs; "
        "the scope Device never has",
        "wait, if any such scope has as many GPUs at all; or require a wider scope (requiredTopologyScope of "
        "the hint), or none",
    ),
    (
        "node(s) Unsupported Multi-Shared GPU",
        "GPUSharesApart",
        "the pod has shares of several GPUs (gpu.shared) and requires a topology scope, which only whole "
        "GPUs and the share of one GPU can have",
        "drop requiredTopologyScope from the pod's hint, or request whole GPUs",
    ),
    (
        " VirtualFunctions",
        "VirtualFunctionsMissing",
        "the pod selects virtual functions (vfSelector), and the Device of nodes lists none",
        "let the node agent report them, or drop vfSelector from the pod's hint",
    ),
    (
        "node(s) Insufficient primary device",
        "JointAllocationImpossible",
        "nodes have no free device of the first type that the annotation device-joint-allocate names",
        "wait, or name another type first",
    ),
    (
        "Designated Allocation Lack NUMA Node ID",
        "DesignatedDevicesUnknown",
        "the pod is bound to recorded devices (annotation device-allocated), and the Device of nodes does "
        "not say on which NUMA nodes they are",
        "let the node agent report the topology of the devices, or remove the annotation",
    ),
    (
        "fillGPUTotalMem failed",
        "DesignatedDevicesUnknown",
        "what was chosen for the pod, or recorded on it, has a GPU that the node does not list as healthy",
        "compare the annotation device-allocated, and the partition table, with the node's Device",
    ),
    (
        "invalid resource device requests",
        "DeviceRequestInvalid",
        "the requests are no combination that allocates devices",
        "request a share of one device, up to 100 percent, or a multiple of 100 for whole ones; parts of "
        "several GPUs need koordinator.sh/gpu.shared (docs/devices.md)",
    ),
    (
        "invalid resource unit",
        "DeviceRequestInvalid",
        "a request is neither a share of one device nor a number of whole ones",
        "request at most 100, or a multiple of 100",
    ),
    *(
        (
            reason,
            "DeviceAnnotationInvalid",
            "an annotation of the pod about devices cannot be read",
            "see the annotations in docs/devices.md",
        )
        for reason in (
            "invalid DeviceAllocateHint annotation",
            "invalid DeviceJointAllocate annotation",
            "invalid GPUPartitionSpec annotation",
            "elector of DeviceHint",
            "annotation scheduling.koordinator.sh/device-allocated",
        )
    ),
    *(
        (
            reason,
            "DevicePluginNotTold",
            "the vendor's device plugin cannot be told what was allocated (gate DevicePluginAdaption)",
            "see what the message says of the pod's request, or who has locked the node; a lock ends with "
            "its pod, or after 5 minutes",
        )
        for reason in ("failed to adapt for GPU device plugin", "failed to lock node")
    ),
)
"""Part of a reason; name of the cause; what it means; what to do."""


def left_causes(cluster: Cluster, pod: Pod) -> Iterator[Cause]:
    """Say which devices of a pod kube-scheduler allocates, where DeviceClasses are followed."""
    states = (shared.state for shared in cluster.states)
    classes = next((state for state in states if isinstance(state, DeviceClasses)), None)
    if classes is None:
        return
    try:
        sentence = left_to_dynamic_resources(pod, classes.class_of)
    except QuantityError:
        return
    if sentence:
        yield _certain(
            "LeftToDynamicResources",
            sentence,
            "if these devices keep the pod waiting, see the pod's conditions and its resource claims",
        )


def device_causes(cluster: Cluster, pod: Pod, message: str) -> Iterator[Cause]:
    """Explain the reasons of the last attempt that concern NUMA nodes and devices; one cause of a name."""
    named: set[str] = set()
    for reason, cause, meaning, fix in _MEANINGS:
        if reason in message and cause not in named:
            named.add(cause)
            yield _certain(cause, meaning + _sets_with_room(message) * (cause == _UNALIGNED), fix)
    of_nodes = _OF_RESERVATIONS.sub("", message)
    if of_nodes != message:
        yield _certain(
            "DevicesOfReservationTaken",
            "Reservations that the pod may use have too few free devices for it, and it gets no others "
            "(allocatePolicy Restricted, or an affinity to the Reservation)",
            "request no more than the Reservation has, wait until its other owners end, or reserve more",
        )
    for type_ in _TYPES:
        if f"Insufficient {type_} devices" in of_nodes or (
            type_ == "gpu" and "Insufficient GPU D" in of_nodes
        ):
            yield _short_of(cluster, type_)
    if "GPUIsolationProvider" in message:
        yield _without_provider(cluster, pod)


def _sets_with_room(message: str) -> str:
    """Return the smallest sets of NUMA nodes with room for each resource, from the masks of a reason."""
    sets = {
        resource: " or ".join("+".join(_numa_nodes(mask)) for mask in masks.split())
        for resource, masks in reversed(_HINT.findall(message))
    }
    told = ", ".join(f"{resource} {nodes or 'none'}" for resource, nodes in sorted(sets.items()))
    return f" (NUMA nodes with room, in some node: {told})" if told else ""


def _numa_nodes(mask: str) -> list[str]:
    """Return the NUMA nodes of a binary number, of which NUMA node 0 is the last digit."""
    return [str(number) for number, digit in enumerate(reversed(mask)) if digit == "1"]


def not_offered_causes(cluster: Cluster, pod: Pod) -> Iterator[Cause]:
    """Name resources that the pod requests and no node offers: kube-scheduler refuses every node for them."""
    nodes = list(_known(cluster, Node))
    states = (shared.state for shared in cluster.states)
    classes = next((state for state in states if isinstance(state, DeviceClasses)), None)
    missing = sorted(
        name
        for name in pod_requests(pod)
        if is_extended(name)
        and (classes is None or name not in classes.class_of)
        and not any(node.status.allocatable.get(name, "0") != "0" for node in nodes)
    )
    if nodes and missing:
        yield _certain(
            "ResourceNotOffered",
            f"no node offers {', '.join(missing)} (status.allocatable)",
            "let what knows the devices enter it: a device plugin, or the worker's controllers "
            "GPUDeviceResource and RDMADeviceResource; or, where koordpy counts it by Devices, let "
            "kube-scheduler's NodeResourcesFit ignore it (ignoredResources)",
        )


def _short_of(cluster: Cluster, type_: str) -> Cause:
    """Explain too few devices of a type with what the Devices report."""
    reporting = [device for device in _known(cluster, Device) if _of_type(device, type_)]
    if not reporting:
        return _certain(
            "DevicesNotReported",
            f"no Device object has a device of type {type_}: koordpy allocates only what Devices list",
            "let the node agent report devices (its gates Accelerators, RDMADevices)",
        )
    return _unhealthy(reporting, type_, Certainty.CERTAIN) or _certain(
        "DevicesTaken",
        f"{counted(len(reporting), 'node')} {have(len(reporting))} devices of type {type_}, all healthy, and "
        "too few of them are free" + _held_for(cluster),
        "wait until pods with devices end; GET /apis/v1/plugins/DeviceShare/nodeDeviceSummaries shows who "
        "has which",
    )


def _unhealthy(reporting: list[Device], type_: str, certainty: Certainty) -> Cause | None:
    """Name the nodes with unhealthy devices of a type, if there are any."""
    ill = sorted(
        device.metadata.name
        for device in reporting
        if any(not each.health for each in _of_type(device, type_))
    )
    if not ill:
        return None
    more = f" and {len(ill) - SHOWN} more" if len(ill) > SHOWN else ""
    return Cause(
        cause="DevicesUnhealthy",
        certainty=certainty,
        message=f"devices of type {type_} are not healthy, and not allocated, on "
        f"{', '.join(ill[:SHOWN])}{more}",
        fix="see the conditions of the devices: kubectl get device NODE -o yaml",
    )


def unhealthy_causes(cluster: Cluster, message: str) -> Iterator[Cause]:
    """Name nodes that offer fewer devices than they have, where kube-scheduler finds too few."""
    for type_ in _TYPES:
        if f"Insufficient koordinator.sh/{type_}" in message:
            cause = _unhealthy(list(_known(cluster, Device)), type_, Certainty.POSSIBLE)
            if cause is not None:
                yield cause


def _held_for(cluster: Cluster) -> str:
    """Say which pods have a node, where they count with their devices, and are not bound yet."""
    held = sorted(
        pod.metadata.key
        for pod in _known(cluster, Pod)
        if not pod.spec.node_name and cluster.nodes.is_assumed(pod.metadata.uid)
    )
    if not held:
        return ""
    more = f" and {len(held) - SHOWN} more" if len(held) > SHOWN else ""
    return f"; pods that are about to be bound count already: {', '.join(held[:SHOWN])}{more}"


def _of_type(device: Device, type_: str) -> list[DeviceInfo]:
    return [each for each in device.spec.devices if each.type == type_]


def _without_provider(cluster: Cluster, pod: Pod) -> Cause:
    """Explain a pod that shares a GPU and names the provider of isolation between the sharers."""
    wanted = pod.metadata.labels.get(LABEL_GPU_ISOLATION_PROVIDER, "")
    having = [
        node.metadata.name
        for node in _known(cluster, Node)
        if node.metadata.labels.get(LABEL_GPU_ISOLATION_PROVIDER) == wanted
    ]
    return _certain(
        "GPUIsolationProviderAbsent",
        f"the pod shares a GPU and must be isolated by {wanted}, which "
        + (
            f"{counted(len(having), 'node')} {have(len(having))}, and none of these suits"
            if having
            else "no node has"
        ),
        f"install {wanted} on nodes and label them {LABEL_GPU_ISOLATION_PROVIDER}={wanted}, or request whole "
        "GPUs",
    )


def _known(cluster: Cluster, type_: type[T]) -> list[T]:
    """Return the objects of a type, if something follows it."""
    found = next((store for store in cluster.stores if store.type is type_), ())
    return [each for each in found if isinstance(each, type_)]


def _certain(cause: str, message: str, fix: str) -> Cause:
    return Cause(cause=cause, certainty=Certainty.CERTAIN, message=message, fix=fix)
