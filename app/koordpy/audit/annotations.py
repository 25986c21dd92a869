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

from .amounts import Vector, added

K = TypeVar("K")

ZoneAmounts = dict[int, Vector]
"""Amounts by NUMA node."""

Minor = tuple[str, int]
"""Type and minor of a device."""

DeviceAmounts = dict[Minor, Vector]
"""Amounts by device. Vectors may be shared, and are never changed."""

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
    """The CPUs and the parts of NUMA nodes that an annotation hands out.

    What is negative would hide what others hold: such amounts are left out, and `is_negative` says so.
    """

    cpus: frozenset[int] = frozenset()
    zones: ZoneAmounts = {}
    is_negative: bool = False


class Devices(msgspec.Struct, gc=False, frozen=True):
    """The parts of devices, and the virtual functions, that an annotation hands out, perhaps twice.

    Negative amounts are left out, as in `CPUs`.
    """

    amounts: DeviceAmounts = {}
    functions: tuple[Function, ...] = ()
    is_negative: bool = False


NO_CPUS: Final = CPUs()
NO_DEVICES: Final = Devices()
_STATUS: Final = msgspec.json.Decoder(_Status)
_DEVICES: Final = msgspec.json.Decoder(dict[str, list[_Device]])
_UNUSUAL: Final = (msgspec.DecodeError, UnicodeError, RecursionError)


class AnnotationReader:
    """Reads both annotations. An annotation that cannot be read raises ValueError, each time."""

    def __init__(self) -> None:
        self._statuses: dict[str, CPUs] = {}
        self._devices: dict[str, Devices] = {}
        self._cpus: dict[str, frozenset[int]] = {}
        self._vectors: dict[tuple[str | int, ...], Vector] = {}

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
        parts: list[tuple[int, Mapping[str, str | int]]]
        try:
            status = _STATUS.decode(text)
            cpus = status.cpuset
            parts = [(part.node, part.resources) for part in status.numa_node_resources]
        except _UNUSUAL:
            read = resource_status.of({extension.ANNOTATION_RESOURCE_STATUS: text})
            cpus = read.cpuset
            parts = [
                (zone.node, {name: str(amount) for name, amount in (zone.resources or {}).items()})
                for zone in read.numa_nodes
            ]
        zones: ZoneAmounts = {}
        is_negative = False
        try:
            for zone, resources in parts:
                for name, given in resources.items():
                    number = resource_value(name, given)
                    if number < 0:
                        is_negative = True
                    else:
                        _add(zones, zone, name, number)
        except QuantityError as error:
            raise ValueError(f"annotation {extension.ANNOTATION_RESOURCE_STATUS}: {error}") from None
        return CPUs(self.cpu_list(cpus), zones, is_negative)

    def _read_devices(self, text: str) -> Devices:
        try:
            types = _DEVICES.decode(text)
        except _UNUSUAL:
            return _unusual_devices(text)
        amounts: DeviceAmounts = {}
        functions: list[Function] = []
        is_negative = False
        known = self._vectors
        try:
            for kind, devices in types.items():
                for device in devices:
                    given = device.resources
                    key = (*given, *given.values())
                    vector = known.get(key)
                    if vector is None:
                        numbers = {name: value(number) for name, number in given.items()}
                        vector = known[key] = _not_negative(numbers)
                    is_negative = is_negative or len(vector) < len(given)
                    place = (kind, device.minor)
                    amounts[place] = added(amounts[place], vector) if place in amounts else vector
                    if device.extension is not None:
                        functions += [(*place, vf.bus_id) for vf in device.extension.vfs]
        except QuantityError as error:
            raise ValueError(f"annotation {extension.ANNOTATION_DEVICE_ALLOCATED}: {error}") from None
        return Devices(amounts, tuple(functions), is_negative)


def _unusual_devices(text: str) -> Devices:
    amounts: DeviceAmounts = {}
    functions: list[Function] = []
    is_negative = False
    for kind, given in device_allocations.of({extension.ANNOTATION_DEVICE_ALLOCATED: text}).items():
        for each in given:
            amounts.setdefault((kind, each.minor), {})
            numbers = {name: amount.value() for name, amount in each.resources.items()}
            vector = _not_negative(numbers)
            is_negative = is_negative or len(vector) < len(numbers)
            for name, number in vector.items():
                _add(amounts, (kind, each.minor), name, number)
            functions += [(kind, each.minor, vf.bus_id) for vf in each.virtual_functions]
    return Devices(amounts, tuple(functions), is_negative)


def _not_negative(numbers: Vector) -> Vector:
    return {name: number for name, number in numbers.items() if number >= 0}


def _add(amounts: dict[K, Vector], key: K, name: str, number: int) -> None:
    held = amounts.setdefault(key, {})
    held[name] = held.get(name, 0) + number
