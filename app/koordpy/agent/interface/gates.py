"""The node agent's feature gates, with Koordinator's names and defaults (pkg/features/koordlet_features.go).

Gates of koordlet that are not implemented are accepted with a warning (`koordpy.gates`).
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
    """Return whether a node's NodeSLO disables a feature at run time.

    Raises ValueError if the NodeSLO does not decide it: then nothing may be changed, not even reverted.
    """
    if slo is None:
        raise ValueError("the node has no NodeSLO")
    if feature not in _SWITCHED_BY_THRESHOLDS:
        raise ValueError(f"NodeSLO has no switch for {feature}")
    threshold = slo.resource_used_threshold_with_be
    if threshold is None or threshold.enable is None:
        raise ValueError("NodeSLO resourceUsedThresholdWithBE.enable is not set")
    return not threshold.enable
