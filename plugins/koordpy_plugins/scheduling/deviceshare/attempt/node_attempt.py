"""The devices of one node in one attempt: every point that looks for devices asks here."""

from dataclasses import dataclass, replace
from typing import Final

from koordpy.api.core import Node, Pod
from koordpy.api.device_allocations import DeviceAllocations
from koordpy.scheduling.interface.status import Status

from ..allocation.allocator import allocate, score
from ..allocation.counting import Wanted, wanted_on
from ..allocation.requests import GPU
from ..amounts import NONE, Minors, NodeAmounts, total
from ..reservations.restored import RestoredNode
from ..scoring import Scorer
from ..state.node_devices import NodeDevices
from .prepared import Prepared

NOTHING: Final[DeviceAllocations] = {}


@dataclass(frozen=True, slots=True)
class NodeAttempt:
    """A node with devices, a pod that requests some, and what the node's reservations hold."""

    prepared: Prepared
    restored: RestoredNode
    devices: NodeDevices
    node: Node
    pod: Pod
    numa_mask: int | None = None
    """The NUMA nodes whose devices may be used; None means all."""
    scorer: Scorer | None = None
    """Decides between devices that can all give the request; without it the order does."""
    reserving: bool = False
    """Whether the allocation is final."""

    def within(self, numa_mask: int) -> "NodeAttempt":
        """Return the same limited to some NUMA nodes."""
        return replace(self, numa_mask=numa_mask)

    @property
    def base(self) -> NodeAmounts:
        """What counts as free although it is allocated: to removed pods, or twice because of reservations."""
        preemptible = self.prepared.preemptible.get(self.node.metadata.name, NONE)
        return total(self.restored.unmatched_used, preemptible)

    def preemptible_of(self, reservation_uid: str) -> NodeAmounts:
        """Return what removed pods held of a reservation."""
        return self.prepared.preemptible_of(self.node.metadata.name, reservation_uid)

    def only_gpu(self, minor: int) -> NodeAmounts:
        """Return the cap that leaves one of the node's GPUs, with all that is free of it."""
        return {GPU: {minor: self.devices.total.get(GPU, {}).get(minor, {})}}

    def wanted(self) -> tuple[dict[str, Wanted], Status]:
        """Return what the pod wants of each type, or why the node cannot give it."""
        found, status = wanted_on(self.devices, self.prepared.requests, reserving=self.reserving)
        return dict(found), status

    def allocate(
        self,
        free: NodeAmounts,
        *,
        required: Minors | None = None,
        preferred: Minors | None = None,
        cap: NodeAmounts | None = None,
    ) -> tuple[DeviceAllocations, Status]:
        """Return devices by type, nothing on a failure. Changes nothing.

        `free` is free besides what the ledger says; `cap` is the most that is free, by type and minor.
        """
        return allocate(
            self.devices,
            self.node.metadata.labels,
            self.prepared.requests,
            required=required,
            preferred=preferred,
            required_resources=cap,
            preemptible=free,
            numa_mask=self.numa_mask,
            scorer=self.scorer,
            reserving=self.reserving,
        )

    def score(self, free: NodeAmounts, cap: NodeAmounts | None = None) -> tuple[int, Status]:
        """Return the score of the devices, not normalised, or why there is none."""
        assert self.scorer is not None
        return score(
            self.devices,
            self.prepared.requests,
            self.scorer,
            required_resources=cap,
            preemptible=free,
            numa_mask=self.numa_mask,
            reserving=self.reserving,
        )
