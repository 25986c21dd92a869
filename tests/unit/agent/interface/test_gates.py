import pytest

from koordpy.agent.interface import gates
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.threshold import ResourceThresholdStrategy

EVICTIONS = (
    gates.BE_CPU_EVICT,
    gates.BE_MEMORY_EVICT,
    gates.CPU_ALLOCATABLE_EVICT,
    gates.CPU_EVICT,
    gates.MEMORY_ALLOCATABLE_EVICT,
    gates.MEMORY_EVICT,
)


def slo(enable: bool | None) -> NodeSLOSpec:
    return NodeSLOSpec(resource_used_threshold_with_be=ResourceThresholdStrategy(enable=enable))


@pytest.mark.parametrize("feature", [gates.BE_CPU_SUPPRESS, *EVICTIONS])
def test_the_threshold_strategy_switches_suppression_and_evictions(feature: str) -> None:
    assert not gates.is_feature_disabled(slo(True), feature)
    assert gates.is_feature_disabled(slo(False), feature)


@pytest.mark.parametrize("undecided", [None, NodeSLOSpec(), slo(None)])
def test_a_node_slo_that_does_not_decide_is_an_error(undecided: NodeSLOSpec | None) -> None:
    with pytest.raises(ValueError, match="NodeSLO"):
        gates.is_feature_disabled(undecided, gates.CPU_EVICT)


def test_other_features_have_no_switch() -> None:
    with pytest.raises(ValueError, match="no switch for CPUBurst"):
        gates.is_feature_disabled(slo(True), gates.CPU_BURST)


def test_the_features_that_are_on_by_default_are_koordlets() -> None:
    on = {name for name, spec in gates.GATES.items() if spec.default}
    assert {"BECPUSuppress", "CPUBurst", "RdtResctrl", "NodeTopologyReport"} <= on
    assert not on & {"CgroupReconcile", "BlkIOReconcile", "SystemConfig"}
