import re
from pathlib import Path

import pytest

from koordpy.agent.interface import gates
from koordpy.api.slo.node_slo import NodeSLOSpec
from koordpy.api.slo.threshold import ResourceThresholdStrategy
from koordpy.lib.feature_gates import FeatureGateError, FeatureGates

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


def test_a_gate_that_switches_nothing_is_refused() -> None:
    """A gate is used by the constant that has its name, outside of the module that declares it."""
    constants = {value: name for name, value in vars(gates).items() if isinstance(value, str)}
    root = Path(gates.__file__).parents[4]
    declared = Path(gates.__file__)
    used: set[str] = set()
    for folder in ("app/koordpy/agent", "plugins/koordpy_plugins"):
        for file in (root / folder).rglob("*.py"):
            if file != declared:
                used.update(re.findall(r"\b[A-Z][A-Z0-9_]+\b", file.read_text(encoding="utf-8")))
    without = {name for name in gates.KOORDLET if constants[name] not in used}
    assert without == gates.REFUSED.keys()


def test_a_refused_gate_says_why() -> None:
    gates.check(FeatureGates(gates.GATES))
    with pytest.raises(FeatureGateError, match=r"gate 'PodResourcesProxy' cannot be switched on: .*gRPC"):
        gates.check(FeatureGates(gates.GATES, {"PodResourcesProxy": True}))
