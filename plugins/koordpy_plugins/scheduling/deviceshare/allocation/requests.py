"""What a pod asks of the devices of a node, read from its requests and annotations once an attempt.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/plugin.go` (preFilterState), `apis/extension/
device_share.go`.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from koordpy.api.label_selector import Selector
from koordpy.api.quantity import Quantity

from ..state.exact import Exact, exact

GPU: Final = "gpu"
RDMA: Final = "rdma"
FPGA: Final = "fpga"
TYPES: Final = (GPU, RDMA, FPGA)
"""The types of devices that can be allocated; a Device may list others."""

APPLY_FOR_ALL: Final = "ApplyForAll"
REQUESTS_AS_COUNT: Final = "RequestsAsCount"
"""Strategies of allocation."""

DEVICE_LEVEL: Final = "DeviceLevel"
"""The exclusive policy by which a counted request takes whole devices."""

SAME_PCIE: Final = "SamePCIe"
"""The scope that joint allocations can require."""

Amounts = Mapping[str, Quantity]


@dataclass(frozen=True)
class GPURequirements:
    """How a pod wants its GPUs; `per_gpu` is what it takes of each of `count`."""

    per_gpu: Amounts
    count: int = 1
    shared: bool = False
    """Whether it takes a part of each GPU."""
    honors_partitions: bool = False
    """Whether it takes nothing but a partition, whatever the node's policy is."""
    restricted: bool = False
    """Whether only the partitions of the first allocation score count."""
    bandwidth: Quantity | None = None
    """The bandwidth of the ring bus that a partition must have."""
    required_scope: str = ""
    """The topology scope that all must be in, as the hint has it; unknown ones are still required."""
    enforces_templates: bool = False
    """Whether what it takes of a GPU must be a template of the GPU model."""
    templates: Mapping[str, Collection[str]] = field(default_factory=dict)
    """The templates that equal `per_gpu`, by `<vendor>-<model>`."""

    @cached_property
    def exact(self) -> Exact:
        """`per_gpu` in billionths."""
        return exact(self.per_gpu)


@dataclass(frozen=True)
class DeviceHint:
    """How devices of a type are to be chosen. With a `vf_selector`, each must give a virtual function."""

    selector: Selector | None = None
    vf_selector: Selector | None = None
    strategy: str = ""
    exclusive_policy: str = ""
    required_topology_scope: str = ""


@dataclass(frozen=True)
class JointAllocation:
    """Types that are allocated near each other, the primary one first. Never empty.

    Types that the pod does not request, or that apply for all devices, are left out already.
    """

    types: tuple[str, ...]
    required_scope: str = ""

    @property
    def primary(self) -> str:
        """The type that decides the place of the others."""
        return self.types[0]


@dataclass(frozen=True)
class Requests:
    """All that a pod asks; `amounts` are its normalised requests by type, none of them 0.

    `gpu` is set if, and only if, it requests GPUs. `designated_functions` are the bus addresses of virtual
    functions by type and minor that a recorded allocation is limited to.
    """

    amounts: Mapping[str, Amounts]
    gpu: GPURequirements | None = None
    hints: Mapping[str, DeviceHint] = field(default_factory=dict)
    joint: JointAllocation | None = None
    designated_functions: Mapping[str, Mapping[int, Collection[str]]] = field(default_factory=dict)
