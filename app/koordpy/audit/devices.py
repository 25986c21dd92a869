"""What a Device says: the minors of a node, what they have, and their virtual functions."""

from collections.abc import Mapping
from typing import Final

import msgspec

from koordpy.api.device import Device, DeviceInfo

from .amounts import Vector, vector
from .annotations import Minor

_NO_FUNCTIONS: Final[frozenset[str]] = frozenset()


class Total(msgspec.Struct, gc=False, frozen=True):
    """What a minor has, whether it is healthy, and the bus addresses of its virtual functions."""

    resources: Vector
    health: bool
    functions: frozenset[str]


class DeviceReader:
    """Reads Devices; minors with equal resources are read once."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], Total] = {}

    def read(self, device: Device) -> Mapping[Minor, Total]:
        """Return the minors of a node; amounts that are not quantities do not limit, as in Koordinator."""
        return {(info.type, info.minor or 0): self._total(info) for info in device.spec.devices}

    def _total(self, info: DeviceInfo) -> Total:
        if info.vf_groups:
            functions = frozenset(function.bus_id for group in info.vf_groups for function in group.vfs)
            return Total(vector(info.resources), info.health, functions)
        key = (info.health, *info.resources.items())
        known = self._known.get(key)
        if known is None:
            known = self._known[key] = Total(vector(info.resources), info.health, _NO_FUNCTIONS)
        return known
