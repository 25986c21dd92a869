"""Whether CPUs of NUMA nodes and devices can be allocated: what nodes report, what keeps sharers apart."""

from collections.abc import AsyncIterator, Collection, Iterable, Iterator, Mapping
from typing import Final

import msgspec

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_allocations import MOST_DEVICES
from koordpy.api.device_allocations import of as allocated_devices
from koordpy.api.device_class import DeviceClass, classes_by_resource
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.quantity import QuantityError, from_wire
from koordpy.api.reservation import Reservation
from koordpy.api.resources import pod_requests
from koordpy.cluster.errors import NotFound
from koordpy.features.feature import Part
from koordpy.lib import go_json

from .finding import Area, Finding
from .installation import Installation

AREA = Area("devices")

NODE_NUMA_RESOURCE: Final = "NodeNUMAResource"
DEVICE_SHARE: Final = "DeviceShare"

SHOWN: Final = 5
"""Names that a finding lists."""

_WHOLE: Final = 100
_GPUS: Final = (extension.NVIDIA_GPU, extension.AMD_GPU, extension.HYGON_DCU)
_TYPES: Final[Mapping[str, Collection[str]]] = {
    "gpu": (
        *_GPUS,
        extension.GPU,
        extension.GPU_CORE,
        extension.GPU_MEMORY,
        extension.GPU_MEMORY_RATIO,
        extension.GPU_SHARED,
    ),
    "rdma": (extension.RDMA,),
    "fpga": (extension.FPGA,),
}
_POLICIES: Final = (extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY, extension.LABEL_NODE_CPU_BIND_POLICY)


async def check(installation: Installation) -> AsyncIterator[Finding]:
    """Check nodes, their NodeResourceTopologies and Devices, where a profile has one of the plugins."""
    if why := installation.unchecked(Part.EXTENDER, NODE_NUMA_RESOURCE, DEVICE_SHARE):
        yield AREA.skipped(why)
        return
    plugins = {plugin.name for plugin in installation.plugins}
    client = installation.client
    nodes = await client.list_all(Node)
    findings: list[Finding] = []
    try:
        if NODE_NUMA_RESOURCE in plugins:
            findings += topologies(nodes, await client.list_all(NodeResourceTopology))
        if DEVICE_SHARE in plugins:
            devices = await client.list_all(Device)
            pods = [pod for pod in await client.list_all(Pod) if not pod.is_terminal]
            findings += reported(nodes, devices)
            findings += shared(nodes, pods)
            try:
                classes = await client.list_all(DeviceClass)
            except NotFound:
                classes = []  # before Kubernetes 1.34
            findings += left(classes, devices)
            if _rewrites(installation, "/mutate-pod") and not _rewrites(installation, "/mutate-reservation"):
                findings += unmatched(await client.list_all(Reservation))
    except NotFound:
        return  # the area of the definitions reports it
    for finding in findings:
        yield finding
    if not findings:
        yield AREA.ok("devices", "what nodes report can be allocated")


def topologies(nodes: Iterable[Node], known: Iterable[NodeResourceTopology]) -> Iterator[Finding]:
    """Yield nodes whose CPUs cannot be bound though they should be, and where kubelet binds CPUs too."""
    by_name = {topology.metadata.name: topology for topology in known}
    nodes = list(nodes)
    bare = [node.metadata.name for node in nodes if not _has_cpus(by_name.get(node.metadata.name))]
    wanting = [
        node.metadata.name
        for node in nodes
        if node.metadata.name in bare and any(node.metadata.labels.get(label) for label in _POLICIES)
    ]
    if wanting:
        yield AREA.problem(
            _names(wanting),
            "a label asks for a CPU bind or NUMA policy, and the NodeResourceTopology has no CPU topology "
            "that can be read: "
            "pods that need it are refused there",
            "let the node agent report it (gate NodeTopologyReport), or remove the label",
        )
    elif bare and len(bare) == len(nodes):
        yield AREA.warning(
            NODE_NUMA_RESOURCE,
            "no node has a NodeResourceTopology with its CPUs: no CPUs can be bound, no NUMA policy works",
            "let the node agents report them (gate NodeTopologyReport)",
        )
    static = sorted(name for name, topology in by_name.items() if _kubelet_policy(topology) == "static")
    if static:
        yield AREA.warning(
            _names(static),
            "kubelet has the static CPU manager policy: it chooses CPUs for Guaranteed pods itself, whatever "
            "koordpy has chosen",
            "cpuManagerPolicy: none in kubelet's configuration, where koordpy binds CPUs",
        )


def _has_cpus(topology: NodeResourceTopology | None) -> bool:
    """Return whether there is a CPU topology that can be read, with CPUs."""
    annotations = {} if topology is None else topology.metadata.annotations
    try:
        text = annotations.get(extension.ANNOTATION_NODE_CPU_TOPOLOGY, "null")
        document = go_json.members(go_json.parse(text), "value")
        return bool(go_json.array(document.get("detail"), "detail"))
    except ValueError:
        return False


def _kubelet_policy(topology: NodeResourceTopology) -> str:
    text = topology.metadata.annotations.get(extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY, "{}")
    try:
        document = msgspec.json.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return ""
    policy = document.get("policy") if isinstance(document, dict) else None
    return policy if isinstance(policy, str) else ""


def reported(nodes: Iterable[Node], devices: Iterable[Device]) -> Iterator[Finding]:
    """Yield Devices of no node, unhealthy devices, and nodes with device plugins that have no Device."""
    nodes, devices = list(nodes), list(devices)
    names = {node.metadata.name for node in nodes}
    have = {device.metadata.name for device in devices}
    if strays := sorted(have - names):
        yield AREA.note(_names(strays), "Device objects of nodes that do not exist", "delete them")
    ill = [
        f"{device.metadata.name} ({', '.join(f'{each.type} {each.minor}' for each in unwell[:SHOWN])})"
        for device in devices
        if (unwell := [each for each in device.spec.devices if not each.health])
    ]
    if ill:
        yield AREA.warning(
            _names(sorted(ill)),
            "devices are not healthy: they are not allocated",
            "see their conditions: kubectl get device NODE -o yaml",
        )
    if crowded := sorted(each.metadata.name for each in devices if len(each.spec.devices) > MOST_DEVICES):
        yield AREA.problem(
            _names(crowded),
            f"the Device lists more than {MOST_DEVICES} devices: none of them is allocated",
            "let the node agent report what the node has, one item a device",
        )
    without = sorted(
        node.metadata.name
        for node in nodes
        if node.metadata.name not in have and any(_offers(node, name) for name in _GPUS)
    )
    if without:
        yield AREA.warning(
            _names(without),
            "a device plugin offers GPUs, and there is no Device: kubelet allocates them, koordpy does not",
            "let the node agent report them (gate Accelerators; components/agent-devices)",
        )


def _offers(node: Node, name: str) -> bool:
    try:
        return from_wire(node.status.allocatable.get(name, 0)).value() > 0
    except QuantityError:
        return False


def shared(nodes: Iterable[Node], pods: Iterable[Pod]) -> Iterator[Finding]:
    """Yield pods that share GPUs that nothing divides, and those whose isolation provider no node has."""
    provided = {node.metadata.labels.get(extension.LABEL_GPU_ISOLATION_PROVIDER, "") for node in nodes}
    apart, lacking = [], []
    for pod in pods:
        if not _shares(pod):
            continue
        wanted = pod.metadata.labels.get(extension.LABEL_GPU_ISOLATION_PROVIDER, "")
        if not wanted:
            apart.append(pod.metadata.key)
        elif wanted not in provided:
            lacking.append(f"{pod.metadata.key} ({wanted})")
    if lacking:
        yield AREA.problem(
            _names(sorted(lacking)),
            "must be isolated from pods on the same GPU by a provider that no node has: it gets no node",
            f"install the provider, and label its nodes {extension.LABEL_GPU_ISOLATION_PROVIDER}",
        )
    if apart:
        yield AREA.warning(
            _names(sorted(apart)),
            "share a GPU, and nothing keeps them from using all of it",
            "install an isolation provider and label nodes and pods "
            f"{extension.LABEL_GPU_ISOLATION_PROVIDER}, or request whole GPUs",
        )


def _shares(pod: Pod) -> bool:
    """Return whether a pod has a part of a GPU, or requests one."""
    try:
        given = allocated_devices(pod.metadata.annotations).get("gpu", ())
        requests = pod_requests(pod)
    except (QuantityError, ValueError):
        return False
    ratios = [
        each.resources[extension.GPU_MEMORY_RATIO]
        for each in given
        if extension.GPU_MEMORY_RATIO in each.resources
    ]
    if ratios:
        return any(ratio.value() < _WHOLE for ratio in ratios)
    ratio = requests.get(extension.GPU_MEMORY_RATIO) or requests.get(extension.GPU)
    if ratio is not None:
        count = requests.get(extension.GPU_SHARED)
        return ratio.value() < _WHOLE * max(1, count.value() if count is not None else 1)
    return extension.GPU_MEMORY in requests


def left(classes: Iterable[DeviceClass], devices: Iterable[Device]) -> Iterator[Finding]:
    """Yield resources that kube-scheduler allocates because of DeviceClasses, and koordpy does not."""
    types = {each.type for device in devices for each in device.spec.devices}
    for resource, name in sorted(classes_by_resource(classes).items()):
        of_type = next((type_ for type_, names in _TYPES.items() if resource in names), "")
        if of_type and of_type in types:
            yield AREA.warning(
                resource,
                f"DeviceClass {name} backs it: kube-scheduler allocates it; koordpy allocates the devices of "
                f"type {of_type} in Device objects for other requests: both give away those in both",
                "let Devices and ResourceSlices list different devices",
            )
        elif of_type:
            yield AREA.note(resource, f"kube-scheduler allocates it, for DeviceClass {name}")


def _rewrites(installation: Installation, path: str) -> bool:
    """Return whether a webhook path rewrites requests for GPUs."""
    chain = installation.chains.get(path)
    return chain is not None and any(handler.name == "DeviceResourceSpec" for handler in chain.handlers)


def unmatched(reservations: Iterable[Reservation]) -> Iterator[Finding]:
    """Yield Reservations whose template requests GPUs by a name that the webhook removes from pods."""
    names = sorted(
        each.metadata.name for each in reservations if not each.is_terminated and _requests_percent(each)
    )
    if names:
        yield AREA.warning(
            _names(names),
            f"the template requests {extension.GPU}, which the webhook rewrites in pods: no pod requests "
            "what is reserved, and owners use the GPUs without using the Reservation up",
            "featureGates: {ReservationMutatingWebhook: true, ReservationDeviceResourceSpec: true}, and "
            "create them anew; or write the template as pods are after admission",
        )


def _requests_percent(reservation: Reservation) -> bool:
    template = reservation.spec.template
    return template is not None and any(
        extension.GPU in container.resources.requests for container in template.spec.containers
    )


def _names(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"
