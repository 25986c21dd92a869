"""Device: the GPUs, network cards and FPGAs of one node; cluster-scoped, named after the node.

Source: Koordinator, `apis/scheduling/v1alpha1/device_types.go`.
"""

import msgspec

from .meta import Condition, KubeObject, ResourceList, Struct


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
    labels: dict[str, str] = {}
    resources: ResourceList = {}
    topology: DeviceTopology | None = None
    vf_groups: list[VirtualFunctionGroup] = []
    conditions: list[Condition] = []


class Device(KubeObject):
    """The devices of a node."""

    class Spec(Struct):
        """All devices."""

        devices: list[DeviceInfo] = []

    spec: Spec = msgspec.field(default_factory=Spec)
