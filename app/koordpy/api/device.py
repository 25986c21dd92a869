"""Device: the GPUs, network cards and FPGAs of one node; cluster-scoped, named after the node.

Source: Koordinator, `apis/scheduling/v1alpha1/device_types.go`.
"""

from typing import Any, Final

import msgspec

from .meta import Condition, KubeObject, ResourceList, Struct


class _AbsentList(list[Any]):
    """The value of a list that an object does not have: an empty list that can be told from a given one."""


class _AbsentDict(dict[str, Any]):
    """As `_AbsentList`, for maps."""


class DeviceTopology(Struct):
    """The place of a device in its node's topology."""

    socket_id: int = msgspec.field(default=0, name="socketID")
    node_id: int = msgspec.field(default=0, name="nodeID")
    pcie_id: str = msgspec.field(default="", name="pcieID")
    bus_id: str = msgspec.field(default="", name="busID")


class VirtualFunction(Struct):
    """A part of a network card that can be allocated separately."""

    minor: int = 0
    bus_id: str = msgspec.field(default="", name="busID")


class VirtualFunctionGroup(Struct):
    """Virtual functions of one kind."""

    labels: dict[str, str] = {}
    vfs: list[VirtualFunction] = []


class DeviceInfo(Struct):
    """One device, and its resources."""

    id: str = ""
    type: str = ""
    minor: int | None = None
    module_id: int | None = msgspec.field(default=None, name="moduleID")
    health: bool = False
    labels: dict[str, str] = msgspec.field(default_factory=_AbsentDict)
    resources: ResourceList = msgspec.field(default_factory=_AbsentDict)
    topology: DeviceTopology | None = None
    vf_groups: list[VirtualFunctionGroup] = msgspec.field(default_factory=_AbsentList)
    conditions: list[Condition] = msgspec.field(default_factory=_AbsentList)


class Device(KubeObject):
    """The devices of a node."""

    class Spec(Struct):
        """All devices."""

        devices: list[DeviceInfo] = msgspec.field(default_factory=_AbsentList)

    spec: Spec = msgspec.field(default_factory=Spec)


_COLLECTIONS: Final = ("labels", "resources", "vf_groups", "conditions")


def same_devices(old: Device, new: Device) -> bool:
    """Return whether two Devices list the same, as Go compares them: an absent list is not an empty one."""
    ours, theirs = old.spec.devices, new.spec.devices
    return (
        type(ours) is type(theirs)
        and ours == theirs
        and all(
            type(getattr(one, name)) is type(getattr(other, name))
            for one, other in zip(ours, theirs, strict=True)
            for name in _COLLECTIONS
        )
    )
