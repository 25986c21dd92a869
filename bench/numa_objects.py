"""Nodes with NUMA nodes and devices, what runs on them already, and the pods and quotas of their cluster.

Every second node has 128 CPUs on two NUMA nodes and 8 GPUs with 4 network cards, and on every fourth of those
some GPUs and CPUs are taken; the others have 32 CPUs on two NUMA nodes. All have a NodeResourceTopology.
"""

import json
from collections.abc import Iterator
from typing import Any

from bench import objects
from bench.objects import Document, node_name
from koordpy.api import extension

QUOTAS = 100
QUOTA_NAMESPACE = "koordinator-system"
SINGLE_NUMA_NODE = "SingleNUMANode"

_GPUS, _CARDS, _GPU_GIB = 8, 4, 80
_TAKEN_GPUS, _TAKEN_CPUS = 2, 16


def has_gpus(i: int) -> bool:
    """Return whether the i-th node has GPUs."""
    return i % 2 == 1


def nodes(count: int, policy: str = "") -> Iterator[Document]:
    """The nodes of a cluster, with a NUMA topology policy on those with GPUs."""
    return (node(i, policy) for i in range(count))


def node(i: int, policy: str = "") -> Document:
    """A ready node."""
    made = objects.node(i)
    if has_gpus(i):
        amounts = {
            **made["status"]["allocatable"],
            "cpu": "128",
            "memory": "1Ti",
            extension.NVIDIA_GPU: str(_GPUS),
            extension.GPU_CORE: str(100 * _GPUS),
            extension.GPU_MEMORY_RATIO: str(100 * _GPUS),
            extension.GPU_MEMORY: f"{_GPU_GIB * _GPUS}Gi",
            extension.RDMA: str(100 * _CARDS),
        }
        made["status"] |= {"allocatable": amounts, "capacity": amounts}
        if policy:
            made["metadata"]["labels"][extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY] = policy
    return made


def topologies(count: int) -> Iterator[Document]:
    """The NodeResourceTopology of every node, as its koordlet reports it."""
    return (topology(i) for i in range(count))


def topology(i: int) -> Document:
    """Two NUMA nodes, one a socket, with two threads a core: 0 and 1 are the first core."""
    cpus, memory = (64, "512Gi") if has_gpus(i) else (16, "64Gi")
    detail = [
        {"id": cpu, "core": cpu // 2, "socket": cpu // cpus, "node": cpu // cpus} for cpu in range(2 * cpus)
    ]
    amounts = {"cpu": str(cpus), "memory": memory}
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "resources": [
                {"name": name, "allocatable": amount, "available": amount, "capacity": amount}
                for name, amount in amounts.items()
            ],
        }
        for zone in range(2)
    ]
    annotations = {extension.ANNOTATION_NODE_CPU_TOPOLOGY: json.dumps({"detail": detail})}
    return {
        "apiVersion": "topology.node.k8s.io/v1alpha1",
        "kind": "NodeResourceTopology",
        "metadata": {"name": node_name(i), "annotations": annotations},
        "topologyPolicies": ["None"],
        "zones": zones,
    }


def devices(count: int) -> Iterator[Document]:
    """The Device of every node with GPUs."""
    return (device(i) for i in range(count) if has_gpus(i))


def device(i: int) -> Document:
    """8 GPUs, two at a PCIe switch and four at a NUMA node, and a network card at each switch."""
    gpu = {
        extension.GPU_CORE: "100",
        extension.GPU_MEMORY_RATIO: "100",
        extension.GPU_MEMORY: f"{_GPU_GIB}Gi",
    }

    def listed(type_: str, minor: int, switch: int, resources: dict[str, str]) -> Document:
        return {
            "type": type_,
            "id": f"{type_}-{i}-{minor}",
            "minor": minor,
            "health": True,
            "resources": resources,
            "topology": {"socketID": switch // 2, "nodeID": switch // 2, "pcieID": str(switch)},
        }

    return {
        "apiVersion": "scheduling.koordinator.sh/v1alpha1",
        "kind": "Device",
        "metadata": {"name": node_name(i)},
        "spec": {
            "devices": [
                *(listed("gpu", minor, minor // 2, gpu) for minor in range(_GPUS)),
                *(listed("rdma", minor, minor, {extension.RDMA: "100"}) for minor in range(_CARDS)),
            ]
        },
    }


def running_pods(count: int) -> Iterator[Document]:
    """Pods on a fourth of the nodes with GPUs, with two GPUs and 16 CPUs of the first NUMA node each."""
    for i in range(count):
        if has_gpus(i) and i // 2 % 4 == 0:
            yield _running_pod(i)


def _running_pod(i: int) -> Document:
    pod = numa_pod(i, gpus=_TAKEN_GPUS, cpus=_TAKEN_CPUS)
    allocated = {
        extension.GPU_CORE: "100",
        extension.GPU_MEMORY_RATIO: "100",
        extension.GPU_MEMORY: f"{_GPU_GIB}Gi",
    }
    status = {"cpuset": f"0-{_TAKEN_CPUS - 1}"}
    given = [
        {"minor": minor, "resources": allocated, "id": f"gpu-{i}-{minor}"} for minor in range(_TAKEN_GPUS)
    ]
    pod["metadata"]["name"] = f"running-{i:05d}"
    pod["metadata"]["annotations"] |= {
        extension.ANNOTATION_RESOURCE_STATUS: json.dumps(status),
        extension.ANNOTATION_DEVICE_ALLOCATED: json.dumps({"gpu": given}),
    }
    pod["spec"]["nodeName"] = node_name(i)
    pod["status"] = {"phase": "Running"}
    return pod


def quotas() -> Iterator[Document]:
    """ElasticQuotas of teams, all below the root."""
    for i in range(QUOTAS):
        yield {
            "apiVersion": "scheduling.sigs.k8s.io/v1alpha1",
            "kind": "ElasticQuota",
            "metadata": {
                "name": quota_name(i),
                "namespace": QUOTA_NAMESPACE,
                "labels": {
                    extension.LABEL_QUOTA_IS_PARENT: "false",
                    extension.LABEL_QUOTA_ALLOW_LENT_RESOURCE: "false",  # pods here are asked about only
                },
            },
            "spec": {
                "min": {"cpu": "1000", "memory": "4000Gi", extension.NVIDIA_GPU: "200"},
                "max": {"cpu": "100000", "memory": "1000Ti", extension.NVIDIA_GPU: "20000"},
            },
        }


def quota_name(i: int) -> str:
    """The name of the quota that the i-th pod belongs to."""
    return f"team-{i % QUOTAS:03d}"


def waiting_pod(i: int, namespace: str = "default") -> Document:
    """A small pod of a quota that waits for a node and asks for no CPUs of its own and no device."""
    pod = objects.waiting_pod(i, namespace)
    pod["metadata"]["labels"][extension.LABEL_QUOTA_NAME] = quota_name(i)
    return pod


def numa_pod(i: int, namespace: str = "default", *, gpus: int = 4, cpus: int = 32) -> Document:
    """A pod of a quota that waits for GPUs and for whole cores of its own."""
    pod = waiting_pod(i, namespace)
    amounts: dict[str, Any] = {"cpu": str(cpus), "memory": "64Gi", extension.NVIDIA_GPU: str(gpus)}
    pod["metadata"]["labels"] |= {extension.LABEL_POD_QOS: "LSR"}
    pod["metadata"]["annotations"] = {
        extension.ANNOTATION_RESOURCE_SPEC: json.dumps({"preferredCPUBindPolicy": "FullPCPUs"})
    }
    pod["spec"]["priority"] = 9_000
    pod["spec"]["priorityClassName"] = "koord-prod"
    pod["spec"]["containers"][0]["resources"] = {"requests": amounts, "limits": amounts}
    return pod
