"""Koordinator's feature gates, as far as they decide what the scheduling framework does.

Names, defaults and stages are Koordinator's, so that the `--feature-gates` of a koord-scheduler keep their
meaning. Source: Koordinator, `pkg/features/scheduler_features.go`.
"""

from koordpy.lib.feature_gates import FeatureGates, FeatureSpec, Stage

DYNAMIC_SCHEDULER_CHECK = "DynamicSchedulerCheck"
"""PreBind looks whether the pod still belongs to the profile and is not being deleted."""

RESIZE_POD = "ResizePod"
"""ResizePod plugins may change what a pod requests once its node is known."""

CROSS_SCHEDULER_NOMINATION = "CrossSchedulerNomination"
"""Pods of other schedulers count on the node to which they are nominated, against less important ones."""

SKIP_FILTER_WITH_NOMINATED_PODS = "SkipFilterWithNominatedPods"
"""A node that passes with its nominated pods is not tried again without them."""

SPECS: dict[str, FeatureSpec] = {
    DYNAMIC_SCHEDULER_CHECK: FeatureSpec(True, Stage.BETA),
    RESIZE_POD: FeatureSpec(False, Stage.ALPHA),
    CROSS_SCHEDULER_NOMINATION: FeatureSpec(False, Stage.ALPHA),
    SKIP_FILTER_WITH_NOMINATED_PODS: FeatureSpec(False, Stage.ALPHA),
}


def scheduling_gates() -> FeatureGates:
    """Return the gates with their defaults."""
    return FeatureGates(SPECS)
