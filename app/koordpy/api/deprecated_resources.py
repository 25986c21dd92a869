"""Objects with Koordinator's deprecated resource names.

All code that reads resources knows only the current names, so deprecated ones are replaced before an object
is used. Objects without deprecated names are returned unchanged, at almost no cost.

Source: Koordinator, `pkg/util/transformer` and `apis/extension/deprecated.go`.
"""

import logging
from typing import Any

import msgspec
from msgspec.structs import replace

from koordpy.lib import go_json

from . import extension
from .core import Container, Node, Pod
from .device import Device
from .koordinator import ElasticQuota
from .meta import ResourceList
from .replace_resources import renamed, with_renamed_resources
from .scheme import MALFORMED

log = logging.getLogger(__name__)

BATCH = {
    "koordinator.sh/batch-cpu": extension.BATCH_CPU,
    "koordinator.sh/batch-memory": extension.BATCH_MEMORY,
}
DEVICES = {
    f"kubernetes.io/{name}": f"koordinator.sh/{name}"
    for name in ("rdma", "fpga", "gpu", "gpu-core", "gpu-memory", "gpu-memory-ratio")
}
ALL = {**BATCH, **DEVICES}

_OLD = frozenset(ALL)
_MARK = '"kubernetes.io/'
"""A text in every annotation with a deprecated name of a device's resource."""


def with_present_names(pod: Pod) -> Pod:
    """Return a pod whose containers, overhead and device allocations have current names."""
    spec = pod.spec
    in_overhead = spec.overhead and not _OLD.isdisjoint(spec.overhead)
    if in_overhead or _has_old(spec.containers) or _has_old(spec.init_containers):
        pod = with_renamed_resources(pod, ALL)
    allocated = pod.metadata.annotations.get(extension.ANNOTATION_DEVICE_ALLOCATED)
    return pod if allocated is None or _MARK not in allocated else _with_present_allocations(pod, allocated)


def node_with_present_names(node: Node) -> Node:
    """Return a node whose allocatable and capacity have current names."""
    status = node.status
    if _OLD.isdisjoint(status.allocatable) and _OLD.isdisjoint(status.capacity):
        return node
    status = replace(
        status, allocatable=renamed(status.allocatable, ALL), capacity=renamed(status.capacity, ALL)
    )
    return replace(node, status=status)


def device_with_present_names(device: Device) -> Device:
    """Return a Device whose devices have current names."""
    devices = device.spec.devices
    if all(_OLD.isdisjoint(item.resources) for item in devices):
        return device
    changed = [replace(item, resources=renamed(item.resources, DEVICES)) for item in devices]
    return replace(device, spec=replace(device.spec, devices=changed))


def elastic_quota_with_present_names(quota: ElasticQuota) -> ElasticQuota:
    """Return an ElasticQuota whose min and max have current names."""
    spec = quota.spec
    if _OLD.isdisjoint(spec.min) and _OLD.isdisjoint(spec.max):
        return quota
    return replace(quota, spec=replace(spec, min=renamed(spec.min, BATCH), max=renamed(spec.max, BATCH)))


def _has_old(containers: list[Container]) -> bool:
    for container in containers:
        resources = container.resources
        if not (_OLD.isdisjoint(resources.requests) and _OLD.isdisjoint(resources.limits)):
            return True
    return False


def _with_present_allocations(pod: Pod, text: str) -> Pod:
    try:
        allocations = _ALLOCATIONS.decode(text)
        changed = [_rename(allocation) for listed in allocations.values() for allocation in listed or ()]
    except (*MALFORMED, ValueError) as error:
        log.error("pod %s: %s: %s", pod.metadata.key, extension.ANNOTATION_DEVICE_ALLOCATED, error)
        return pod
    if not any(changed):
        return pod
    annotations = {
        **pod.metadata.annotations,
        extension.ANNOTATION_DEVICE_ALLOCATED: go_json.encode(allocations),
    }
    return replace(pod, metadata=replace(pod.metadata, annotations=annotations))


_ALLOCATIONS = msgspec.json.Decoder(dict[str, list[dict[str, Any]] | None])


def _rename(allocation: dict[str, Any]) -> bool:
    """Rename the resources of one allocated device, in place; return whether that changed anything."""
    resources = allocation.get("resources")
    if resources is None:
        return False
    if not isinstance(resources, dict):
        raise ValueError(f"resources: got {resources!r}, expected an object")
    present: ResourceList = renamed(resources, DEVICES)
    allocation["resources"] = present
    return present != resources
