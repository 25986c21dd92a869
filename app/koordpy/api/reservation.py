"""Reservation: resources of a node that are reserved for future pods.

A Reservation is a pod template that is scheduled like a pod; from then on its resources belong to the pods
that its owners describe. This module has the object and properties derived from it alone; its lifecycle is in
`reservation_status`, its users in `reservation_owners` and `reservation_affinity`. Source: Koordinator,
`apis/scheduling/v1alpha1/reservation_types.go`, `pkg/util/reservation/reservation.go`.
"""

from typing import Final

import msgspec

from . import extension
from .core import ObjectReference, PodSpec, Taint
from .meta import Condition, KubeObject, LabelSelector, ObjectMeta, ResourceList, Struct

PENDING, AVAILABLE, SUCCEEDED, WAITING, FAILED = "Pending", "Available", "Succeeded", "Waiting", "Failed"
"""Phases."""

DEFAULT_POLICY, ALIGNED, RESTRICTED = "", "Aligned", "Restricted"
"""How strictly owners are limited to the reserved amounts: `spec.allocatePolicy`."""

DEFAULT_MODE, CLUSTER_MODE = "Default", "Cluster"
"""Where a pre-allocating Reservation searches for pods: `spec.preAllocationPolicy.mode`."""

DEFAULT_SCHEDULER: Final = "default-scheduler"


class ReservationController(Struct):
    """The owner reference that a pod must have; unset fields match anything."""

    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    controller: bool | None = None
    block_owner_deletion: bool | None = None


class ReservationOwner(Struct):
    """One description of pods; all of its parts that are set must hold."""

    object: ObjectReference | None = None
    controller: ReservationController | None = None
    label_selector: LabelSelector | None = None


class ReservationTemplate(Struct):
    """The pod template of a Reservation."""

    metadata: ObjectMeta = msgspec.field(default_factory=ObjectMeta)
    spec: PodSpec = msgspec.field(default_factory=PodSpec)


class PreAllocationPolicy(Struct):
    """Which running pods a Reservation may take over, and how many."""

    mode: str = ""
    enable_multiple: bool = False


class ReservationSpec(Struct):
    """The reserved amounts, their owners, and the lifetime."""

    template: ReservationTemplate | None = None
    owners: list[ReservationOwner] = []
    ttl: str | None = None
    expires: str | None = None
    pre_allocation: bool = False
    pre_allocation_policy: PreAllocationPolicy | None = None
    allocate_once: bool | None = None
    allocate_policy: str = ""
    unschedulable: bool = False
    taints: list[Taint] = []


class ReservationStatus(Struct):
    """Its node, its amounts, and the pods that use it."""

    phase: str = ""
    conditions: list[Condition] = []
    current_owners: list[ObjectReference] = []
    node_name: str = ""
    allocatable: ResourceList = {}
    allocated: ResourceList = {}


class Reservation(KubeObject):
    """Reserved resources of a node; cluster-scoped."""

    spec: ReservationSpec = msgspec.field(default_factory=ReservationSpec)
    status: ReservationStatus = msgspec.field(default_factory=ReservationStatus)

    @property
    def node_name(self) -> str:
        """The node on which it was placed, empty before that."""
        return self.status.node_name

    @property
    def is_available(self) -> bool:
        """Whether it holds resources of a node."""
        return bool(self.status.node_name) and self.status.phase == AVAILABLE

    @property
    def is_active(self) -> bool:
        """Whether it is on a node and has not ended."""
        return bool(self.status.node_name) and self.status.phase in (AVAILABLE, WAITING)

    @property
    def is_terminated(self) -> bool:
        """Whether it has ended, used up or not."""
        return self.status.phase in (FAILED, SUCCEEDED)

    @property
    def is_unassigned(self) -> bool:
        """Whether it is still to be scheduled."""
        return not self.status.node_name and not self.is_terminated

    @property
    def is_terminating(self) -> bool:
        """Whether it is being deleted."""
        return self.metadata.deletion_timestamp is not None

    @property
    def is_allocate_once(self) -> bool:
        """Whether one pod uses it up."""
        return self.spec.allocate_once is not False

    @property
    def scheduler_name(self) -> str:
        """The scheduler that places it."""
        template = self.spec.template
        return (template.spec.scheduler_name if template else "") or DEFAULT_SCHEDULER

    @property
    def uses_cluster_mode(self) -> bool:
        """Whether it takes over pods that are marked for it in the whole cluster."""
        policy = self.spec.pre_allocation_policy
        return policy is not None and policy.mode == CLUSTER_MODE

    @property
    def takes_many(self) -> bool:
        """Whether it may take over several pods at once."""
        policy = self.spec.pre_allocation_policy
        return policy is not None and policy.enable_multiple

    @property
    def requires_pre_allocation(self) -> bool:
        """Whether it must take over a pod or stay pending: by its label, or its template's.

        Without pre-allocation it stays pending then.
        """
        template = self.spec.template
        labels = {**(template.metadata.labels if template else {}), **self.metadata.labels}
        return labels.get(extension.LABEL_PRE_ALLOCATION_REQUIRED) == "true"


def validate(reservation: Reservation | None) -> str:
    """Return why a Reservation cannot be scheduled at all, empty if it can."""
    if reservation is None:
        return "the reservation is nil"
    if reservation.spec.template is None:
        return "the reservation misses the template spec"
    if not reservation.spec.owners:
        return "the reservation misses the owner spec"
    if reservation.spec.ttl is None and reservation.spec.expires is None:
        return "the reservation misses the expiration spec"
    return ""
