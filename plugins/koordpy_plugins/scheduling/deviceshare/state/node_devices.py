"""The devices of one node: what they have, what pods use of them, and where they are.

Totals come from the Device; usage comes from the allocations of pods, which are known by `namespace/name`.
Source: Koordinator, `pkg/scheduler/plugins/deviceshare/device_cache.go`.
"""

import logging
from collections.abc import Mapping, Sequence, Set
from typing import Final, TypeVar

from koordpy.api import extension, resource_amounts, resource_list
from koordpy.api.device import Device, DeviceInfo
from koordpy.api.device_allocations import DeviceAllocation
from koordpy.api.quantity import Quantity, QuantityError

from . import gpu_topology, numa_topology, partitions
from .device_amounts import DeviceAmounts
from .exact import exact
from .gpu_topology import Scope
from .minors import WIDTH
from .numa_topology import NUMATopology
from .partitions import PartitionIndex

log = logging.getLogger(__name__)

T = TypeVar("T")

Amounts = Mapping[str, Quantity]
ByMinor = dict[int, Amounts]

GPU: Final = "gpu"
TYPES: Final = frozenset((GPU, "rdma", "fpga"))
"""The types of devices that are allocated; a Device may list others."""

_NOTHING: Final[Amounts] = {}


class NodeDevices:
    """All mappings are by type, then by minor; read them, and change them by the methods alone.

    A minor of 0 to 63 that is used but was not listed has empty totals, and counts as a device, until the
    next Device. Other minors, and types that are not allocated, are only known while used or listed.
    """

    def __init__(self) -> None:
        self.total: dict[str, ByMinor] = {}
        """What healthy devices have; nothing for unhealthy ones."""
        self.free: dict[str, ByMinor] = {}
        self.used: dict[str, ByMinor] = {}
        self.allocations: dict[str, dict[str, ByMinor]] = {}
        """By type and pod (`namespace/name`), what it has of each minor: its last entry for it."""
        self.vf_allocations: dict[str, dict[int, Set[str]]] = {}
        """The bus addresses of allocated virtual functions."""
        self.infos: dict[str, list[DeviceInfo]] = {}
        """The devices as the last Device lists them."""
        self.numa = NUMATopology()
        self.partitions: PartitionIndex | None = None
        """Those of the Device itself; without them the labels of the Node decide."""
        self.honors_partitions = False
        self.gpu_topology: Scope | None = None
        self.is_secondary_well_planned = False
        self._listed: dict[str, set[int]] = {}
        self._used_by: dict[str, dict[int, dict[str, Amounts]]] = {}
        self._functions_of: dict[str, dict[int, dict[str, Set[str]]]] = {}
        self._amounts: dict[str, DeviceAmounts] = {}

    # --- the Device ------------------------------------------------------------------------------

    def set_device(self, device: Device, index: PartitionIndex | None) -> None:
        """The Device was added or changed; `index` are its partitions."""
        infos: dict[str, list[DeviceInfo]] = {}
        for info in device.spec.devices:
            infos.setdefault(info.type, []).append(info)
        self.infos = infos
        self._listed = {type_: {info.minor or 0 for info in of_type} for type_, of_type in infos.items()}
        self._reset_totals(_totals(device))
        self.numa = numa_topology.topology_of(device.spec.devices)
        labels = device.metadata.labels
        self.partitions = index
        self.honors_partitions = partitions.honors(labels)
        self.is_secondary_well_planned = labels.get(extension.LABEL_SECONDARY_DEVICE_WELL_PLANNED) == "true"
        gpus = {minor: exact(amounts) for minor, amounts in self.total.get(GPU, {}).items()}
        listed = self._listed.get(GPU, set())
        self.gpu_topology = gpu_topology.tree_of(
            infos.get(GPU, ()), {minor: amounts for minor, amounts in gpus.items() if minor in listed}
        )

    def remove_device(self, device: Device) -> None:
        """The Device was deleted: no device has anything, and all else stays known."""
        totals: dict[str, ByMinor] = {}
        for info in device.spec.devices:
            totals.setdefault(info.type, {})[info.minor or 0] = _NOTHING
        self._reset_totals(totals)

    def _reset_totals(self, totals: dict[str, ByMinor]) -> None:
        for type_ in (self.total.keys() & TYPES) | self.used.keys():
            totals.setdefault(type_, {})
        self.total = totals
        self.free = {type_: dict(minors) for type_, minors in totals.items()}
        for type_, minors in self.used.items():
            for minor in minors:
                self._reset_free(type_, minor)
        self._amounts.clear()

    def _reset_free(self, type_: str, minor: int) -> None:
        total = self.total.setdefault(type_, {}).setdefault(minor, _NOTHING)
        used = self.used.get(type_, {}).get(minor)
        self.free.setdefault(type_, {})[minor] = (
            total if used is None else resource_amounts.minus_not_negative(total, used)
        )

    # --- allocations -----------------------------------------------------------------------------

    def add(self, key: str, allocations: Mapping[str, Sequence[DeviceAllocation]]) -> None:
        """A pod (`namespace/name`) has devices. Types of which it is known to have some are ignored."""
        for type_, devices in allocations.items():
            of_type = self.allocations.setdefault(type_, {})
            if key not in of_type:
                of_type[key] = {device.minor: device.resources for device in devices}
                self._use(key, type_, devices)

    def remove(self, key: str) -> None:
        """A pod no longer has any devices."""
        for type_ in [type_ for type_, pods in self.allocations.items() if key in pods]:
            minors = self.allocations[type_].pop(key)
            if not self.allocations[type_]:
                del self.allocations[type_]
            for minor in minors:
                self._release(key, type_, minor)

    def of_pod(self, key: str) -> dict[str, ByMinor]:
        """Return what a pod has, by type and minor."""
        return {type_: dict(pods[key]) for type_, pods in self.allocations.items() if pods.get(key)}

    @property
    def is_unused(self) -> bool:
        """Whether no pod has any device."""
        return not self.allocations

    def _use(self, key: str, type_: str, devices: Sequence[DeviceAllocation]) -> None:
        users = self._used_by.setdefault(type_, {})
        for device in devices:
            of_minor = users.setdefault(device.minor, {})
            of_minor[key] = resource_amounts.plus(of_minor.get(key, _NOTHING), device.resources)
            if device.virtual_functions:
                functions = self._functions_of.setdefault(type_, {}).setdefault(device.minor, {})
                functions[key] = frozenset(each.bus_id for each in device.virtual_functions)
        for minor in {device.minor for device in devices}:
            self._count(type_, minor)

    def _release(self, key: str, type_: str, minor: int) -> None:
        _forget(self._used_by, key, type_, minor)
        _forget(self._functions_of, key, type_, minor)
        self._count(type_, minor)

    def _count(self, type_: str, minor: int) -> None:
        """Sum up what is used of a device."""
        users = self._used_by.get(type_, {}).get(minor)
        _put(self.used, type_, minor, resource_amounts.total(users.values()) if users else None)
        functions = self._functions_of.get(type_, {}).get(minor)
        _put(self.vf_allocations, type_, minor, frozenset().union(*functions.values()) if functions else None)
        self._reset_free(type_, minor)
        if not users and not self._is_remembered(type_, minor):
            _put(self.total, type_, minor, None)
            _put(self.free, type_, minor, None)
        self._amounts.pop(type_, None)

    def _is_remembered(self, type_: str, minor: int) -> bool:
        """Return whether a device stays known without being used: what pods name must not add up."""
        if minor in self._listed.get(type_, ()):
            return True
        return type_ in TYPES and 0 <= minor < WIDTH

    # --- reading ---------------------------------------------------------------------------------

    @property
    def count(self) -> int:
        """The number of devices that the Device lists."""
        return sum(map(len, self.infos.values()))

    def amounts(self, type_: str) -> DeviceAmounts:
        """Return total, free and used of a type in exact integers; they stay as they are."""
        known = self._amounts.get(type_)
        if known is None:
            known = self._amounts[type_] = DeviceAmounts.of(
                self.total.get(type_, {}), self.free.get(type_, {}), self.used.get(type_, {})
            )
        return known

    def summary(self) -> dict[str, object]:
        """Return the summary of Koordinator's REST API: sums by resource, and all amounts by device."""
        summary: dict[str, object] = {}
        for name, amounts in (("Total", self.total), ("Free", self.free), ("Used", self.used)):
            lists = [each for minors in amounts.values() for each in minors.values()]
            summary[f"device{name}"] = _texts(resource_amounts.total(lists))
            summary[f"device{name}Detail"] = {type_: _by_minor(minors) for type_, minors in amounts.items()}
        summary["allocateSet"] = {
            type_: {key: _by_minor(minors) for key, minors in pods.items()}
            for type_, pods in self.allocations.items()
        }
        return summary


def _totals(device: Device) -> dict[str, ByMinor]:
    """What each device has; devices that have the same share it."""
    totals: dict[str, ByMinor] = {}
    known: dict[frozenset[tuple[str, str]], Amounts] = {}
    for info in device.spec.devices:
        said = info.resources.items() if info.health else ()
        same = frozenset((name, str(amount)) for name, amount in said)
        amounts = known.get(same)
        if amounts is None:
            amounts = known[same] = _healthy(device, info)
        totals.setdefault(info.type, {})[info.minor or 0] = amounts
    return totals


def _healthy(device: Device, info: DeviceInfo) -> Amounts:
    """What a device has, nothing if it is unhealthy."""
    if not info.health:
        return _NOTHING
    try:
        return resource_list.from_wire(info.resources)
    except QuantityError as error:
        log.error("Device %s: %s %s: %s", device.metadata.name, info.type, info.minor, error)
        return _NOTHING


def _forget(users: dict[str, dict[int, dict[str, T]]], key: str, type_: str, minor: int) -> None:
    """Remove a pod from the users of a device."""
    of_minor = users.get(type_, {}).get(minor)
    if of_minor is not None:
        of_minor.pop(key, None)
        if not of_minor:
            _put(users, type_, minor, None)


def _put(by_type: dict[str, dict[int, T]], type_: str, minor: int, value: T | None) -> None:
    """Set what a minor has; None removes it, and a type that then has none."""
    if value is not None:
        by_type.setdefault(type_, {})[minor] = value
    elif type_ in by_type:
        by_type[type_].pop(minor, None)
        if not by_type[type_]:
            del by_type[type_]


def _texts(amounts: Amounts) -> dict[str, str]:
    return {name: str(amounts[name]) for name in sorted(amounts)}


def _by_minor(minors: Mapping[int, Amounts]) -> dict[str, dict[str, str]]:
    return {str(minor): _texts(minors[minor]) for minor in sorted(minors)}
