from typing import Any

import pytest

from koordpy.api.config_model import ConfigError, read
from koordpy.api.core import Node
from koordpy.api.field_error import aggregate
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.descheduling.catalogue import installed
from koordpy.descheduling.config.configuration import (
    DeschedulerConfiguration,
    PluginConfig,
    Plugins,
    Profile,
)
from koordpy.descheduling.config.plugin_set import PluginSet
from koordpy.descheduling.engine.descheduler import Descheduler
from koordpy.lib import duration
from koordpy.lib.clock import SystemClock
from koordpy_plugins.descheduling.lownodeload.args import (
    DEFAULT_POOL,
    Anomaly,
    LowNodeLoadArgs,
    node_pools,
)
from koordpy_plugins.descheduling.lownodeload.explanation import PoolReport


def args(**fields: Any) -> LowNodeLoadArgs:
    return read(LowNodeLoadArgs, fields, "args")


def test_defaults_are_koordinators() -> None:
    given = args()
    assert given.node_fit
    assert not given.paused
    assert given.node_metric_expiration_seconds == 180
    assert given.detector_cache_timeout == 5 * duration.MINUTE
    assert given.resource_weights == {"cpu": 1, "memory": 1}
    (pool,) = node_pools(given)
    assert (pool.name, pool.low, pool.high) == (DEFAULT_POOL, None, None)
    assert pool.anomaly == Anomaly(duration.MINUTE, 5, 3)
    assert list(given.problems()) == []


def test_weights_are_completed_for_resources_with_thresholds() -> None:
    given = args(resourceWeights={"cpu": 0, "gpu": -1}, lowThresholds={"pods": 1}, highThresholds={"cpu": 2})
    assert given.resource_weights == {"cpu": 1, "gpu": -1, "memory": 1, "pods": 1}


@pytest.mark.parametrize(
    ("condition", "anomaly"),
    [
        ({"consecutiveAbnormalities": 3}, Anomaly(0, 3, 3)),
        ({"consecutiveNormalities": 2, "timeout": "90s"}, Anomaly(90 * duration.SECOND, 5, 2)),
        ({}, Anomaly(0, 5, 0)),
    ],
)
def test_an_anomaly_condition_is_completed(condition: dict[str, Any], anomaly: Anomaly) -> None:
    assert node_pools(args(anomalyCondition=condition))[0].anomaly == anomaly


def test_pools_inherit_whole_maps_and_share_them() -> None:
    default, pool = node_pools(
        args(
            lowThresholds={"cpu": 45, "memory": 55},
            highThresholds={"cpu": 75, "memory": 80},
            useDeviationThresholds=True,
            anomalyCondition={"consecutiveAbnormalities": 4, "timeout": "2m"},
            nodePools=[{"name": "p", "highThresholds": {"cpu": 90}, "anomalyCondition": {}}],
        )
    )
    assert pool.low is default.low
    assert pool.high == {"cpu": 90}
    assert pool.weights is default.weights
    assert not pool.use_deviation_thresholds
    assert pool.anomaly == Anomaly(0, 4, 3)


def test_the_pools_of_a_file_have_their_own_maps() -> None:
    given = args(
        lowThresholds={"cpu": 45},
        highThresholds={"cpu": 75},
        nodePools=[{"name": "p", "highThresholds": {"cpu": 90}}, {"name": "q"}],
    )
    default, *pools = node_pools(given.copied_whole())
    for pool in pools:
        assert pool.low == default.low
        assert pool.low is not default.low
    assert [pool.high for pool in pools] == [{"cpu": 90}, {"cpu": 75}]
    assert pools[0].prod_low is None


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"numberOfNodes": -1}, "numberOfNodes: Invalid value: -1: must be greater than or equal to 0"),
        (
            {"nodeMetricExpirationSeconds": 0},
            "nodeMetricExpiredSeconds: Invalid value: 0: nodeMetricExpiredSeconds should be a positive value",
        ),
        (
            {"evictableNamespaces": {"include": ["a"], "exclude": ["b"]}},
            'evictableNamespaces: Invalid value: {"Include":["a"],"Exclude":["b"]}: '
            "only one of Include/Exclude namespaces can be set",
        ),
        (
            {"lowThresholds": {"cpu": 50}, "highThresholds": {"cpu": 40}},
            "nodePools[0].lowThresholds[cpu]: Invalid value: 50: "
            "low percentage must be less than or equal to highThresholds",
        ),
        (
            {"highThresholds": {"cpu": -1.5}},
            "nodePools[0].highThresholds[cpu]: Invalid value: -1.5: "
            "percentage must be greater than or equal to 0",
        ),
        (
            {"nodePools": [{"prodLowThresholds": {"cpu": 2}, "prodHighThresholds": {"cpu": 1}}]},
            "nodePools[1].ProdLowThresholds[cpu]: Invalid value: 2: "
            "low percentage must be less than or equal to prodHighThresholds",
        ),
        (
            {"highThresholds": {"cpu": 1}, "prodHighThresholds": {"cpu": 2}},
            "nodePools[0].ProdHighThresholds[cpu]: Invalid value: 2: "
            "node percentage must be greater than or equal to prodHighThresholds",
        ),
        (
            {"anomalyCondition": {}},
            "nodePools[0].anomalyDetectionThresholds.consecutiveNormalities: Invalid value: 0: "
            "consecutiveNormalities must be greater than 0",
        ),
    ],
)
def test_wrong_values_are_named(fields: dict[str, Any], message: str) -> None:
    assert aggregate(args(**fields).problems()) == message


def test_thresholds_have_no_upper_bound() -> None:
    assert list(args(lowThresholds={"cpu": 100}, highThresholds={"cpu": 300}).problems()) == []


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"lowThreshold": {}}, "args.lowThreshold: unknown field"),
        ({"lowThresholds": {"cpu": "45"}}, 'args.lowThresholds.cpu: got "45"'),
        ({"detectorCacheTimeout": 5}, "args.detectorCacheTimeout: got 5, expected a duration"),
        (
            {"nodePools": [{"nodeSelector": {"labels": {}}}]},
            r"args.nodePools\[0\].nodeSelector.*unknown field",
        ),
        ({"nodeFit": "yes"}, 'args.nodeFit: got "yes"'),
    ],
)
def test_decoding_is_strict(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        args(**fields)


def test_detectors_live_at_least_an_interval() -> None:
    given = args(detectorCacheTimeout="1m")
    longer = given.adapted_to_interval(2 * duration.MINUTE)
    assert longer.detector_cache_timeout == 2 * duration.MINUTE
    assert longer.adapted_to_interval(duration.SECOND) == longer


async def test_completing_one_pool_of_a_process_does_not_change_the_others() -> None:
    fields = {
        "lowThresholds": {"cpu": 10},
        "highThresholds": {"cpu": 75},
        "nodePools": [{"name": "p", "useDeviationThresholds": True}],
    }
    names = {"deschedule": [], "balance": ["LowNodeLoad"], "evict": ["DefaultEvictor"], "filter": []}
    plugins = Plugins(**{point: PluginSet.of(enabled) for point, enabled in names.items()})
    config = PluginConfig(name="LowNodeLoad", args=fields)
    profile = Profile(name="test", plugins=plugins, plugin_config=[config])
    cluster = Cluster(SystemClock())
    for name in ("n1", "n2"):
        cluster.store(Node).apply(decode(Node, {"metadata": {"name": name}}))
    current = await Descheduler(
        DeschedulerConfiguration(profiles=[profile], dry_run=True), installed(), cluster
    ).run_once()
    reports = {report.name: report for report in current.runs[0].details if isinstance(report, PoolReport)}
    assert reports[DEFAULT_POOL].high_thresholds == {"cpu": 75, "memory": 100}
    assert reports["p"].high_thresholds == {"cpu": 75, "memory": 0}
