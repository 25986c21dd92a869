"""The annotations resource-status and device-allocated, read fast.

Texts in the form in which schedulers write them are decoded by their shape; any other text is read as Go
would (`koordpy.api.resource_status`, `koordpy.api.device_allocations`). Equal texts are read once.
"""

from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from koordpy.api import device_allocations, extension, resource_status
from koordpy.api.quantity import QuantityError, resource_value, value
from koordpy.lib import cpuset

K = TypeVar("K")

ZoneAmounts = dict[tuple[int, str], int]
"""Amounts by NUMA node and resource: cpu in milli, everything else in base units."""

DeviceAmounts = dict[tuple[str, int, str], int]
"""Amounts by type of device, minor and resource."""

Function = tuple[str, int, str]
"""A virtual function: type and minor of its device, and its bus address."""


class _Strict(msgspec.Struct, rename="camel", forbid_unknown_fields=True, gc=False):
    pass


class _Zone(_Strict):
    node: int
    resources: dict[str, str | int]


class _Status(_Strict):
    cpuset: str = ""
    numa_node_resources: list[_Zone] = []


class _Function(_Strict):
    bus_id: str = msgspec.field(name="busID")
    minor: int = 0


class _Extension(_Strict):
    vfs: list[_Function] = []
    gpu_shared_resource_template: str = ""


class _Device(_Strict):
    minor: int
    resources: dict[str, str | int]
    id: str = ""
    extension: _Extension | None = None


class CPUs(msgspec.Struct, gc=False, frozen=True):
    """The CPUs and the parts of NUMA nodes that an annotation hands out."""

    cpus: frozenset[int] = frozenset()
    zones: ZoneAmounts = {}


class Devices(msgspec.Struct, gc=False, frozen=True):
    """The parts of devices, and the virtual functions, that an annotation hands out."""

    amounts: DeviceAmounts = {}
    minors: frozenset[tuple[str, int]] = frozenset()
    functions: frozenset[Function] = frozenset()


NO_CPUS: Final = CPUs()
NO_DEVICES: Final = Devices()
_NO_FUNCTIONS: Final[frozenset[Function]] = frozenset()
_STATUS: Final = msgspec.json.Decoder(_Status)
_DEVICES: Final = msgspec.json.Decoder(dict[str, list[_Device]])
_UNUSUAL: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


class AnnotationReader:
    """Reads both annotations. An annotation that cannot be read raises ValueError, each time."""

    def __init__(self) -> None:
        self._statuses: dict[str, CPUs] = {}
        self._devices: dict[str, Devices] = {}
        self._cpus: dict[str, frozenset[int]] = {}
        self._numbers: dict[str | int, int] = {}

    def cpus(self, annotations: Mapping[str, str]) -> CPUs:
        """Return what resource-status hands out. Raises ValueError."""
        text = annotations.get(extension.ANNOTATION_RESOURCE_STATUS)
        if text is None:
            return NO_CPUS
        known = self._statuses.get(text)
        if known is None:
            known = self._statuses[text] = self._read_status(text)
        return known

    def devices(self, annotations: Mapping[str, str]) -> Devices:
        """Return what device-allocated hands out. Raises ValueError."""
        text = annotations.get(extension.ANNOTATION_DEVICE_ALLOCATED)
        if text is None:
            return NO_DEVICES
        known = self._devices.get(text)
        if known is None:
            known = self._devices[text] = self._read_devices(text)
        return known

    def cpu_list(self, text: str) -> frozenset[int]:
        """Return the CPUs of a list. Raises ValueError."""
        known = self._cpus.get(text)
        if known is None:
            known = self._cpus[text] = cpuset.parse(text)
        return known

    def _read_status(self, text: str) -> CPUs:
        zones: ZoneAmounts = {}
        try:
            status = _STATUS.decode(text)
        except _UNUSUAL:
            read = resource_status.of({extension.ANNOTATION_RESOURCE_STATUS: text})
            for zone in read.numa_nodes:
                for name, amount in (zone.resources or {}).items():
                    _add(zones, (zone.node, name), resource_value(name, str(amount)))
            return CPUs(self.cpu_list(read.cpuset), zones)
        try:
            for part in status.numa_node_resources:
                for name, number in part.resources.items():
                    _add(zones, (part.node, name), resource_value(name, number))
        except QuantityError as error:
            raise ValueError(f"annotation {extension.ANNOTATION_RESOURCE_STATUS}: {error}") from None
        return CPUs(self.cpu_list(status.cpuset), zones)

    def _read_devices(self, text: str) -> Devices:
        try:
            types = _DEVICES.decode(text)
        except _UNUSUAL:
            return _unusual_devices(text)
        amounts: DeviceAmounts = {}
        minors: set[tuple[str, int]] = set()
        functions: set[Function] = set()
        known = self._numbers
        try:
            for kind, devices in types.items():
                for device in devices:
                    minor = device.minor
                    minors.add((kind, minor))
                    for name, amount in device.resources.items():
                        number = known.get(amount)
                        if number is None:
                            number = known[amount] = value(amount)
                        key = (kind, minor, name)
                        amounts[key] = amounts.get(key, 0) + number
                    if device.extension is not None:
                        functions.update((kind, minor, vf.bus_id) for vf in device.extension.vfs)
        except QuantityError as error:
            raise ValueError(f"annotation {extension.ANNOTATION_DEVICE_ALLOCATED}: {error}") from None
        return Devices(amounts, frozenset(minors), frozenset(functions) if functions else _NO_FUNCTIONS)


def _unusual_devices(text: str) -> Devices:
    amounts: DeviceAmounts = {}
    minors: set[tuple[str, int]] = set()
    functions: set[Function] = set()
    for kind, given in device_allocations.of({extension.ANNOTATION_DEVICE_ALLOCATED: text}).items():
        for each in given:
            minors.add((kind, each.minor))
            for name, amount in each.resources.items():
                _add(amounts, (kind, each.minor, name), amount.value())
            functions.update((kind, each.minor, vf.bus_id) for vf in each.virtual_functions)
    return Devices(amounts, frozenset(minors), frozenset(functions))


def _add(amounts: dict[K, int], key: K, number: int) -> None:
    amounts[key] = amounts.get(key, 0) + number
