"""The node agent's feature gates, with Koordinator's names and defaults (pkg/features/koordlet_features.go).

Only gates of what is built here are known: a gate that would switch nothing is refused by name.
"""

from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.lib.feature_gates import FeatureSpec, Stage

BE_CPU_SUPPRESS = "BECPUSuppress"
BE_CPU_MANAGER = "BECPUManager"

GATES = {
    BE_CPU_SUPPRESS: FeatureSpec(default=True, stage=Stage.BETA),
    BE_CPU_MANAGER: FeatureSpec(default=False, stage=Stage.ALPHA),
}

_SWITCHED_BY_THRESHOLDS = frozenset({BE_CPU_SUPPRESS})


def is_feature_disabled(slo: NodeSLOSpec | None, feature: str) -> bool:
    """Return whether a node's NodeSLO switches a feature off at run time.

    Raises ValueError when the NodeSLO does not say: then nothing may be touched, not even to undo.
    """
    if slo is None:
        raise ValueError("the node has no NodeSLO")
    if feature not in _SWITCHED_BY_THRESHOLDS:
        raise ValueError(f"NodeSLO has no switch for {feature}")
    threshold = slo.resource_used_threshold_with_be
    if threshold is None or threshold.enable is None:
        raise ValueError("NodeSLO resourceUsedThresholdWithBE.enable is not set")
    return not threshold.enable
