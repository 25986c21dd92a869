"""The effective NodeSLO of a node: its spec and the defaults."""

from typing import Any

import pytest

from koordpy.api.koordinator import NodeSLO
from koordpy.api.scheme import DecodeError, decode
from koordpy.api.slo.node_slo import DEFAULT, ExtensionsMap, NodeSLOSpec, completed


def spec(document: dict[str, Any]) -> NodeSLOSpec:
    return decode(NodeSLO, {"spec": document}).spec


def test_absent_sections_have_the_defaults() -> None:
    threshold = completed(NodeSLOSpec()).resource_used_threshold_with_be
    assert threshold is not None
    assert (threshold.enable, threshold.cpu_suppress_threshold_percent) == (False, 65)
    assert completed(NodeSLOSpec()).host_applications == []


def test_present_values_win_and_the_rest_stays() -> None:
    section = {"enable": True, "cpuSuppressPolicy": None, "cpuSuppressMinPercent": 5}
    threshold = completed(spec({"resourceUsedThresholdWithBE": section})).resource_used_threshold_with_be
    assert threshold is not None
    assert (threshold.enable, threshold.cpu_suppress_policy) == (True, "cpuset")
    assert threshold.cpu_suppress_min_percent == 5


@pytest.mark.parametrize(("enable", "expected"), [(True, 1), (False, 0)])
@pytest.mark.parametrize("name", ["lsrClass", "lsClass", "beClass"])
def test_values_of_a_disabled_section_have_no_effect(name: str, enable: bool, expected: int) -> None:
    given = {"resourceQOSStrategy": {name: {"cpuQOS": {"enable": enable, "groupIdentity": 1}}}}
    full = completed(spec(given)).resource_qos_strategy
    assert full is not None
    of_class = {"lsrClass": full.lsr_class, "lsClass": full.ls_class, "beClass": full.be_class}[name]
    assert of_class is not None
    assert of_class.cpu_qos is not None
    assert of_class.cpu_qos.group_identity == expected


def test_only_extensions_with_a_registered_default_survive() -> None:
    full = completed(
        spec({"extensions": {"Object": {"mine": {"a": 1}, "other": 1}}}), {"mine": {"a": 0, "b": 2}}
    )
    assert full.extensions == ExtensionsMap(object={"mine": {"a": 1, "b": 2}})


def test_merging_leaves_the_defaults_alone() -> None:
    before = repr(DEFAULT)
    completed(spec({"systemStrategy": {"watermarkScaleFactor": 1, "schedFeatures": {"A": True}}}))
    assert repr(DEFAULT) == before


def test_values_out_of_range_are_taken_and_other_types_are_not() -> None:
    section = spec({"cpuBurstStrategy": {"cpuBurstPercent": 10**6}}).cpu_burst_strategy
    assert section is not None
    assert section.cpu_burst_percent == 10**6
    with pytest.raises(DecodeError, match="cpuBurstPercent"):
        spec({"cpuBurstStrategy": {"cpuBurstPercent": "1"}})
