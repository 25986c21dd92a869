"""What colocation-config says of the cluster and of one node."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import extension
from koordpy.api.decoding import DecodeError
from koordpy.api.slo.colocation import DEFAULT, ColocationStrategy
from koordpy.api.slo.colocation_config import ColocationConfig, InvalidStrategy, invalid
from koordpy.api.slo.merge import merge

ANNOTATION = extension.ANNOTATION_NODE_COLOCATION_STRATEGY
CPU_RATIO = extension.LABEL_CPU_RECLAIM_RATIO


def read(**section: Any) -> ColocationConfig:
    return ColocationConfig.read(json.dumps(section))


def pool(name: str, **fields: Any) -> dict[str, Any]:
    return {"name": name, "nodeSelector": {"matchLabels": {"pool": name}}, **fields}


def test_a_cluster_without_fields_has_the_defaults() -> None:
    assert read().cluster == DEFAULT


def test_the_first_entry_that_selects_a_node_counts_alone() -> None:
    config = read(
        cpuReclaimThresholdPercent=70,
        nodeConfigs=[
            {"name": "no selector", "cpuReclaimThresholdPercent": 1},
            pool("a", memoryReclaimThresholdPercent=50),
            {"name": "all", "nodeSelector": {}, "cpuReclaimThresholdPercent": 90},
        ],
    )
    first = config.strategy_for({"pool": "a"})
    assert (first.cpu_reclaim_threshold_percent, first.memory_reclaim_threshold_percent) == (70, 50)
    assert config.strategy_for({}).cpu_reclaim_threshold_percent == 90


def test_a_selector_that_cannot_be_read_is_passed_over() -> None:
    wrong = {"matchExpressions": [{"key": "pool", "operator": "Near", "values": ["a"]}]}
    config = read(
        nodeConfigs=[{"name": "w", "nodeSelector": wrong, "enable": True}, pool("a", degradeTimeMinutes=7)]
    )
    assert config.strategy_for({"pool": "a"}).degrade_time_minutes == 7


def test_the_annotation_is_laid_over_and_the_label_over_that() -> None:
    config = read(nodeConfigs=[pool("a", cpuReclaimThresholdPercent=50)])
    annotations = {ANNOTATION: '{"cpuReclaimThresholdPercent":60,"degradeTimeMinutes":-1}'}
    found = config.strategy_for({"pool": "a"}, annotations)
    assert (found.cpu_reclaim_threshold_percent, found.degrade_time_minutes) == (60, -1)
    found = config.strategy_for({"pool": "a", CPU_RATIO: "0.8"}, annotations)
    assert found.cpu_reclaim_threshold_percent == 80


@pytest.mark.parametrize("text", ["{", "[]", '{"cpuReclaimThresholdPercent":"60"}', ""])
def test_an_annotation_that_cannot_be_read_does_not_count(text: str) -> None:
    config = read(cpuReclaimThresholdPercent=70)
    assert config.strategy_for({}, {ANNOTATION: text}) == config.cluster


@pytest.mark.parametrize(
    ("text", "percent"),
    [
        ("0.57", 56),
        ("0.29", 28),
        ("1.5", 150),
        ("0", 0),
        ("1e-1", 10),
        ("-0.1", None),
        ("nan", None),
        ("60%", None),
        ("", None),
    ],
)
def test_labels_set_percentages_truncated_as_doubles(text: str, percent: int | None) -> None:
    found = read().strategy_for({CPU_RATIO: text})
    assert found.cpu_reclaim_threshold_percent == (60 if percent is None else percent)


@pytest.mark.parametrize(
    ("label", "field"),
    [
        (extension.LABEL_MEMORY_RECLAIM_RATIO, "memory_reclaim_threshold_percent"),
        (extension.LABEL_MID_STATIC_CPU_RESERVED_RATIO, "mid_static_cpu_reserved_percent"),
        (extension.LABEL_MID_STATIC_MEMORY_RESERVED_RATIO, "mid_static_memory_reserved_percent"),
    ],
)
def test_each_label_sets_its_own_field(label: str, field: str) -> None:
    found, usual = read().strategy_for({label: "0.25"}), read().cluster
    assert getattr(found, field) == 25
    assert [
        name for name in ColocationStrategy.__struct_fields__ if getattr(found, name) != getattr(usual, name)
    ] == [field]


@pytest.mark.parametrize(
    "fields",
    [
        {"metricAggregateDurationSeconds": 0},
        {"metricReportIntervalSeconds": -1},
        {"degradeTimeMinutes": 0},
        {"updateTimeThresholdSeconds": 0},
        {"resourceDiffThreshold": 0},
        {"cpuReclaimThresholdPercent": -1},
        {"batchCPUThresholdPercent": -1},
        {"midCPUThresholdPercent": 101},
        {"midUnallocatedPercent": -1},
    ],
)
def test_a_cluster_strategy_with_impossible_values_is_refused_and_a_nodes_one_replaced(
    fields: dict[str, Any],
) -> None:
    with pytest.raises(InvalidStrategy, match=": got "):
        read(**fields)
    config = read(enable=True, nodeConfigs=[pool("a", **fields, memoryCalculatePolicy="request")])
    assert config.strategy_for({"pool": "a"}) == config.cluster


def test_thresholds_of_reclaiming_may_exceed_a_hundred_percent() -> None:
    assert read(cpuReclaimThresholdPercent=150).cluster.cpu_reclaim_threshold_percent == 150


@pytest.mark.parametrize(
    "text", ["{", "[]", '{"enable":"true"}', '{"nodeConfigs":{}}', '{"cpuReclaimThresholdPercent":1.5}']
)
def test_a_section_of_wrong_types_is_an_error(text: str) -> None:
    with pytest.raises(DecodeError):
        ColocationConfig.read(text)


@pytest.mark.parametrize(
    ("cluster", "node", "is_enabled"), [(True, True, True), (True, False, False), (False, True, False)]
)
def test_a_node_can_be_switched_off_and_not_on(*, cluster: bool, node: bool, is_enabled: bool) -> None:
    config = read(enable=cluster, nodeConfigs=[pool("a", enable=node)])
    assert config.is_enabled(config.strategy_for({"pool": "a"})) is is_enabled


STRATEGIES = st.fixed_dictionaries(
    {},
    optional={
        "enable": st.booleans(),
        "cpuReclaimThresholdPercent": st.integers(0, 200),
        "metricAggregatePolicy": st.fixed_dictionaries(
            {}, optional={"durations": st.lists(st.sampled_from(["1m0s", "5m0s", "1h0m0s"]), max_size=4)}
        ),
        "extensions": st.dictionaries(st.sampled_from("abc"), st.integers(), max_size=3),
        "memoryCalculatePolicy": st.sampled_from(["", "request", "usage"]),
    },
)


@given(STRATEGIES, STRATEGIES)
def test_merging_a_nodes_strategy_twice_changes_nothing(
    cluster: dict[str, Any], node: dict[str, Any]
) -> None:
    """The strategy of a node is complete when it is read, so no node merges it again."""
    config = read(**cluster, nodeConfigs=[pool("a", **node)])
    found = config.strategy_for({"pool": "a"})
    assert merge(config.cluster, found) == found
    assert invalid(found) == ""
