"""The devices that a pod requests, by type, in the few forms that are allowed.

Requests name GPUs in many ways: whole ones of a vendor, percentages, bytes, shares of several. A pod must use
one of the combinations below for each type of device. Source: Koordinator,
`pkg/scheduler/plugins/deviceshare/utils.go`.
"""

from collections.abc import Callable, Mapping
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.extension import (
    AMD_GPU,
    FPGA,
    GPU,
    GPU_CORE,
    GPU_MEMORY,
    GPU_MEMORY_RATIO,
    GPU_SHARED,
    HUAWEI_NPU_CORE,
    HUAWEI_NPU_CPU,
    HUAWEI_NPU_DVPP,
    HYGON_DCU,
    NVIDIA_GPU,
    RDMA,
)
from koordpy.api.quantity import Quantity
from koordpy.api.resource_amounts import masked, without_zeros
from koordpy.api.resource_list import Quantities
from koordpy.api.resources import pod_requests
from koordpy.lib import int64

from ..allocation import requests
from .dynamic_resources import without_left

DEVICE_RESOURCES: Final[Mapping[str, tuple[str, ...]]] = {
    requests.GPU: (
        NVIDIA_GPU, AMD_GPU, HYGON_DCU, GPU, GPU_SHARED, GPU_CORE, GPU_MEMORY, GPU_MEMORY_RATIO,
        HUAWEI_NPU_CORE, HUAWEI_NPU_CPU, HUAWEI_NPU_DVPP,
    ),
    requests.RDMA: (RDMA,),
    requests.FPGA: (FPGA,),
}  # fmt: skip
"""The resources of each type of device."""

DEVICE_RESOURCE_NAMES: Final = frozenset(name for names in DEVICE_RESOURCES.values() for name in names)

NO_CLASSES: Final[Mapping[str, str]] = {}

_MOST_OF_ONE: Final = 100
"""The percentage that is one whole device, and the largest share of one."""


class InvalidRequest(ValueError):
    """A pod requests devices in a way that is not allowed; the message is Koordinator's."""


def device_requests(pod: Pod, device_classes: Mapping[str, str] = NO_CLASSES) -> dict[str, Quantities]:
    """Return what a pod requests of each type of device; types of which it requests nothing are absent.

    Resources of `device_classes` are left to kube-scheduler. Raises InvalidRequest, QuantityError.
    """
    if not has_device_requests(pod):
        return {}
    amounts = without_zeros(masked(pod_requests(pod), DEVICE_RESOURCE_NAMES))
    if device_classes:
        amounts = without_left(amounts, device_classes)
    found = {type_: masked(amounts, names) for type_, names in DEVICE_RESOURCES.items()}
    return {type_: _normalized(of_type) for type_, of_type in found.items() if of_type}


def has_device_requests(pod: Pod) -> bool:
    """Return whether a pod names devices in what it requests, which most pods do not."""
    spec = pod.spec
    lists = [each.resources.requests for each in (*spec.containers, *spec.init_containers)]
    if spec.resources is not None:
        lists.append(spec.resources.requests)
    return any(not DEVICE_RESOURCE_NAMES.isdisjoint(names) for names in (*lists, spec.overhead))


def _normalized(amounts: Quantities) -> Quantities:
    for name in sorted(amounts):
        # No pod can request less than nothing, but the template of a Reservation can.
        if amounts[name].sign < 0 or (name in _IN_PERCENT and not _is_percentage(amounts[name])):
            raise InvalidRequest(f"invalid resource unit {name}: {amounts[name]}")
    combination = _COMBINATIONS.get(frozenset(amounts))
    if combination is None or not combination(amounts):
        raise InvalidRequest(f"invalid resource device requests: [{' '.join(sorted(amounts))}]")
    for name in _WHOLE:
        if name in amounts:
            percent = amounts[name].value() * 100
            if not int64.fits(percent):  # Koordinator's product wraps, perhaps to a request for nothing
                raise InvalidRequest(f"invalid resource unit {name}: {amounts[name]}")
            whole = Quantity.of(percent)
            return {GPU_CORE: whole, GPU_MEMORY_RATIO: whole}
    if GPU in amounts:
        return {GPU_CORE: amounts[GPU], GPU_MEMORY_RATIO: amounts[GPU]}
    return amounts


def _is_percentage(amount: Quantity) -> bool:
    """Return whether an amount is a share of one device, or several whole ones."""
    number = amount.value()
    return number <= _MOST_OF_ONE or number % 100 == 0


def _always(_: Quantities) -> bool:
    return True


def _percentages(amounts: Quantities) -> bool:
    return all(_is_percentage(amounts[name]) for name in (GPU_CORE, GPU_MEMORY_RATIO) if name in amounts)


def _shared(amounts: Quantities) -> bool:
    """Return whether percentages are the same share of each of the GPUs, at most all of it."""
    gpus = amounts[GPU_SHARED].value()
    if gpus <= 0:  # more than 64 bits hold: of 9e30 they hold 0
        return False
    for name in (GPU_CORE, GPU_MEMORY_RATIO):
        if name in amounts:
            share, rest = divmod(amounts[name].value(), gpus)
            if rest or share > _MOST_OF_ONE:
                return False
    return True


def _npu(amounts: Quantities) -> bool:
    """Return whether a share is of one NPU: device plugins share no more for a pod."""
    dvpp = amounts.get(HUAWEI_NPU_DVPP)
    return amounts[GPU_SHARED].value() <= 1 and (dvpp is None or dvpp.value() <= _MOST_OF_ONE)


_IN_PERCENT: Final = frozenset((GPU, FPGA, RDMA))

_WHOLE: Final = (NVIDIA_GPU, AMD_GPU, HYGON_DCU)

_COMBINATIONS: Final[Mapping[frozenset[str], Callable[[Quantities], bool]]] = {
    frozenset(names): rule
    for names, rule in (
        *(((name,), _always) for name in (*_WHOLE, GPU, FPGA, RDMA)),
        ((GPU_MEMORY,), _percentages),
        ((GPU_MEMORY_RATIO,), _percentages),
        ((GPU_CORE, GPU_MEMORY), _percentages),
        ((GPU_CORE, GPU_MEMORY_RATIO), _percentages),
        ((HUAWEI_NPU_CORE, GPU_MEMORY_RATIO), _percentages),
        ((GPU_SHARED, GPU_MEMORY), _shared),
        ((GPU_SHARED, GPU_MEMORY_RATIO), _shared),
        ((GPU_SHARED, GPU_CORE, GPU_MEMORY), _shared),
        ((GPU_SHARED, GPU_CORE, GPU_MEMORY_RATIO), _shared),
        ((GPU_SHARED, HUAWEI_NPU_CORE, HUAWEI_NPU_CPU, GPU_MEMORY), _npu),
        ((GPU_SHARED, HUAWEI_NPU_CORE, HUAWEI_NPU_CPU, HUAWEI_NPU_DVPP, GPU_MEMORY), _npu),
    )
}
"""The combinations of resources that a pod may request of one type of device, each with its rule."""
