"""The demo's nodes with GPUs and network cards, and the pods that share them, as documents.

A node has two NUMA nodes, each with four cores of two threads, two GPUs and a network card. Taints keep other
pods away.
"""

import json
from typing import Any, Final

from koordpy.api import device_allocations, extension, resource_status
from koordpy.api.core import Pod

from .workload import NODE_CPU

Document = dict[str, Any]

NAMESPACE: Final = "training"
NODES: Final = ("gpu-000", "gpu-001")
GPUS: Final = 4

_CARDS: Final = 2
_TAINT: Final = "example.com/accelerators"
_HALF: Final = {extension.GPU_CORE: "50", extension.GPU_MEMORY_RATIO: "50"}
_PAIR: Final = {extension.GPU_CORE: "200", extension.GPU_MEMORY_RATIO: "200", extension.RDMA: "100"}
_JOINT: Final = {
    "scheduling.koordinator.sh/device-joint-allocate": json.dumps(
        {"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"}
    )
}
_BOUND: Final = {extension.ANNOTATION_RESOURCE_SPEC: json.dumps({"preferredCPUBindPolicy": "FullPCPUs"})}


def nodes() -> list[Document]:
    """Return nodes with what they offer, their NodeResourceTopologies and Devices."""
    return [make(name) for name in NODES for make in (_node, _topology, _device)]


def pods() -> list[Document]:
    """Return two that share GPUs, one with GPUs and a card at one switch, and one with CPUs of its own."""
    return [
        *(_pod(f"inference-{number}", "1", _HALF, {}) for number in range(2)),
        _pod("fine-tuning", "1", _PAIR, _JOINT),
        _pod("cache", "4", {}, _BOUND),
    ]


def described(pod: Pod) -> str:
    """Return the CPUs and devices of a pod, as its annotations say; empty if it has none."""
    parts = []
    if cpus := resource_status.of(pod.metadata.annotations).cpuset:
        parts.append(f"CPUs {cpus}")
    for type_, devices in device_allocations.of(pod.metadata.annotations).items():
        shares = (each.resources.get(extension.GPU_CORE) for each in devices)
        part = next((f" ({share} % each)" for share in shares if share is not None), "")
        parts.append(f"{type_} {', '.join(str(each.minor) for each in devices)}{part}")
    return "; ".join(parts)


def _node(name: str) -> Document:
    amounts = {
        "cpu": str(NODE_CPU),
        "memory": "64Gi",
        "pods": "110",
        extension.GPU: str(100 * GPUS),
        extension.GPU_CORE: str(100 * GPUS),
        extension.GPU_MEMORY: f"{80 * GPUS}Gi",
        extension.GPU_MEMORY_RATIO: str(100 * GPUS),
        extension.GPU_SHARED: str(100 * GPUS),
        extension.RDMA: str(100 * _CARDS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "spec": {"taints": [{"key": _TAINT, "effect": "NoSchedule"}]},
        "status": {"capacity": amounts, "allocatable": amounts},
    }


def _topology(name: str) -> Document:
    half = NODE_CPU // 2
    detail = [
        {"id": cpu, "core": cpu // 2, "socket": cpu // half, "node": cpu // half} for cpu in range(NODE_CPU)
    ]
    amounts = {"cpu": str(half), "memory": "32Gi"}
    resources = [
        {"name": key, "capacity": amount, "allocatable": amount, "available": amount}
        for key, amount in amounts.items()
    ]
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {
            "name": name,
            "annotations": {extension.ANNOTATION_NODE_CPU_TOPOLOGY: json.dumps({"detail": detail})},
        },
        "topologyPolicies": ["None"],
        "zones": [{"name": f"node-{number}", "type": "Node", "resources": resources} for number in range(2)],
    }


def _device(name: str) -> Document:
    gpu = dict.fromkeys((extension.GPU_CORE, extension.GPU_MEMORY_RATIO), "100")
    gpu[extension.GPU_MEMORY] = "80Gi"
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {
            "devices": [
                *(_one("gpu", minor, minor * _CARDS // GPUS, gpu) for minor in range(GPUS)),
                *(_one("rdma", minor, minor, {extension.RDMA: "100"}) for minor in range(_CARDS)),
            ]
        },
    }


def _one(type_: str, minor: int, numa_node: int, resources: dict[str, str]) -> Document:
    place = {"socketID": numa_node, "nodeID": numa_node, "pcieID": str(numa_node), "busID": ""}
    return {
        "type": type_,
        "id": f"{type_}-{minor}",
        "minor": minor,
        "health": True,
        "resources": resources,
        "topology": place,
    }


def _pod(name: str, cpu: str, devices: dict[str, str], annotations: dict[str, str]) -> Document:
    amounts = {"cpu": cpu, "memory": "1Gi", **devices}
    labels = {"app": "accelerated", extension.LABEL_POD_QOS: "LSR" if not devices else "LS"}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"namespace": NAMESPACE, "name": name, "labels": labels, "annotations": annotations},
        "spec": {
            "schedulerName": "koord-scheduler",
            "priorityClassName": "koord-prod",
            "tolerations": [{"key": _TAINT, "operator": "Exists"}],
            "containers": [
                {
                    "name": name,
                    "image": f"{name}:1",
                    "command": ["sleep", "24h"],
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        },
    }
