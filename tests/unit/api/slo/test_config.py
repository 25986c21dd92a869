"""The sections of slo-controller-config."""

from typing import Any

import pytest

from koordpy.api.scheme import DecodeError
from koordpy.api.slo import config
from koordpy.api.slo.colocation import AggregatePolicy
from koordpy.api.slo.config import Section
from koordpy.api.slo.node_resources import ModelRatioCfg
from koordpy.api.slo.rendering import SLOConfig
from koordpy.api.slo.selection import first_for
from koordpy.api.slo.system import SystemStrategy

SECTIONS: list[Section[Any]] = [
    config.COLOCATION,
    config.THRESHOLD,
    config.RESOURCE_QOS,
    config.SYSTEM,
    config.CPU_BURST,
    config.HOST_APPLICATION,
    config.CPU_NORMALIZATION,
    config.RESOURCE_AMPLIFICATION,
]


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.key)
def test_an_empty_section_names_no_strategy(section: Section[Any]) -> None:
    found = section.read("{}")
    assert not found.nodes
    assert found.cluster == (None if section.cluster else section.strategy())


@pytest.mark.parametrize("section", SECTIONS, ids=lambda section: section.key)
@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"nodeStrategies": {}, "nodeConfigs": {}}', "{} {}"])
def test_text_of_another_shape_is_refused(section: Section[Any], text: str) -> None:
    with pytest.raises(DecodeError):
        section.read(text)


def test_names_match_in_any_case_and_the_last_counts() -> None:
    found = config.THRESHOLD.read('{"ClusterStrategy": {"ENABLE": true, "enable": null, "Enable": false}}')
    assert found.cluster is not None
    assert found.cluster.enable is False


def test_a_strategy_of_which_no_field_is_named_is_none() -> None:
    found = config.SYSTEM.read(
        '{"nodeStrategies": [{"name": "a"}, {"name": "b", "minFreeKbytesFactor": null}]}'
    )
    assert [node.strategy for node in found.nodes] == [None, SystemStrategy()]


@pytest.mark.parametrize(
    ("section", "text", "place"),
    [
        (config.SYSTEM, '{"clusterStrategy": {"totalNetworkBandwidth": "10x"}}', "totalNetworkBandwidth"),
        (config.COLOCATION, '{"metricAggregatePolicy": {"durations": ["5m", "5"]}}', r"durations\[1\]"),
        (config.COLOCATION, '{"metricAggregatePolicy": {"durations": [null]}}', "durations"),
        (config.CPU_BURST, '{"nodeStrategies": [{}, {"cpuBurstPercent": "1"}]}', r"nodeStrategies\[1\]"),
        (
            config.CPU_BURST,
            '{"clusterStrategy": {"cpuBurstPercent": 9223372036854775808}}',
            "cpuBurstPercent",
        ),
        (config.CPU_BURST, '{"clusterStrategy": {"cpuBurstPercent": 1.0}}', "cpuBurstPercent"),
        (config.RESOURCE_QOS, '{"clusterStrategy": {"lsClass": []}}', "lsClass"),
    ],
)
def test_a_wrong_value_is_named(section: Section[Any], text: str, place: str) -> None:
    with pytest.raises(DecodeError, match=place):
        section.read(text)


def test_quantities_and_durations_are_brought_into_one_form() -> None:
    system = config.SYSTEM.read('{"clusterStrategy": {"totalNetworkBandwidth": 1000}}').cluster
    assert system is not None
    assert system.total_network_bandwidth == "1k"
    strategy = config.COLOCATION.read('{"metricAggregatePolicy": {"durations": ["90s"]}}').cluster
    assert strategy is not None
    assert strategy.metric_aggregate_policy == AggregatePolicy(durations=["1m30s"])


def test_ratios_by_model_and_by_resource_are_read() -> None:
    text = '{"enable": true, "ratioModel": {"m": {"baseRatio": 2}}, "nodeConfigs": [{"defaultRatio": 1.5}]}'
    found = config.CPU_NORMALIZATION.read(text)
    assert found.cluster is not None
    assert found.cluster.ratio_model == {"m": ModelRatioCfg(base_ratio=2.0)}
    assert found.nodes[0].strategy is not None
    assert found.nodes[0].strategy.default_ratio == 1.5
    amplification = config.RESOURCE_AMPLIFICATION.read('{"resourceAmplificationRatio": {"cpu": 1.5}}')
    assert amplification.cluster is not None
    assert amplification.cluster.resource_amplification_ratio == {"cpu": 1.5}


def test_the_first_node_configuration_that_selects_a_node_is_its() -> None:
    text = """{"nodeStrategies": [
        {"name": "none"},
        {"name": "bad", "nodeSelector": {"matchExpressions": [{"key": "a", "operator": "Bad"}]}},
        {"name": "first", "nodeSelector": {"matchLabels": {"a": "b"}}},
        {"name": "every", "nodeSelector": {}}]}"""
    nodes = config.THRESHOLD.read(text).nodes
    found = [first_for(nodes, labels) for labels in ({"a": "b"}, {})]
    assert [node.name for node in found if node is not None] == ["first", "every"]


def test_a_section_that_cannot_be_read_stays_what_it_was() -> None:
    before, problems = SLOConfig().updated({"cpu-burst-config": '{"clusterStrategy": {"policy": "auto"}}'})
    assert not problems
    after, problems = before.updated({"cpu-burst-config": "{", "system-config": "{}"})
    assert list(problems) == ["CPUBurstCfg"]
    assert after.cpu_burst is before.cpu_burst
    assert before.updated(None)[0] == SLOConfig()
