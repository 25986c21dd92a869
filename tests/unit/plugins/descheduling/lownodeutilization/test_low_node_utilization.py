"""LowNodeUtilization; whole runs are compared with the descheduler's own in the parity tests."""

from typing import Any

import pytest

from koordpy.api.config_model import ConfigError
from koordpy.descheduling.toolkit.utilization_report import UtilizationReport
from koordpy_plugins.descheduling.lownodeutilization.plugin import LowNodeUtilization

from ..one_plugin import OnePlugin, node, pod

THRESHOLDS = {"thresholds": {"cpu": 30}, "targetThresholds": {"cpu": 50}}


def profile(nodes: list[dict[str, Any]], pods: list[dict[str, Any]], **args: Any) -> OnePlugin:
    return OnePlugin(LowNodeUtilization, nodes, pods, THRESHOLDS | args)


NODES = [node("n1"), node("n2"), node("n3")]
PODS = [*(pod(f"p{index}", "n1") for index in range(4)), pod("q", "n2", "1500m")]


async def test_pods_leave_an_overutilized_node_until_it_is_at_the_target():
    run = profile(NODES, PODS)
    current = run.decisions.begin(run.clock.now(), dry_run=False)
    await run.cycle()
    assert len(run.evicted) == 2
    assert run.calls[0][1] == "node is overutilized: cpu 100 % > 50 %"
    assert {item.reason for item in current.runs[0].not_evicted} == {"other pods were enough"}


async def test_nodes_are_reported_by_class_with_what_is_requested():
    run = profile(NODES, PODS)
    current = run.decisions.begin(run.clock.now(), dry_run=False)
    await run.cycle()
    [report] = current.runs[0].details
    assert isinstance(report, UtilizationReport)
    shown = report.model_dump(mode="json")
    assert (shown["kind"], shown["outcome"], shown["targetThresholds"]["cpu"]) == (
        "NodeUtilization",
        "balanced",
        50,
    )
    assert {name: each["nodeClass"] for name, each in shown["nodes"].items()} == {
        "n1": "overutilized",
        "n2": "appropriatelyUtilized",
        "n3": "underutilized",
    }
    about = report.about_node("n2")
    assert about is not None
    assert about.figures.percentages["cpu"] == 37.5
    assert report.about_node("n4") is None
    assert report.held_bytes() > 0


async def test_the_limit_of_a_node_ends_its_evictions():
    run = profile(NODES, PODS, evictionLimits={"node": 1})
    await run.cycle()
    assert len(run.evicted) == 1


async def test_deviation_thresholds_are_around_the_mean():
    args = {"thresholds": {"cpu": 10}, "targetThresholds": {"cpu": 30}, "useDeviationThresholds": True}
    run = profile(NODES, PODS, **args)  # 100 %, 37.5 % and 0 %: the mean is 45.8 %
    await run.cycle()
    assert len(run.evicted) == 1
    assert run.calls[0][1] == "node is overutilized: cpu 100 % > 76 %"


async def test_nothing_leaves_without_enough_underutilized_nodes():
    run = profile(NODES, PODS, numberOfNodes=1)
    await run.cycle()
    assert run.evicted == []
    run = profile(NODES[:2], PODS)
    await run.cycle()
    assert run.evicted == []


async def test_it_objects_to_nodes_that_would_be_overutilized():
    run = profile(NODES, PODS)
    assert run.objection("p0", "n2") == "the node would be overutilized with it: cpu 62 % > 50 %"
    assert run.objection("p0", "n3") is None


@pytest.mark.parametrize(
    ("metrics", "text"),
    [
        ({"metricsServer": True}, "metrics client not initialized"),
        ({"source": "KubernetesMetrics"}, "metrics client not initialized"),
        ({"source": "Other"}, "unrecognized metrics source"),
        ({}, "metrics source is empty"),
        (
            {"source": "Prometheus", "prometheus": {"query": "q"}},
            'thresholds are expected to specify a single instance of "MetricResource" resource, got '
            r"\[cpu\] instead",
        ),
    ],
)
async def test_metrics_are_refused(metrics: dict[str, Any], text: str):
    with pytest.raises(ConfigError, match=text):
        profile(NODES, PODS, metricsUtilization=metrics)
