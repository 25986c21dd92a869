"""Reads all that a pod asks of devices, once an attempt.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/utils.go` (`preparePod`).
"""

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from typing import Final

from koordpy.api import device_allocations
from koordpy.api.core import Pod
from koordpy.api.device_allocations import DeviceAllocations
from koordpy.api.extension import ANNOTATION_DEVICE_ALLOCATED
from koordpy.api.quantity import Quantity
from koordpy.api.resource_list import Quantities

from ..allocation.requests import APPLY_FOR_ALL, GPU, DeviceHint, GPURequirements, JointAllocation, Requests
from .annotations import allocate_hints, joint_allocation, partition_spec
from .device_requests import NO_CLASSES, InvalidRequest, device_requests
from .gpus import count_gpus

NO_MATCHED_TEMPLATE: Final = "no matched GPU shared resource template"

MatchedTemplates = Callable[[Mapping[str, Quantity]], Mapping[str, Collection[str]]]
"""Returns the templates that equal what is wanted of a GPU, by `<vendor>-<model>`."""


def requests_of(
    pod: Pod,
    matched_templates: MatchedTemplates,
    with_templates: Collection[str],
    device_classes: Mapping[str, str] = NO_CLASSES,
) -> Requests | None:
    """Return what a pod asks, None if it requests no devices.

    `with_templates` are the resources of which shares must be templates; those of `device_classes` are left
    to kube-scheduler. Raises InvalidRequest, InvalidAnnotation, QuantityError.
    """
    amounts = device_requests(pod, device_classes)
    if not amounts:
        return None
    annotations = pod.metadata.annotations
    hints = allocate_hints(annotations)
    joint = _joint(joint_allocation(annotations), amounts, hints)
    gpu = None
    if GPU in amounts:
        gpu = _requirements(amounts[GPU], hints.get(GPU), annotations)
        if gpu.shared and not gpu.per_gpu.keys().isdisjoint(with_templates):
            templates = matched_templates(gpu.per_gpu)
            if not templates:
                raise InvalidRequest(NO_MATCHED_TEMPLATE)
            gpu = replace(gpu, enforces_templates=True, templates=templates)
    return Requests(amounts, gpu, hints, joint)


def _joint(
    wanted: JointAllocation | None, amounts: Mapping[str, Quantities], hints: Mapping[str, DeviceHint]
) -> JointAllocation | None:
    """Leave out types that are not requested, or of which all devices are wanted.

    What is chosen of a secondary type depends on the primary devices alone: naming it again changes nothing.
    """
    if wanted is None:
        return None
    types = [
        type_
        for type_ in wanted.types
        if type_ in amounts and not (type_ in hints and hints[type_].strategy == APPLY_FOR_ALL)
    ]
    return JointAllocation((*types[:1], *dict.fromkeys(types[1:])), wanted.required_scope) if types else None


def _requirements(
    amounts: Quantities, hint: DeviceHint | None, annotations: Mapping[str, str]
) -> GPURequirements:
    counted = count_gpus(amounts)
    spec = partition_spec(annotations)
    return GPURequirements(
        per_gpu=counted.request,
        count=counted.count,
        shared=counted.shared,
        honors_partitions=spec is not None,
        restricted=spec is not None and spec.restricted,
        bandwidth=None if spec is None else spec.ring_bus_bandwidth,
        required_scope="" if hint is None else hint.required_topology_scope,
    )


def designated_allocation(pod: Pod) -> DeviceAllocations | None:
    """Return the allocation recorded on a pod, None if there is none. Raises ValueError."""
    text = pod.metadata.annotations.get(ANNOTATION_DEVICE_ALLOCATED)
    if text is None:
        return None
    found = device_allocations.of(pod.metadata.annotations)
    return None if text.strip() == "null" else found


def designated_functions(
    designated: DeviceAllocations,
) -> Mapping[str, Mapping[int, Collection[str]]]:
    """Return the bus addresses of the virtual functions of an allocation, by type and minor."""
    found = {
        type_: {
            each.minor: frozenset(function.bus_id for function in each.virtual_functions)
            for each in allocations
            if each.virtual_functions
        }
        for type_, allocations in designated.items()
    }
    return {type_: minors for type_, minors in found.items() if minors}
