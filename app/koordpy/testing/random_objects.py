"""Random objects of a cluster: few names, so that they interact, and every field that state of the cluster is
derived from.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from random import Random
from typing import Any

from koordpy.api import extension
from koordpy.api.core import ConfigMap, Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_class import DeviceClass
from koordpy.api.koordinator import ElasticQuota, NodeMetric, NodeResourceTopology
from koordpy.api.meta import KubeObject, format_time
from koordpy.api.network_topology import ANNOTATION_SELECTOR
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode

from .objects import NOW, Document

NODES = ("n0", "n1", "n2")
PODS = ("x/p0", "x/p1", "x/p2", "y/p0", "y/p3")
RESERVATIONS = ("r0", "r1", "r2")
QUOTAS = ("q/a", "q/b", "q/c", "q/d")


@dataclass(frozen=True)
class Kind:
    """Objects of a type: their keys (`namespace/name`, or the name alone), and a factory.

    `make` gets the key's name and namespace filled in as `metadata` and returns the rest of the document.
    """

    type: type[KubeObject]
    keys: Sequence[str]
    make: Callable[[Random, str], Document]

    def random(self, rng: Random, key: str, uid: str, version: int) -> KubeObject:
        """Return an object of this key, UID and resource version."""
        namespace, _, name = key.rpartition("/")
        document = self.make(rng, name)
        own = {"name": name, "namespace": namespace, "uid": uid, "resourceVersion": str(version)}
        return decode(self.type, document | {"metadata": document.get("metadata", {}) | own})


def node(rng: Random, name: str) -> Document:
    """Return a node with random allocatable resources, labels, taints and thresholds."""
    thresholds = rng.choice(
        (
            None,
            None,
            '{"usageThresholds":{"cpu":10}}',
            '{"prodUsageThresholds":{"memory":1}}',
            '{"aggregatedUsage":{"usageThresholds":{"memory":20},"usageAggregationType":"p50"}}',
        )
    )
    return {
        "metadata": {
            "labels": {"zone": rng.choice("ab")} if rng.random() < 0.7 else {},
            "annotations": {extension.ANNOTATION_CUSTOM_USAGE_THRESHOLDS: thresholds} if thresholds else {},
        },
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule"}] if rng.random() < 0.3 else []},
        "status": {"allocatable": _some(rng, {"cpu": "8", "memory": "64Gi", "pods": "110", "x.io/gpu": "4"})},
    }


def pod(rng: Random, name: str) -> Document:
    """Return a pod that is pending, runs on a node that may not exist, or has terminated.

    It may use a reservation, be one itself, be nominated to a node, or be terminating.
    """
    labels, annotations = {}, {}
    if rng.random() < 0.7:
        labels["app"] = rng.choice("ab")
    if rng.random() < 0.2:
        labels[extension.LABEL_POD_OPERATING_MODE] = "Reservation"
        if rng.random() < 0.5:
            owner = {"namespace": "x", "name": "p9", "uid": rng.choice(("uid-1", "uid-2"))}
            annotations[extension.ANNOTATION_RESERVATION_CURRENT_OWNER] = json.dumps(owner)
    elif rng.random() < 0.4:
        used = rng.choice(RESERVATIONS)
        annotations[extension.ANNOTATION_RESERVATION_ALLOCATED] = json.dumps(
            {"name": used, "uid": uid_of(Reservation, used, rng.randint(1, 2))}
        )
    if rng.random() < 0.3:
        annotations[ANNOTATION_SELECTOR] = rng.choice("xy")
    if rng.random() < 0.4:
        annotations[extension.ANNOTATION_DEVICE_ALLOCATED] = device_allocated(rng)
    annotations |= allocated_cpus(rng)
    metadata: Document = {"labels": labels, "annotations": annotations}
    if rng.random() < 0.2:
        metadata["deletionTimestamp"] = format_time(NOW)
    on = rng.choice(("", *NODES, "n9"))
    scheduled = format_time(NOW - timedelta(seconds=rng.randint(0, 300)))
    condition = {"type": "PodScheduled", "status": "True", "lastTransitionTime": scheduled}
    requests = _some(rng, {"cpu": rng.choice(("1", "2500m")), "memory": "1Gi", "x.io/gpu": "1"})
    return {
        "metadata": metadata,
        "spec": {
            "nodeName": on,
            "priority": rng.choice((5500, 9500)),
            "containers": [{"name": "c", "resources": {"requests": requests}}],
        },
        "status": {
            "phase": rng.choice(("Running", "Running", "Running", "Succeeded")) if on else "Pending",
            "conditions": [condition] if on else [],
            "nominatedNodeName": rng.choice(("", *NODES)),
        },
    }


def allocated_cpus(rng: Random) -> dict[str, str]:
    """Return annotations with CPUs and NUMA resources; they may be shared, not exist, or be invalid."""
    if rng.random() < 0.3:
        return {}
    cpus = rng.choice(("", "0-1", "1,5", "2-3,90", "3-1", "x"))
    nodes = [
        {"node": number, "resources": _some(rng, {"cpu": rng.choice(("1", "500m")), "memory": "1Gi"})}
        for number in rng.sample((0, 1, 7), rng.randint(0, 2))
    ]
    spec = {"preferredCPUExclusivePolicy": rng.choice(("", "PCPULevel", "NUMANodeLevel"))}
    return {
        extension.ANNOTATION_RESOURCE_STATUS: json.dumps({"cpuset": cpus, "numaNodeResources": nodes}),
        extension.ANNOTATION_RESOURCE_SPEC: json.dumps(spec),
    }


def node_resource_topology(rng: Random, name: str) -> Document:
    """Return the CPUs and NUMA nodes of a node, with reserved CPUs; some of it may be invalid or missing."""
    size = rng.choice((2, 4))
    detail = [{"id": cpu, "core": cpu // 2, "socket": 0, "node": cpu // size} for cpu in range(2 * size)]
    annotations = {
        extension.ANNOTATION_NODE_CPU_TOPOLOGY: rng.choice(
            (json.dumps({"detail": detail}),) * 3 + ("{}", "x")
        ),
        extension.ANNOTATION_NODE_RESERVATION: json.dumps(
            {"reservedCPUs": rng.choice(("", "0", "1-2", "x"))}
        ),
        extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY: rng.choice(
            ('{"policy":"static"}', '{"reservedCPUs":"3"}')
        ),
        extension.ANNOTATION_NODE_RESOURCE_AMPLIFICATION_RATIO: rng.choice(('{"cpu":1.5}', "{}", "null")),
    }
    zones = [
        {
            "name": f"node-{number}",
            "type": "Node",
            "resources": [
                {"name": resource, "allocatable": amount}
                for resource, amount in _some(rng, {"cpu": str(size), "memory": "8Gi"}).items()
            ],
        }
        for number in range(rng.randint(0, 2))
    ]
    return {
        "metadata": {"annotations": _some(rng, annotations)},
        "topologyPolicies": [rng.choice(("SingleNUMANodePodLevel", "Restricted", "None"))],
        "zones": zones,
    }


def node_metric(rng: Random, name: str) -> Document:
    """Return the usage of a node and some of its pods, with or without percentiles."""
    usage = {"resources": {"cpu": str(rng.randint(0, 8)), "memory": f"{rng.randint(0, 64)}Gi"}}
    periods = [{"duration": "5m0s", "usage": {"p95": usage, "p50": usage}}] if rng.random() < 0.5 else []
    measured = rng.sample(PODS, rng.randint(0, 3))
    return {
        "status": {
            "updateTime": format_time(NOW - timedelta(seconds=rng.randint(0, 200))),
            "nodeMetric": {"nodeUsage": usage, "aggregatedNodeUsages": periods},
            "podsMetric": [
                {
                    "namespace": key.partition("/")[0],
                    "name": key.partition("/")[2],
                    "priority": rng.choice(("koord-prod", "koord-batch")),
                    "podUsage": {"resources": {"cpu": "1", "memory": "512Mi"}},
                }
                for key in measured
            ],
        }
    }


def reservation(rng: Random, name: str) -> Document:
    """Return a Reservation that is pending, holds resources of a node, or has ended."""
    amounts = _some(rng, {"cpu": str(rng.randint(1, 8)), "memory": "4Gi", "x.io/gpu": "2"})
    phase = rng.choice(("Available", "Available", "Available", "Pending", "Waiting", "Succeeded"))
    status: Document = {"phase": phase}
    if phase != "Pending":
        status |= {"nodeName": rng.choice(NODES), "allocatable": amounts}
    return {
        "metadata": {"annotations": allocated_cpus(rng)},
        "spec": {
            "ttl": "1h",
            "allocateOnce": rng.random() < 0.5,
            "allocatePolicy": rng.choice(("", "Aligned", "Restricted")),
            "unschedulable": rng.random() < 0.2,
            "owners": [{"labelSelector": {"matchLabels": {"app": rng.choice("ab")}}}],
            "template": {"spec": {"containers": [{"name": "c", "resources": {"requests": amounts}}]}},
        },
        "status": status,
    }


def device_allocated(rng: Random) -> str:
    """Return the annotation of allocated devices; sometimes it cannot be read, or lists one device twice."""
    if rng.random() < 0.1:
        return rng.choice(("{", '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"-5"}}]}'))
    gpus = [
        {"minor": rng.randint(0, 3), "resources": _some(rng, {extension.GPU_CORE: "50", "x.io/y": "1"})}
        for _ in range(rng.randint(0, 2))
    ]
    function = {"busID": rng.choice(("0000:01:00.2", "0000:01:00.3"))}
    card: Document = {"minor": 0, "resources": {extension.RDMA: "1"}, "extension": {"vfs": [function]}}
    return json.dumps({"gpu": gpus, "rdma": [card] if rng.random() < 0.5 else []})


def device(rng: Random, name: str) -> Document:
    """Return GPUs and network cards, healthy or not, with or without places and partitions."""
    devices: list[Document] = []
    for minor in range(rng.randint(0, 3)):
        info: Document = {
            "type": rng.choice(("gpu", "gpu", "rdma")),
            "id": f"id-{minor}",
            "minor": minor,
            "health": rng.random() < 0.7,
            "resources": {extension.GPU_CORE: "100", extension.GPU_MEMORY: "16Gi"},
        }
        if rng.random() < 0.8:
            info["topology"] = {"nodeID": rng.choice((-1, 0, 1)), "pcieID": rng.choice("ab")}
        devices.append(info)
    table = rng.choice(('{"1":[{"minors":[0],"allocationScore":1}]}', "{}", "none"))
    labels = {extension.LABEL_GPU_PARTITION_POLICY: rng.choice(("Honor", "Prefer"))}
    labels[extension.LABEL_SECONDARY_DEVICE_WELL_PLANNED] = rng.choice(("true", "false", ""))
    return {
        "metadata": {
            "labels": labels,
            "annotations": {extension.ANNOTATION_GPU_PARTITIONS: table} if rng.random() < 0.5 else {},
        },
        "spec": {"devices": devices},
    }


def config_map(rng: Random, name: str) -> Document:
    """Return a ConfigMap with templates of GPU shared resources, which sometimes cannot be read."""
    return {
        "data": {
            "data.yaml": rng.choice(("", "x-y: {one: {a.io/b: 1}}", "x-z: {}", "[", "x: {one: {a: [1]}}"))
        }
    }


def elastic_quota(rng: Random, name: str) -> Document:
    """Return a quota below one that may not exist, with a namespace that is bound to no other."""
    names = [key.partition("/")[2] for key in QUOTAS]
    labels = {extension.LABEL_QUOTA_IS_PARENT: rng.choice(("true", "false"))}
    if parent := rng.choice(["", *(other for other in names if other != name)]):
        labels[extension.LABEL_QUOTA_PARENT] = parent
    bound = rng.sample((f"{name}-1", f"{name}-2"), rng.randint(0, 2))
    annotations = {extension.ANNOTATION_QUOTA_NAMESPACES: json.dumps(bound)} if bound else {}
    return {
        "metadata": {"labels": labels, "annotations": annotations},
        "spec": {"min": {"cpu": str(rng.randint(0, 4))}, "max": {"cpu": "8"}},
    }


def device_class(rng: Random, name: str) -> Document:
    """Return a class with an extended resource that another one may have too, or with none."""
    at = format_time(NOW - timedelta(seconds=rng.randint(0, 2)))
    spec = {"extendedResourceName": rng.choice(("x.io/gpu", "x.io/nic"))} if rng.random() < 0.7 else {}
    return {"metadata": {"creationTimestamp": at}, "spec": spec}


KINDS: Mapping[type[KubeObject], Kind] = {
    kind.type: kind
    for kind in (
        Kind(Node, NODES, node),
        Kind(Pod, PODS, pod),
        Kind(NodeMetric, (*NODES, "n9"), node_metric),
        Kind(NodeResourceTopology, (*NODES, "n9"), node_resource_topology),
        Kind(Reservation, RESERVATIONS, reservation),
        Kind(ElasticQuota, QUOTAS, elastic_quota),
        Kind(Device, (*NODES, "n9"), device),
        Kind(ConfigMap, ("x/c0", "x/c1"), config_map),
        Kind(DeviceClass, ("d1", "d2", "d3"), device_class),
    )
}
"""The kinds of random objects that most state is derived from."""


def uid_of(type_: type[KubeObject], name: str, number: int) -> str:
    """Return the UID of the first object of a name, the second one that takes that name, and so on."""
    return f"{type_.__name__}-{name}-{number}"


def _some(rng: Random, amounts: Mapping[str, Any]) -> Document:
    """Return most of the amounts."""
    return {name: amount for name, amount in amounts.items() if rng.random() < 0.8}
