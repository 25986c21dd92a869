"""Merged strategies."""

from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.slo import colocation, resource_qos
from koordpy.api.slo.colocation import AggregatePolicy, ColocationStrategy
from koordpy.api.slo.merge import merge, merge_json
from koordpy.api.slo.node_resources import CPUNormalizationStrategy, ModelRatioCfg
from koordpy.api.slo.resource_qos import (
    BlkIOQOSCfg,
    BlockCfg,
    IOCfg,
    ResourceQOSPolicies,
    ResourceQOSStrategy,
)
from koordpy.api.slo.system import SystemStrategy
from koordpy.api.slo.threshold import ResourceThresholdStrategy

PERCENTS = st.none() | st.integers(0, 100)
THRESHOLDS = st.builds(
    ResourceThresholdStrategy,
    enable=st.none() | st.booleans(),
    cpu_suppress_threshold_percent=PERCENTS,
    cpu_suppress_policy=st.sampled_from(["", "cpuset", "cfsQuota"]),
)


@given(THRESHOLDS, THRESHOLDS, THRESHOLDS)
def test_it_does_not_matter_which_two_are_merged_first(
    a: ResourceThresholdStrategy, b: ResourceThresholdStrategy, c: ResourceThresholdStrategy
) -> None:
    assert merge(merge(a, b), c) == merge(a, merge(b, c))


@given(THRESHOLDS, THRESHOLDS)
def test_what_the_upper_sets_wins(lower: ResourceThresholdStrategy, upper: ResourceThresholdStrategy) -> None:
    wire: dict[str, Any] = msgspec.to_builtins(merge(lower, upper))
    assert wire == {**msgspec.to_builtins(lower), **msgspec.to_builtins(upper)}


def test_an_empty_text_wins_only_where_go_points_to_it() -> None:
    policies = merge(ResourceQOSPolicies(cpu_policy="coreSched"), ResourceQOSPolicies(cpu_policy=""))
    assert policies.cpu_policy == ""
    kept = merge(ResourceThresholdStrategy(cpu_suppress_policy="cpuset"), ResourceThresholdStrategy())
    assert kept.cpu_suppress_policy == "cpuset"


def test_lists_of_objects_are_merged_by_position_and_cut() -> None:
    lower = BlkIOQOSCfg(blocks=[BlockCfg(name="a", io_cfg=IOCfg(read_bps=1)), BlockCfg(name="b")])
    upper = BlkIOQOSCfg(blocks=[BlockCfg(io_cfg=IOCfg(write_bps=2))])
    assert merge(lower, upper).blocks == [BlockCfg(name="a", io_cfg=IOCfg(read_bps=1, write_bps=2))]
    assert merge(upper, lower).blocks[1:] == [BlockCfg(name="b")]


def test_other_lists_are_replaced() -> None:
    upper = ColocationStrategy(metric_aggregate_policy=AggregatePolicy(durations=["1m0s"]))
    assert merge(colocation.DEFAULT, upper).metric_aggregate_policy == upper.metric_aggregate_policy


def test_values_of_maps_are_replaced_whole() -> None:
    lower = CPUNormalizationStrategy(ratio_model={"m": ModelRatioCfg(base_ratio=1.5), "n": ModelRatioCfg()})
    upper = CPUNormalizationStrategy(ratio_model={"m": ModelRatioCfg(turbo_enabled_ratio=2.0)})
    assert merge(lower, upper).ratio_model == {
        "m": ModelRatioCfg(turbo_enabled_ratio=2.0),
        "n": ModelRatioCfg(),
    }


def test_a_bandwidth_that_is_not_given_is_zero() -> None:
    lower = SystemStrategy(total_network_bandwidth="10M")
    assert merge(lower, SystemStrategy(watermark_scale_factor=9)).total_network_bandwidth == "0"


def test_nothing_laid_over_a_strategy_leaves_it() -> None:
    assert merge(resource_qos.DEFAULT, None) is resource_qos.DEFAULT
    assert merge(resource_qos.DEFAULT, ResourceQOSStrategy()) is resource_qos.DEFAULT


def test_extensions_are_merged_at_every_depth() -> None:
    assert merge_json({"a": {"b": 1, "c": [1, {"d": 2}]}}, {"a": {"b": None, "c": [None, {"e": 3}, 4]}}) == {
        "a": {"b": 1, "c": [1, {"d": 2, "e": 3}, 4]}
    }
