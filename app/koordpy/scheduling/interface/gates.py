"""Koordinator's feature gates that affect the scheduling framework.

Names, defaults and stages are Koordinator's, so that the `--feature-gates` of a koord-scheduler keep their
meaning. Source: Koordinator, `pkg/features/scheduler_features.go`.
"""

from koordpy.cluster import transformers
from koordpy.lib.feature_gates import FeatureGates, FeatureSpec, Stage

DYNAMIC_SCHEDULER_CHECK = "DynamicSchedulerCheck"
"""PreBind checks that the pod still belongs to the profile and is not being deleted."""

RESIZE_POD = "ResizePod"
"""ResizePod plugins may change what a pod requests once its node is known."""

CROSS_SCHEDULER_NOMINATION = "CrossSchedulerNomination"
"""Pods of other schedulers count on the node to which they are nominated, against less important ones."""

SKIP_FILTER_WITH_NOMINATED_PODS = "SkipFilterWithNominatedPods"
"""A node that passes with its nominated pods is not filtered again without them."""

OMIT_NODE_LABELS_FOR_RESERVATION = "OmitNodeLabelsForReservation"
"""Reservations are chosen by their own labels alone, not by their nodes' too."""

SKIP_RESERVATION_FITS_NODE = "SkipReservationFitsNode"
"""If only one reservation matches the pod, NodeResourcesFit alone checks the node."""

CLEAN_EXPIRED_RESERVATION_ALLOCATED = "CleanExpiredReservationAllocated"
"""When a Reservation is deleted, the annotation that names it is removed from its pods."""

OPPORTUNISTIC_BATCHING = "OpportunisticBatching"
"""One pass over the nodes serves pods that all plugins sign equally. Kubernetes' gate, and its default."""

INLINE_BATCH_SCHEDULE = "EnableInlineBatchSchedule"
"""All pods of a job are bound as soon as it is planned, without waiting for kube-scheduler's calls."""

SPECS: dict[str, FeatureSpec] = {
    DYNAMIC_SCHEDULER_CHECK: FeatureSpec(True, Stage.BETA),
    RESIZE_POD: FeatureSpec(False, Stage.ALPHA),
    CROSS_SCHEDULER_NOMINATION: FeatureSpec(False, Stage.ALPHA),
    SKIP_FILTER_WITH_NOMINATED_PODS: FeatureSpec(False, Stage.ALPHA),
    OMIT_NODE_LABELS_FOR_RESERVATION: FeatureSpec(False, Stage.ALPHA),
    SKIP_RESERVATION_FITS_NODE: FeatureSpec(False, Stage.ALPHA),
    CLEAN_EXPIRED_RESERVATION_ALLOCATED: FeatureSpec(False, Stage.ALPHA),
    OPPORTUNISTIC_BATCHING: FeatureSpec(True, Stage.BETA),
    INLINE_BATCH_SCHEDULE: FeatureSpec(False, Stage.ALPHA),
    **transformers.SPECS,
}


def scheduling_gates() -> FeatureGates:
    """Return the gates with their defaults."""
    return FeatureGates(SPECS)
