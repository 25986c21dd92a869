"""Objects of small clusters, and what an audit of them finds."""

import json
from typing import Any

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.koordinator import ElasticQuota, NodeResourceTopology
from koordpy.api.meta import KubeObject
from koordpy.api.reservation import Reservation
from koordpy.api.scheme import decode
from koordpy.audit.auditing import audit
from koordpy.audit.finding import Finding, Report
from koordpy.audit.objects import Objects

Document = dict[str, Any]

GPU = {extension.GPU_CORE: "100", extension.GPU_MEMORY: "80Gi", extension.GPU_MEMORY_RATIO: "100"}


def node(name: str = "n1", *, annotations: Any = None, **allocatable: Any) -> Node:
    amounts = {"cpu": "16", "memory": "64Gi", "pods": "20", **allocatable}
    metadata = {"name": name, "annotations": annotations or {}}
    return decode(Node, {"metadata": metadata, "status": {"allocatable": amounts}})


def pod(
    name: str,
    on: str = "n1",
    *,
    requests: Document | None = None,
    cpuset: str = "",
    zones: Document | None = None,
    devices: Document | None = None,
    reservation: str = "",
    labels: dict[str, str] | None = None,
    namespace: str = "default",
    phase: str = "Running",
    leaving: bool = False,
    annotations: dict[str, str] | None = None,
) -> Pod:
    """Return a bound pod; `zones` are resources by NUMA node, `devices` what the annotation has."""
    metadata: Document = {"name": name, "namespace": namespace, "uid": f"uid-{name}", "labels": labels or {}}
    metadata["annotations"] = {**held(cpuset, zones, devices), **(annotations or {})}
    if reservation:
        text = json.dumps({"name": reservation, "uid": f"uid-{reservation}"})
        metadata["annotations"][extension.ANNOTATION_RESERVATION_ALLOCATED] = text
    if leaving:
        metadata["deletionTimestamp"] = "2030-01-01T00:00:00Z"
    container = {"name": "main", "resources": {"requests": requests or {}}}
    spec = {"nodeName": on, "containers": [container]}
    return decode(Pod, {"metadata": metadata, "spec": spec, "status": {"phase": phase}})


def held(cpuset: str = "", zones: Document | None = None, devices: Document | None = None) -> dict[str, str]:
    """Return the annotations of an allocation."""
    annotations = {}
    if cpuset or zones:
        parts = [{"node": int(zone), "resources": amounts} for zone, amounts in (zones or {}).items()]
        status = {"cpuset": cpuset, "numaNodeResources": parts}
        annotations[extension.ANNOTATION_RESOURCE_STATUS] = json.dumps(status)
    if devices:
        annotations[extension.ANNOTATION_DEVICE_ALLOCATED] = json.dumps(devices)
    return annotations


def gpu(minor: int, share: int = 100, **more: Any) -> Document:
    """Return a part of a GPU of 80 GiB, in percent."""
    resources = {
        extension.GPU_CORE: str(share),
        extension.GPU_MEMORY: str((80 << 30) * share // 100),
        extension.GPU_MEMORY_RATIO: str(share),
    }
    return {"minor": minor, "resources": resources, **more}


def device(name: str = "n1", *infos: Document) -> Device:
    devices = [{"health": True, "resources": GPU if info["type"] == "gpu" else {}, **info} for info in infos]
    return decode(Device, {"metadata": {"name": name}, "spec": {"devices": devices}})


def gpus(number: int, name: str = "n1", **more: Any) -> Device:
    return device(name, *({"type": "gpu", "minor": minor, **more} for minor in range(number)))


def topology(
    name: str = "n1",
    cpus: int = 16,
    *,
    zones: Document | None = None,
    annotations: dict[str, Any] | None = None,
) -> NodeResourceTopology:
    """Return two NUMA nodes with half of the CPUs each; `zones` are their resources."""
    half = cpus // 2
    detail = [{"id": cpu, "core": cpu // 2, "socket": 0, "node": cpu // half} for cpu in range(cpus)]
    written = {"node.koordinator.sh/cpu-topology": {"detail": detail}, **(annotations or {})}
    amounts = zones if zones is not None else {"0": {"cpu": str(half)}, "1": {"cpu": str(half)}}
    document = {
        "metadata": {
            "name": name,
            "annotations": {key: json.dumps(value) for key, value in written.items()},
        },
        "zones": [
            {
                "name": f"node-{zone}",
                "type": "Node",
                "resources": [{"name": key, "allocatable": amount} for key, amount in resources.items()],
            }
            for zone, resources in amounts.items()
        ],
    }
    return decode(NodeResourceTopology, document)


def reservation(
    name: str,
    on: str = "n1",
    *,
    reserved: Document | None = None,
    phase: str = "Available",
    owners: tuple[str, ...] = (),
    allocated: Document | None = None,
    annotations: dict[str, str] | None = None,
    **spec: Any,
) -> Reservation:
    amounts = reserved or {}
    container = {"name": "main", "resources": {"requests": amounts}}
    current = [{"namespace": "default", "name": owner, "uid": f"uid-{owner}"} for owner in owners]
    document = {
        "metadata": {"name": name, "uid": f"uid-{name}", "annotations": annotations or {}},
        "spec": {"template": {"spec": {"containers": [container]}}, "allocateOnce": False, **spec},
        "status": {
            "phase": phase,
            "nodeName": on,
            "allocatable": amounts,
            "allocated": allocated or {},
            "currentOwners": current,
        },
    }
    return decode(Reservation, document)


def quota(
    name: str,
    *,
    parent: str = "",
    most: Document | None = None,
    least: Document | None = None,
    used: Document | None = None,
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
) -> ElasticQuota:
    named = {extension.LABEL_QUOTA_PARENT: parent} if parent else {}
    document = {
        "metadata": {
            "name": name,
            "namespace": "quotas",
            "labels": {**named, **(labels or {})},
            "annotations": annotations or {},
        },
        "spec": {"max": most or {}, "min": least or {}},
        "status": {"used": used or {}},
    }
    return decode(ElasticQuota, document)


def report(*objects: KubeObject, **missing: str) -> Report:
    """Audit objects; `missing` are kinds that could not be read, with the reason."""
    found: dict[type[KubeObject], list[KubeObject]] = {}
    for obj in objects:
        found.setdefault(type(obj), []).append(obj)
    return audit(Objects.of(found, missing))


def findings(*objects: KubeObject, check: str = "") -> list[Finding]:
    """Return what is found; of one check only, if it is named."""
    return [found for found in report(*objects).findings if check in ("", found.check)]


def only(*objects: KubeObject, check: str = "") -> Finding:
    """Return the only finding."""
    found = findings(*objects, check=check)
    assert len(found) == 1, found
    return found[0]


def names(finding: Finding) -> list[str]:
    return [f"{owner.kind} {owner.name}" for owner in finding.owners]
