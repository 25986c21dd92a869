"""Why devices cannot be allocated, with Koordinator's texts."""

from typing import Final

from koordpy.scheduling.interface.status import Status

NO_GPU_REQUIREMENTS: Final = Status.unschedulable("No GPU Requirements")
NO_PARTITION: Final = Status.unschedulable("Insufficient Partitioned GPU Devices")
NO_TOPOLOGY_SCOPE: Final = Status.unschedulable("Insufficient Topology Scoped GPU Devices")
NO_GPUS: Final = Status.unschedulable("Insufficient GPU Devices")
NO_PRIMARY_DEVICE: Final = Status.unschedulable("node(s) Insufficient primary device")
NOT_JOINT: Final = Status.unschedulable("node(s) Device Joint-Allocate rules violation")

MISSING_PARTITION_TABLE: Final = Status.unresolvable("node(s) missing GPU Partition Table")
UNSUPPORTED_COUNT: Final = Status.unresolvable("node(s) Unsupported number of GPU requests")
SHARED_GPUS: Final = Status.unresolvable("node(s) Unsupported Multi-Shared GPU")
MISSING_TOPOLOGY: Final = Status.unresolvable("node(s) missing GPU Device Topology Tree")
NO_TEMPLATE: Final = Status.unresolvable("no matched GPU shared resource template")


def no_devices(type_: str) -> Status:
    """A node without any device of a type."""
    return Status.unresolvable(f"Insufficient {type_} devices")


def too_few_devices(*types: str) -> Status:
    """A node on which too little is free."""
    return Status.unschedulable(*(f"Insufficient {type_} devices" for type_ in types))


def no_virtual_functions(type_: str) -> Status:
    """A node whose devices have no virtual functions."""
    return Status.unresolvable(f"Insufficient {type_} VirtualFunctions")
