"""Nodes with NUMA nodes and devices, pods that ask for them, and books of who has which.

A node has two NUMA nodes with eight cores of two threads each, eight GPUs and a network card for each pair of
them, four pairs at four PCIe switches.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Mapping
from typing import Any

from koordpy.api import device_allocations, extension, resource_status
from koordpy.api.core import Pod
from koordpy.api.resources import pod_requests
from koordpy.lib import cpuset
from tests.e2e.racing import pod

Document = dict[str, Any]

CPUS, GPUS, CARDS = 32, 8, 4
GPU_MEMORY = "80Gi"
ONE_GPU = {extension.GPU_CORE: "100", extension.GPU_MEMORY_RATIO: "100"}
HALF_A_GPU = {extension.GPU_CORE: "50", extension.GPU_MEMORY_RATIO: "50"}
JOINT = json.dumps({"deviceTypes": ["gpu", "rdma"], "requiredScope": "SamePCIe"})
BOUND = json.dumps({"preferredCPUBindPolicy": "FullPCPUs"})
PROD = {
    "apiVersion": "scheduling.k8s.io/v1",
    "kind": "PriorityClass",
    "metadata": {"name": "koord-prod"},
    "value": 9000,
}


def device_node(name: str) -> Document:
    """Return a node that is ready, as the controllers of devices complete it."""
    capacity = {
        "cpu": str(CPUS),
        "memory": "256Gi",
        "pods": "110",
        extension.GPU: str(100 * GPUS),
        extension.GPU_CORE: str(100 * GPUS),
        extension.GPU_MEMORY: f"{80 * GPUS}Gi",
        extension.GPU_MEMORY_RATIO: str(100 * GPUS),
        extension.RDMA: str(100 * CARDS),
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": {"kubernetes.io/hostname": name}},
        "status": {
            "capacity": capacity,
            "allocatable": capacity,
            "conditions": [{"type": "Ready", "status": "True", "reason": "Test"}],
        },
    }


def topology(name: str) -> Document:
    """Return the NodeResourceTopology of a node."""
    half = CPUS // 2
    detail = [
        {"id": cpu, "core": cpu // 2, "socket": cpu // half, "node": cpu // half} for cpu in range(CPUS)
    ]
    amounts = {"cpu": str(half), "memory": "128Gi"}
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
        "zones": [{"name": f"node-{n}", "type": "Node", "resources": resources} for n in range(2)],
    }


def device(name: str) -> Document:
    """Return the Device of a node."""
    gpus = [
        {
            "type": "gpu",
            "id": f"GPU-{name}-{minor}",
            "minor": minor,
            "health": True,
            "resources": {**ONE_GPU, extension.GPU_MEMORY: GPU_MEMORY},
            "topology": _place(minor // 2),
        }
        for minor in range(GPUS)
    ]
    cards = [
        {
            "type": "rdma",
            "id": f"0000:{card:02x}:00.0",
            "minor": card,
            "health": True,
            "resources": {extension.RDMA: "100"},
            "topology": _place(card),
        }
        for card in range(CARDS)
    ]
    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": name},
        "spec": {"devices": [*gpus, *cards]},
    }


def _place(switch: int) -> Document:
    return {"socketID": switch // 2, "nodeID": switch // 2, "pcieID": str(switch), "busID": ""}


def asking(
    name: str, cpu: str, scheduler: str, devices: Mapping[str, str], *, bound: bool, joint: bool = False
) -> Document:
    """Return a pod that requests devices, with CPUs of its own if `bound`."""
    annotations = {extension.ANNOTATION_RESOURCE_SPEC: BOUND} if bound else {}
    if joint:
        annotations["scheduling.koordinator.sh/device-joint-allocate"] = JOINT
    document = pod(name, cpu, scheduler, annotations=annotations)
    amounts = {"cpu": cpu, "memory": "1Gi", **devices}
    document["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    if bound:
        document["metadata"]["labels"] = {extension.LABEL_POD_QOS: "LSR"}
        document["spec"]["priorityClassName"] = "koord-prod"
    return document


class Books:
    """The CPUs and devices of all bound pods, and what is wrong with them at any moment.

    Pass its methods to a watch that reports each pod once when it is bound and once when it is gone.
    """

    def __init__(self) -> None:
        self.cpus: dict[tuple[str, int], str] = {}
        self.devices: defaultdict[tuple[str, str, int], Counter[str]] = defaultdict(Counter)
        self.problems: list[str] = []

    def bound(self, found: Pod) -> None:
        """Enter a pod; what others have already is a problem, and what it lacks."""
        name, node = found.metadata.name, found.spec.node_name
        requests = pod_requests(found)
        cpus = _cpus(found)
        wanted = (
            requests["cpu"].value() if extension.ANNOTATION_RESOURCE_SPEC in found.metadata.annotations else 0
        )
        if len(cpus) != wanted:
            self.problems.append(f"{name} on {node} has {len(cpus)} of {wanted} CPUs")
        for cpu in cpus:
            other = self.cpus.setdefault((node, cpu), name)
            if other != name:
                self.problems.append(f"{name} and {other} have CPU {cpu} of {node}")
        self._enter(found, node, requests)

    def _enter(self, found: Pod, node: str, requests: Mapping[str, Any]) -> None:
        name, allocated = found.metadata.name, device_allocations.of(found.metadata.annotations)
        for resource in (extension.GPU_CORE, extension.GPU_MEMORY_RATIO, extension.RDMA):
            given = sum(
                each.resources[resource].value()
                for devices in allocated.values()
                for each in devices
                if resource in each.resources
            )
            wanted = requests[resource].value() if resource in requests else 0
            if given != wanted:
                self.problems.append(f"{name} on {node} has {given} of {wanted} {resource}")
        for type_, devices in allocated.items():
            for each in devices:
                used = self.devices[node, type_, each.minor]
                for resource, amount in each.resources.items():
                    used[resource] += amount.value()
                    if resource != extension.GPU_MEMORY and used[resource] > 100:
                        self.problems.append(
                            f"{type_} {each.minor} of {node}: {used[resource]} % of {resource}"
                        )
        if "rdma" in allocated and "gpu" in allocated:
            switches = {each.minor // 2 for each in allocated["gpu"]}
            if switches != {each.minor for each in allocated["rdma"]}:
                self.problems.append(f"{name} on {node}: GPUs and network cards of several switches")

    def gone(self, found: Pod) -> None:
        """Remove a pod."""
        node = found.spec.node_name
        for cpu in _cpus(found):
            self.cpus.pop((node, cpu), None)
        for type_, devices in device_allocations.of(found.metadata.annotations).items():
            for each in devices:
                used = self.devices[node, type_, each.minor]
                for resource, amount in each.resources.items():
                    used[resource] -= amount.value()

    def used(self, resource: str) -> int:
        """Return how much of a resource of devices is in use on all nodes."""
        return sum(used[resource] for used in self.devices.values())

    def free(self, node: str) -> tuple[int, int]:
        """Return how many CPUs of a node no pod has for its own, and how many GPUs are wholly free."""
        cpus = CPUS - sum(of_node == node for of_node, _ in self.cpus)
        return cpus, sum(not self.devices[node, "gpu", minor][extension.GPU_CORE] for minor in range(GPUS))


def _cpus(found: Pod) -> frozenset[int]:
    status = resource_status.of(found.metadata.annotations)
    return cpuset.parse(status.cpuset) if status.cpuset else frozenset()
