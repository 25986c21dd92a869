"""`koordpy audit`: what checking a large cluster costs after its objects were listed.

In process and on one thread, on objects as a client decodes them. Nodes have two NUMA nodes, 128 CPUs and
eight GPUs; of their thirty pods eight have CPUs of their own, eight parts of GPUs, and half belong to quotas;
every tenth node has a Reservation that is in use. In the dirty books every hundredth node hands out CPUs and
a GPU twice and is over-committed. `listing` is the decoding of the lists of pods, page by page.
"""

import gc
import time
from collections.abc import Sequence
from typing import Any

import msgspec

from bench.report import Result
from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.koordinator import ElasticQuota, NodeResourceTopology
from koordpy.api.meta import KubeObject
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.audit.auditing import audit
from koordpy.audit.objects import Objects
from koordpy.audit.topology import CPU_TOPOLOGY
from koordpy.cluster.wire import decode_page
from koordpy.lib import garbage

NODES, PODS_OF_NODE = 5_000, 30
QUOTAS = 500
CPUS, GPUS = 128, 8
SHARE = 100
"""Every so many nodes are dirty."""
PAGE = 500

Document = dict[str, Any]


def run(rounds: int = 5, nodes: int = NODES) -> Result:
    """Measure, each round on new objects."""
    result = Result.begin(
        "audit", audit="audit, s", cpu="CPU, s", listing="decoding of the pods, s", findings="findings"
    )
    garbage.collect_seldom()  # as the command line does
    for _ in range(rounds):
        for dirty in (False, True):
            documents, listing = _documents(nodes, dirty=dirty)
            books = f"{nodes:,} nodes, {nodes * PODS_OF_NODE:,} pods, {'dirty' if dirty else 'clean'} books"
            row = result.row(books, compare="goal: 2 s")
            objects = Objects.of(documents)
            gc.collect()
            gc.freeze()
            began, worked = time.perf_counter(), time.process_time()
            report = audit(objects)
            ended, rested = time.perf_counter(), time.process_time()
            gc.unfreeze()
            row.add(audit=ended - began, cpu=rested - worked, listing=listing, findings=len(report.findings))
    return result


def _documents(nodes: int, *, dirty: bool) -> tuple[dict[type[KubeObject], Sequence[Any]], float]:
    """Return the objects by type, and the seconds that decoding the pods took."""
    pods = [pod for number in range(nodes) for pod in _pods(number, dirty=dirty and number % SHARE == 0)]
    pages = [
        msgspec.json.encode({"metadata": {"resourceVersion": "1"}, "items": pods[at : at + PAGE]})
        for at in range(0, len(pods), PAGE)
    ]
    del pods
    began = time.perf_counter()
    decoded = [pod for page in pages for pod in decode_page(Pod, page).items]
    listing = time.perf_counter() - began
    found: dict[type[KubeObject], Sequence[Any]] = {
        Node: [decode(Node, _node(number)) for number in range(nodes)],
        Pod: decoded,
        NodeResourceTopology: [decode(NodeResourceTopology, _topology(number)) for number in range(nodes)],
        Device: [decode(Device, _device(number)) for number in range(nodes)],
        Reservation: [decode(Reservation, _reservation(number)) for number in range(0, nodes, 10)],
        ElasticQuota: [decode(ElasticQuota, _quota(number)) for number in range(QUOTAS)],
    }
    return found, listing


def _node(number: int) -> Document:
    allocatable = {"cpu": str(CPUS), "memory": "512Gi", "pods": "110", extension.BATCH_CPU: "64000"}
    return {"metadata": {"name": f"n{number}"}, "status": {"allocatable": allocatable}}


def _pods(number: int, *, dirty: bool) -> list[Document]:
    """Return the pods of a node: bound CPUs, parts of GPUs, and plain ones; the first uses a Reservation."""
    found = []
    for index in range(PODS_OF_NODE):
        annotations: dict[str, str] = {}
        cpu = 1 + index % 4
        if index < 8:
            cpu, first = 8, 8 * (0 if dirty and index == 1 else index)
            annotations[extension.ANNOTATION_RESOURCE_STATUS] = _text(
                {
                    "cpuset": f"{first}-{first + 7}",
                    "numaNodeResources": [{"node": 0, "resources": {"cpu": "8", "memory": "16Gi"}}],
                }
            )
        elif index < 16:
            minor = 0 if dirty and index == 9 else index - 8
            share = {
                extension.GPU_CORE: "60",
                extension.GPU_MEMORY: "48Gi",
                extension.GPU_MEMORY_RATIO: "60",
            }
            annotations[extension.ANNOTATION_DEVICE_ALLOCATED] = _text(
                {"gpu": [{"minor": minor, "resources": share, "id": f"GPU-{number}-{minor}"}]}
            )
        if index == 0 and number % 10 == 0:
            annotations[extension.ANNOTATION_RESERVATION_ALLOCATED] = _text(
                {"name": f"r{number}", "uid": f"r{number}"}
            )
        if dirty and index == 29:
            cpu = CPUS
        requests = {"cpu": str(cpu), "memory": f"{1 + index % 8}Gi"}
        labels = {extension.LABEL_QUOTA_NAME: f"q{(number + index) % QUOTAS}"} if index % 2 else {}
        resources = {"requests": requests, "limits": requests}
        container = {"name": "main", "image": "registry.example/app:1", "resources": resources}
        status = {"name": "main", "ready": True, "resources": resources, "allocatedResources": requests}
        found.append(
            {
                "metadata": {
                    "name": f"p{number}-{index}",
                    "namespace": f"team-{number % 50}",
                    "uid": f"{number}-{index}",
                    "labels": {"app": f"app-{index}", **labels},
                    "annotations": annotations,
                },
                "spec": {"nodeName": f"n{number}", "containers": [container]},
                "status": {"phase": "Running", "containerStatuses": [status]},
            }
        )
    return found


def _topology(number: int) -> Document:
    detail = [
        {"id": cpu, "core": cpu // 2, "socket": cpu // (CPUS // 2), "node": cpu // (CPUS // 2)}
        for cpu in range(CPUS)
    ]
    resources = [
        {"name": "cpu", "capacity": "64", "allocatable": "64", "available": "64"},
        {"name": "memory", "capacity": "256Gi", "allocatable": "256Gi", "available": "256Gi"},
    ]
    return {
        "metadata": {"name": f"n{number}", "annotations": {CPU_TOPOLOGY: _text({"detail": detail})}},
        "topologyPolicies": ["None"],
        "zones": [{"name": f"node-{zone}", "type": "Node", "resources": resources} for zone in range(2)],
    }


def _device(number: int) -> Document:
    whole = {extension.GPU_CORE: "100", extension.GPU_MEMORY: "80Gi", extension.GPU_MEMORY_RATIO: "100"}
    devices = [
        {
            "type": "gpu",
            "id": f"GPU-{number}-{minor}",
            "minor": minor,
            "health": True,
            "resources": whole,
            "topology": {"socketID": 0, "nodeID": minor // 4, "pcieID": str(minor // 2)},
        }
        for minor in range(GPUS)
    ]
    return {"metadata": {"name": f"n{number}"}, "spec": {"devices": devices}}


def _reservation(number: int) -> Document:
    requests = {"cpu": "8", "memory": "16Gi"}
    template = {"spec": {"containers": [{"name": "main", "resources": {"requests": requests}}]}}
    owner = {"namespace": f"team-{number % 50}", "name": f"p{number}-0", "uid": f"{number}-0"}
    status = {
        "phase": "Available",
        "nodeName": f"n{number}",
        "allocatable": requests,
        "allocated": {"cpu": "8", "memory": "1Gi"},
        "currentOwners": [owner],
    }
    return {
        "metadata": {"name": f"r{number}", "uid": f"r{number}"},
        "spec": {"template": template, "allocateOnce": False, "owners": [{}], "ttl": "0s"},
        "status": status,
    }


def _quota(number: int) -> Document:
    return {
        "metadata": {"name": f"q{number}", "namespace": "koordinator-system"},
        "spec": {"min": {"cpu": "1"}, "max": {"cpu": "1000000"}},
    }


def _text(document: Document) -> str:
    return msgspec.json.encode(document).decode()
