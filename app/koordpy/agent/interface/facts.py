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
class DeviceStatus:
    """What is known of a device's health; the code is a short word such as `Xid48`."""

    healthy: bool
    error_code: str = ""
    error_message: str = ""


@dataclass(frozen=True)
class GPUDevice:
    """A GPU of the node.

    `memory_total` is in bytes; `numa_node` is -1 if unknown; `pcie` is the PCI root, such as `pci0000:3a`.
    `status` is None while nothing has been found wrong with it.
    """

    uuid: str
    minor: int
    memory_total: int
    numa_node: int = -1
    pcie: str = ""
    bus_id: str = ""
    status: DeviceStatus | None = None


@dataclass(frozen=True)
class GPUDriver:
    """The model that all GPUs of the node have in common, and the version of their driver; may be empty."""

    model: str = ""
    version: str = ""


@dataclass(frozen=True)
class RDMADevice:
    """A network card of the node with RDMA; `bus_id` is its PCI address, such as `0000:3b:00.0`."""

    bus_id: str
    minor: int
    numa_node: int
    pcie: str
    healthy: bool
    virtual_functions: tuple[str, ...] | None = None
    """PCI addresses of its virtual functions; None if it has none configured."""


@dataclass(frozen=True)
class PeerLink:
    """A link from a device to others; `peers` are minors, joined by commas."""

    peers: str
    type: str


@dataclass(frozen=True)
class XPUTopology:
    """The place of an XPU; `links` is None if nothing is said about links."""

    numa_node: int = -1
    pcie: str = ""
    bus_id: str = ""
    links: tuple[PeerLink, ...] | None = None
    must_honor_partition: bool = False


@dataclass(frozen=True)
class XPUDevice:
    """A GPU, NPU or other accelerator that its vendor's tools describe in a file."""

    vendor: str
    model: str
    uuid: str
    minor: int
    resources: Mapping[str, str] = field(default_factory=dict)
    """Quantities by resource name, as they are in the file."""
    topology: XPUTopology | None = None
    status: DeviceStatus | None = None


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
GPU_DRIVER: Final[Fact[GPUDriver]] = Fact("gpu_driver")
"""Model and driver of the node's GPUs."""
RDMA_DEVICES: Final[Fact[tuple[RDMADevice, ...]]] = Fact("rdma_devices")
"""The node's network cards with RDMA."""
XPU_DEVICES: Final[Fact[tuple[XPUDevice, ...]]] = Fact("xpu_devices")
"""The accelerators that files describe, in the order of the files."""
