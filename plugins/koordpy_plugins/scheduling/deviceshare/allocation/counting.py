"""How many devices of each type a pod gets on a node, and what of each.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/device_allocator.go` (Prepare),
`devicehandler_default.go`, `devicehandler_gpu.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from koordpy.api import extension
from koordpy.api.quantity import Quantity
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..state.exact import Exact, exact
from ..state.node_devices import NodeDevices
from . import reasons
from .requests import (
    APPLY_FOR_ALL,
    DEVICE_LEVEL,
    FPGA,
    GPU,
    RDMA,
    REQUESTS_AS_COUNT,
    TYPES,
    Amounts,
    Requests,
)

_WHOLE: Final = 100
"""The amount of a whole device."""

NAMES: Final = {RDMA: extension.RDMA, FPGA: extension.FPGA}
"""The resource of a type."""


@dataclass(frozen=True, slots=True)
class Wanted:
    """What is taken of each of `count` devices."""

    request: Amounts
    exact: Exact
    count: int


def wanted_on(
    devices: NodeDevices, requests: Requests, *, reserving: bool = False
) -> tuple[Mapping[str, Wanted], Status]:
    """Return what a pod wants of each type, or why the node cannot give it.

    Except while `reserving`, secondary devices are left out on nodes that have enough of them near each GPU.
    """
    found = {}
    for type_, amounts in requests.amounts.items():
        if type_ not in TYPES or _is_left_out(devices, requests, type_, reserving=reserving):
            continue
        if not devices.total.get(type_):
            return {}, reasons.no_devices(type_)
        wanted = _of_type(devices, requests, type_, amounts)
        if wanted is None:
            return {}, reasons.no_devices(type_)
        found[type_] = wanted
    for type_ in found:
        hint = requests.hints.get(type_)
        needs_function = hint is not None and hint.vf_selector is not None
        if needs_function and not any(info.vf_groups for info in devices.infos.get(type_, ())):
            return {}, reasons.no_virtual_functions(type_)
    return found, SUCCESS


def _is_left_out(devices: NodeDevices, requests: Requests, type_: str, *, reserving: bool) -> bool:
    return (
        not reserving
        and devices.is_secondary_well_planned
        and requests.joint is not None
        and type_ != requests.joint.primary
        and requests.gpu is not None
        and not requests.gpu.shared
    )


def _of_type(devices: NodeDevices, requests: Requests, type_: str, amounts: Amounts) -> Wanted | None:
    """Return what is wanted of a type that the node has, None if no device matches."""
    if type_ == GPU:
        gpu = requests.gpu
        return None if gpu is None else Wanted(gpu.per_gpu, gpu.exact, gpu.count)
    wanted = counted(requests, type_, amounts)
    if wanted is not None:
        return wanted
    count = len(devices.total[type_])
    selector = requests.hints[type_].selector
    if selector is not None:
        count = sum(selector.matches(info.labels) for info in devices.infos.get(type_, ()))
    return Wanted(amounts, exact(amounts), count) if count else None


def counted(requests: Requests, type_: str, amounts: Amounts) -> Wanted | None:
    """Return what is wanted of a type other than GPUs; None if of all devices, however many there are."""
    name = NAMES[type_]
    amount = amounts[name].value() if name in amounts else 0
    hint = requests.hints.get(type_)
    if amount > _WHOLE and amount % _WHOLE == 0:
        return _counted(name, _WHOLE, amount // _WHOLE)
    if hint is not None and hint.strategy == APPLY_FOR_ALL:
        return None
    if hint is not None and hint.strategy == REQUESTS_AS_COUNT:
        return _counted(name, _WHOLE if hint.exclusive_policy == DEVICE_LEVEL else 1, amount)
    return Wanted(amounts, exact(amounts), 1)


def _counted(name: str, each: int, count: int) -> Wanted:
    request = {name: Quantity.of(each)}
    return Wanted(request, exact(request), count)
