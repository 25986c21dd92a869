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

MULTI_QUOTA_TREE = "MultiQuotaTree"
"""Quotas with a tree id are in a tree of their own, with a total of its own."""

DISABLE_DEFAULT_QUOTA = "DisableDefaultQuota"
"""Only the label of a pod names its quota; pods without one are not limited."""

GUARANTEE_USAGE = "ElasticQuotaGuaranteeUsage"
"""What a quota uses is guaranteed to it; no quota lends."""

IGNORE_POD_OVERHEAD = "ElasticQuotaIgnorePodOverhead"
"""The overhead of pods does not count in quotas."""

IGNORE_TERMINATING_POD = "ElasticQuotaIgnoreTerminatingPod"
"""Pods that are being deleted no longer count in quotas once their grace period is over."""

IMMEDIATE_IGNORE_TERMINATING_POD = "ElasticQuotaImmediateIgnoreTerminatingPod"
"""Pods that are being deleted no longer count in quotas."""

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
    MULTI_QUOTA_TREE: FeatureSpec(False, Stage.ALPHA),
    DISABLE_DEFAULT_QUOTA: FeatureSpec(False, Stage.ALPHA),
    GUARANTEE_USAGE: FeatureSpec(False, Stage.ALPHA),
    IGNORE_POD_OVERHEAD: FeatureSpec(False, Stage.ALPHA),
    IGNORE_TERMINATING_POD: FeatureSpec(False, Stage.ALPHA),
    IMMEDIATE_IGNORE_TERMINATING_POD: FeatureSpec(False, Stage.ALPHA),
    **transformers.SPECS,
}


def scheduling_gates() -> FeatureGates:
    """Return the gates with their defaults."""
    return FeatureGates(SPECS)
