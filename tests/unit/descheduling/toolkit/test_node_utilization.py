"""Utilization of nodes by requests."""

from typing import Any

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.scheme import decode
from koordpy.descheduling.toolkit.node_utilization import (
    Destinations,
    NodeUtilization,
    around_mean,
    considered,
    thresholds_problem,
)

NAMES = considered(["cpu"])


def measured(allocatable: dict[str, str], *requests: dict[str, str], **spec: Any) -> NodeUtilization:
    node = decode(Node, {"metadata": {"name": "n"}, "spec": spec, "status": {"allocatable": allocatable}})
    pods = [
        decode(Pod, {"spec": {"containers": [{"name": "c", "resources": {"requests": each}}]}})
        for each in requests
    ]
    return NodeUtilization.of(node, pods, NAMES)


def test_sums_are_exact_and_rounded_once() -> None:
    node = measured(
        {"cpu": "2", "memory": "4", "pods": "10"}, {"cpu": "100u"}, {"cpu": "100u", "memory": "1"}
    )
    assert node.used == {"cpu": 200_000, "memory": 1_000_000_000, "pods": 2_000_000_000}
    assert node.percentages == {"cpu": 1 / 2000 * 100, "memory": 25.0, "pods": 20.0}


def test_resources_without_capacity_are_not_used() -> None:
    assert measured({"cpu": "0"}, {"cpu": "1"}).percentages == {"cpu": 0.0}


def test_capacity_is_used_without_allocatable() -> None:
    node = decode(Node, {"metadata": {"name": "n"}, "status": {"capacity": {"cpu": "2"}}})
    assert NodeUtilization.of(node, [], NAMES).capacity == {"cpu": 2_000_000_000}


def test_capped_capacity_is_whole() -> None:
    node = measured({"cpu": "1999m", "memory": "1001"})
    assert node.capped({"cpu": 50.0}) == {"cpu": 999_000_000, "memory": 1001_000_000_000, "pods": 0}


def test_thresholds_around_the_mean_are_percentages() -> None:
    nodes = [measured({"cpu": "4"}, {"cpu": "1"}), measured({"cpu": "4"}, {"cpu": "3"})]
    assert around_mean(nodes, {"cpu": 60, "gpu": 1}, {"cpu": 20, "gpu": 1}) == ({"cpu": 0.0}, {"cpu": 70.0})


def test_a_destination_with_more_taints_than_a_pod_has_tolerations_does_not_count() -> None:
    taints = [{"key": key, "effect": "NoSchedule"} for key in ("a", "b")]
    node = measured({"cpu": "4"}, taints=taints)
    destinations = Destinations([(node, node.capped({}))])
    everything = decode(Pod, {"spec": {"tolerations": [{"operator": "Exists"}]}})
    assert not destinations.tolerated_by(everything)
    twice = decode(Pod, {"spec": {"tolerations": [{"operator": "Exists"}] * 2}})
    assert destinations.tolerated_by(twice)


@pytest.mark.parametrize(
    ("thresholds", "text"),
    [
        ({}, "no resource threshold is configured"),
        ({"cpu": 101}, "cpu threshold not in [0, 100] range"),
        ({"cpu": -1}, "cpu threshold not in [0, 100] range"),
        ({"cpu": 0, "pods": 100}, ""),
    ],
)
def test_thresholds_problem(thresholds: dict[str, float], text: str) -> None:
    assert thresholds_problem(thresholds) == text
