"""The devices of a node as one attempt may use them.

Reservations and preemption add to what is free, a reservation or a recorded allocation limits it, and a NUMA
affinity and the selectors of hints leave devices out. Source: Koordinator, `pkg/scheduler/plugins/
deviceshare/device_cache.go` (filter, calcFreeWithPreemptible), `device_allocator.go` (filterNodeDevice).
"""

from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from koordpy.api.device import DeviceInfo
from koordpy.api.quantity import Quantity

from ..state.device_amounts import DeviceAmounts, Left, left_of
from ..state.exact import Exact, exact, is_zero, minus_not_negative, smallest
from ..state.gpu_topology import Scope
from ..state.node_devices import NodeDevices
from ..state.numa_topology import NO_AFFINITY
from ..state.partitions import PartitionIndex
from .requests import Requests

DeviceAmountsByType = Mapping[str, Mapping[int, Mapping[str, Quantity]]]
"""Amounts of devices by type and minor."""

_NOTHING: Exact = {}


@dataclass(slots=True)
class TypeView:
    """The devices of one type that can be considered, by minor."""

    total: Mapping[int, Exact] = field(default_factory=dict)
    free: Mapping[int, Exact] = field(default_factory=dict)
    used: Set[int] = frozenset()
    """The minors of which anything is used."""
    known_used: Iterable[int] = ()
    """The minors that pods use on the node, whether they are considered or not."""
    infos: Iterable[DeviceInfo] = ()
    """All devices of the node, as the Device lists them."""
    vf_allocations: Mapping[int, Set[str]] = field(default_factory=dict)


@dataclass(slots=True)
class View:
    """What an attempt may use of a node; a type without any considered device is missing in `types`."""

    types: Mapping[str, TypeView]
    gpu_topology: Scope | None = None
    partitions: PartitionIndex | None = None
    honors_partitions: bool = False

    def of(self, type_: str) -> TypeView:
        """Return the devices of a type."""
        return self.types.get(type_) or TypeView()


def view_of(
    devices: NodeDevices,
    requests: Requests,
    types: Iterable[str],
    *,
    required: DeviceAmountsByType | None = None,
    preemptible: DeviceAmountsByType | None = None,
    numa_mask: int | None = None,
) -> View:
    """Return what a pod may use of the devices of some types.

    `required` are upper bounds of what is free, by type and minor; others are not free then. `preemptible` is
    added to what is free. `numa_mask` has the NUMA nodes whose devices count, beside those without affinity.
    """
    found = {}
    for type_ in types:
        found[type_] = _type_view(
            devices,
            type_,
            _candidates(devices.infos.get(type_, ()), requests, type_, numa_mask),
            (required or {}).get(type_) or {},
            (preemptible or {}).get(type_) or {},
        )
    return View(found, devices.gpu_topology, devices.partitions, devices.honors_partitions)


def _candidates(
    infos: Iterable[DeviceInfo], requests: Requests, type_: str, numa_mask: int | None
) -> Set[int]:
    """Return the minors in the NUMA nodes that match the selector of the type's hint."""
    hint = requests.hints.get(type_)
    selector = hint.selector if hint is not None else None
    return {
        info.minor or 0
        for info in infos
        if (numa_mask is None or is_near(info, numa_mask))
        and (selector is None or selector.matches(info.labels))
    }


def is_near(info: DeviceInfo, numa_mask: int) -> bool:
    """Return whether a device is on one of some NUMA nodes, or without affinity to any."""
    if info.topology is None:
        return False
    node = info.topology.node_id
    return node == NO_AFFINITY or (0 <= node < 64 and bool(numa_mask >> node & 1))


def _type_view(
    devices: NodeDevices,
    type_: str,
    candidates: Set[int],
    required: Mapping[int, Mapping[str, Quantity]],
    preemptible: Mapping[int, Mapping[str, Quantity]],
) -> TypeView:
    amounts = devices.amounts(type_)
    view = TypeView(
        known_used=amounts.used,
        infos=devices.infos.get(type_, ()),
        vf_allocations=devices.vf_allocations.get(type_, {}),
    )
    left = _left(amounts, required, preemptible)
    if left:
        kept = {minor: each for minor, each in left.items() if minor in candidates}
        view.total = {minor: amounts.total.get(minor, _NOTHING) for minor in kept}
        view.free = {minor: each.free for minor, each in kept.items()}
        view.used = {minor for minor, each in kept.items() if each.is_used}
    return view


def _left(
    amounts: DeviceAmounts,
    required: Mapping[int, Mapping[str, Quantity]],
    preemptible: Mapping[int, Mapping[str, Quantity]],
) -> Mapping[int, Left]:
    """Return what is left of each device that is offered; empty if nothing is."""
    given_back = returned(amounts, preemptible) if preemptible else {}
    if not given_back and not required:
        return amounts.left
    offered: dict[int, Exact] = {**given_back}
    for minor, free in amounts.free.items():
        offered.setdefault(minor, free)
    if required:
        offered = {
            minor: smallest(free, exact(required[minor]))
            for minor, free in offered.items()
            if minor in required
        }
    if all(map(is_zero, offered.values())):
        return {}
    return {minor: left_of(amounts.total.get(minor, _NOTHING), free) for minor, free in offered.items()}


def returned(
    amounts: DeviceAmounts, preemptible: Mapping[int, Mapping[str, Quantity]]
) -> Mapping[int, Exact]:
    """Return what is free of the devices of which something is given back, without those with nothing."""
    found: dict[int, Exact] = {}
    for minor, given in preemptible.items():
        used = minus_not_negative(amounts.used.get(minor, _NOTHING), exact(given))
        free = minus_not_negative(amounts.total.get(minor, _NOTHING), used)
        if not is_zero(free):
            found[minor] = free
    return found
