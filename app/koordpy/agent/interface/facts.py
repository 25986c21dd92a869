"""What collectors find out about a node that is not a series, by the keys of koordlet's metric cache.

`Metrics.fact` returns the latest value of a `Fact`, and None before its collector has measured.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from .metrics import Fact


@dataclass(frozen=True)
class Processor:
    """One logical CPU and its place in the topology."""

    cpu: int
    core: int
    socket: int
    node: int
    l1d_l1i_l2: str = ""
    """The ids of its first level and second level caches, as lscpu writes them: `0:0:0`."""
    l3: int = 0
    online: bool = True


@dataclass(frozen=True)
class CPUBasicInfo:
    """What is the same for all processors of a node."""

    cpu_model: str = ""
    hyper_thread_enabled: bool = False
    turbo_enabled: bool = False
    cat_l3_cbm_mask: str = ""
    vendor_id: str = ""


@dataclass(frozen=True)
class NodeCPUInfo:
    """All online processors, ordered by NUMA node, socket, core and CPU."""

    processors: tuple[Processor, ...]
    basic: CPUBasicInfo = CPUBasicInfo()


@dataclass(frozen=True)
class HugePages:
    """Pages of one size."""

    size_kib: int
    total: int


@dataclass(frozen=True)
class NUMANodeMemory:
    """Memory of one NUMA node, in bytes; `used` is without page cache and reclaimable slabs."""

    node: int
    total: int
    used: int
    huge_pages: tuple[HugePages, ...] = ()


@dataclass(frozen=True)
class NodeNUMAInfo:
    """Memory of all NUMA nodes, in the order of their ids."""

    nodes: tuple[NUMANodeMemory, ...]


@dataclass(frozen=True)
class LocalStorageInfo:
    """Block devices, volume groups and mounts of a node. Devices are paths such as `/dev/vda`."""

    disk_numbers: Mapping[str, str] = field(default_factory=dict)
    """`MAJOR:MINOR` by disk."""
    number_disks: Mapping[str, str] = field(default_factory=dict)
    """Disk by `MAJOR:MINOR`."""
    partition_disks: Mapping[str, str] = field(default_factory=dict)
    """Disk by partition."""
    volume_group_disks: Mapping[str, str] = field(default_factory=dict)
    """Disk by volume group, for groups with one physical volume."""
    logical_volume_groups: Mapping[str, str] = field(default_factory=dict)
    """Volume group by `/dev/mapper/...`."""
    mount_devices: Mapping[str, str] = field(default_factory=dict)
    """Device by mount point."""


@dataclass(frozen=True)
class GPUDevice:
    """A GPU of the node. `memory_total` is in bytes; `numa_node` is -1 if unknown."""

    uuid: str
    minor: int
    memory_total: int
    numa_node: int = -1
    pcie: str = ""
    bus_id: str = ""
    healthy: bool = True


@dataclass(frozen=True, slots=True)
class Usage:
    """CPU in cores and memory in bytes, measured `at` seconds after the epoch."""

    cpu: float
    memory: float
    at: float


@dataclass(frozen=True, slots=True)
class NUMAUsage:
    """Usage by NUMA node; `at` in seconds after the epoch. What could not be measured is left out."""

    cpu: Mapping[int, float]
    memory: Mapping[int, float]
    at: float


NODE_CPU_INFO: Final[Fact[NodeCPUInfo]] = Fact("node_cpu_info")
"""The processors of the node."""
NODE_NUMA_INFO: Final[Fact[NodeNUMAInfo]] = Fact("node_numa_info")
"""The memory of the node's NUMA nodes."""
NODE_LOCAL_STORAGE_INFO: Final[Fact[LocalStorageInfo]] = Fact("node_local_storage_info")
"""The node's storage; only with gate BlkIOReconcile."""
NODE_USAGE: Final[Fact[Usage]] = Fact("node_usage")
"""The latest usage of the node."""
NODE_NUMA_USAGE: Final[Fact[NUMAUsage]] = Fact("node_numa_usage")
"""The latest usage of the node's NUMA nodes."""
PODS_USAGE: Final[Fact[Mapping[str, Usage]]] = Fact("pods_usage")
"""The latest sums over pods, by the collector that measures them: several may, each other pods."""
PODS_NUMA_USAGE: Final[Fact[Mapping[str, NUMAUsage]]] = Fact("pods_numa_usage")
"""The latest sums over pods by NUMA node, by collector; memory alone."""
HOST_APPLICATIONS_USAGE: Final[Fact[Usage]] = Fact("host_applications_usage")
"""The latest sum over host applications."""
COLD_MEMORY_MEASURED: Final[Fact[bool]] = Fact("cold_memory_measured")
"""True once cold memory was measured: then usage with hot pages is known."""
GPU_DEVICES: Final[Fact[tuple[GPUDevice, ...]]] = Fact("gpu_devices")
"""The node's GPUs, in the order in which their usage is reported."""
