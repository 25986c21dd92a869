"""PodMigrationJob: asks for one pod to be evicted, by default only once a Reservation holds its new place.

The Reservation template of a job is not decoded: a job's author may write any field of a pod, and only the
creation of the Reservation reads it, from the document on the API server. Source: Koordinator,
`apis/scheduling/v1alpha1/pod_migration_job_types.go`.
"""

from typing import Any, Final

import msgspec

from .core import ObjectReference
from .meta import Condition, KubeObject, Struct

PENDING, RUNNING = "Pending", "Running"
SUCCEEDED, FAILED, ABORTED = "Succeeded", "Failed", "Aborted"
"""Phases; an empty phase means pending, and `Aborted` is only ever set by users."""

COMPLETE: Final = "Complete"
"""The `status.status` of a job that succeeded; until then it is the type of the last changed condition."""

RESERVATION_FIRST, EVICT_DIRECTLY = "ReservationFirst", "EvictDirectly"
"""Modes; an empty mode means the controller's default, any other one acts as ReservationFirst."""

CONDITION_RESERVATION_CREATED: Final = "ReservationCreated"
CONDITION_RESERVATION_SCHEDULED: Final = "ReservationScheduled"
CONDITION_EVICTION: Final = "Eviction"
CONDITION_POD_SCHEDULED: Final = "PodScheduled"
CONDITION_POD_BOUND_RESERVATION: Final = "PodBoundReservation"
CONDITION_RESERVATION_BOUND: Final = "ReservationBound"
CONDITION_BOUND_POD_READY: Final = "BoundPodReady"

REASON_TIMEOUT: Final = "Timeout"
REASON_FAILED_CREATE_RESERVATION: Final = "FailedCreateReservation"
REASON_RESERVATION_EXPIRED: Final = "ReservationExpired"
REASON_UNSCHEDULABLE: Final = "Unschedulable"
REASON_FORBIDDEN_MIGRATE_POD: Final = "ForbiddenMigratePod"
REASON_MISSING_POD: Final = "MissingPod"
REASON_MISSING_RESERVATION: Final = "MissingReservation"
REASON_EVICTING: Final = "Evicting"
REASON_EVICT_COMPLETE: Final = "EvictComplete"
REASON_FAILED_EVICT: Final = "FailedEvict"
REASON_WAIT_FOR_POD_BIND_RESERVATION: Final = "WaitForPodBindReservation"
REASON_WAIT_FOR_BOUND_POD_READY: Final = "WaitForBoundPodReady"
REASON_INVALID_POD_REF: Final = "InvalidPodRef"
REASON_INVALID_TTL: Final = "InvalidTTL"
"""Ours: Koordinator cannot even read a job whose TTL is no duration."""

ANNOTATION_EVICT_REASON: Final = "koordinator.sh/evict-reason"
"""On a job: why the pod is evicted, in words."""
ANNOTATION_EVICT_TRIGGER: Final = "koordinator.sh/evict-trigger"
"""On a job: the plugin that evicts."""
ANNOTATION_JOB_CREATED_BY: Final = "koordinator.sh/job-created-by"
"""On a job: the UUID of the controller instance that created it."""
ANNOTATION_PASSED_ARBITRATION: Final = "descheduler.koordinator.sh/passed-arbitration"
"""On a job: `true` once the arbitrator has let it pass."""
ANNOTATION_SOFT_EVICTION: Final = "scheduling.koordinator.sh/soft-eviction"
"""On a pod: the request to evict it, for the component that does so."""
LABEL_EVICT_POLICY: Final = "koordinator.sh/evict-policy"
"""On a pod or a job: how the pod is evicted, `Eviction`, `Delete` or `SoftEviction`."""
LABEL_CREATED_BY: Final = "app.kubernetes.io/created-by"
"""On a Reservation: `CREATED_BY` if it belongs to a migration."""
CREATED_BY: Final = "koord-descheduler"


class ReservationOptions(Struct):
    """The Reservation of a job; its template is not decoded (see the module)."""

    reservation_ref: ObjectReference | None = None


class PodMigrationJobSpec(Struct):
    """Which pod to migrate, and how."""

    paused: bool = False
    ttl: str | None = None
    mode: str = ""
    pod_ref: ObjectReference | None = None
    reservation_options: ReservationOptions | None = None
    delete_options: dict[str, Any] | None = None
    """A `metav1.DeleteOptions`, passed on to the eviction; None for the controller's."""


class PodMigrationJobStatus(Struct):
    """How far the migration is."""

    phase: str = ""
    status: str = ""
    reason: str = ""
    message: str = ""
    conditions: list[Condition] = []
    node_name: str = ""
    """The node of the scheduled Reservation."""
    pod_ref: ObjectReference | None = None
    """The pod that consumed the Reservation."""


class PodMigrationJob(KubeObject):
    """The migration of one pod; cluster-scoped."""

    spec: PodMigrationJobSpec = msgspec.field(default_factory=PodMigrationJobSpec)
    status: PodMigrationJobStatus = msgspec.field(default_factory=PodMigrationJobStatus)

    @property
    def is_pending(self) -> bool:
        """Whether it has not started."""
        return self.status.phase in ("", PENDING)

    @property
    def is_running(self) -> bool:
        """Whether it has started and not ended."""
        return self.status.phase == RUNNING

    @property
    def is_unfinished(self) -> bool:
        """Whether it is pending or running; any other phase is an end."""
        return self.is_pending or self.is_running

    @property
    def pod_key(self) -> str:
        """The `namespace/name` of its pod; without a reference, `/`."""
        reference = self.spec.pod_ref
        return f"{reference.namespace}/{reference.name}" if reference is not None else "/"

    @property
    def pod_uid(self) -> str:
        """The UID of its pod, empty if none is given."""
        return self.spec.pod_ref.uid if self.spec.pod_ref is not None else ""

    def condition(self, type_: str) -> Condition | None:
        """Return the condition of a type, None if there is none."""
        return next((item for item in self.status.conditions if item.type == type_), None)
