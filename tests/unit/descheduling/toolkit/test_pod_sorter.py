import pytest

from koordpy.api import extension
from koordpy.api.core import Pod, PodSpec, PodStatus
from koordpy.api.meta import ObjectMeta
from koordpy.descheduling.toolkit.pod_sorter import (
    ANNOTATION_EVICTION_COST,
    ANNOTATION_POD_DELETION_COST,
    cost,
    sort_key,
)
from koordpy.descheduling.toolkit.usage_score import node_score, pod_score


def pod(
    name: str = "p",
    *,
    priority: int | None = None,
    kube_qos: str = "Burstable",
    labels: dict[str, str] | None = None,
    annotations: dict[str, str] | None = None,
    created: str | None = None,
) -> Pod:
    return Pod(
        metadata=ObjectMeta(
            name=name, labels=labels or {}, annotations=annotations or {}, creation_timestamp=created
        ),
        spec=PodSpec(priority=priority),
        status=PodStatus(qos_class=kube_qos),
    )


def order(*pods: Pod) -> list[str]:
    backwards = pods[::-1]
    return [item.metadata.name for item in sorted(backwards, key=sort_key)]


def test_koordinator_priority_class_comes_first() -> None:
    assert order(
        pod("free", priority=3500),
        pod("batch", priority=5500),
        pod("mid", priority=7500),
        pod("prod", priority=9500),
        pod("none", priority=0, kube_qos="Odd"),
    ) == ["free", "batch", "mid", "prod", "none"]


def test_then_priority_kubernetes_qos_and_koordinator_qos() -> None:
    lse = {extension.LABEL_POD_QOS: "LSE"}
    assert order(
        pod("low", priority=9001),
        pod("best effort", priority=9002, kube_qos="BestEffort"),
        pod("burstable", priority=9002),
        pod("burstable lse", priority=9002, labels=lse),
        pod("guaranteed", priority=9002, kube_qos="Guaranteed"),
    ) == ["low", "best effort", "burstable", "burstable lse", "guaranteed"]


def test_then_costs_and_the_newest_pod() -> None:
    assert order(
        pod("cheap", annotations={ANNOTATION_POD_DELETION_COST: "-1"}),
        pod("new", created="2026-01-02T00:00:00Z"),
        pod("old", created="2026-01-01T00:00:00Z"),
        pod("timeless"),
        pod("costly to evict", annotations={ANNOTATION_EVICTION_COST: "1"}),
        pod("costly to delete", annotations={ANNOTATION_POD_DELETION_COST: "1"}),
    ) == ["cheap", "new", "old", "timeless", "costly to evict", "costly to delete"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("0", 0),
        ("-5", -5),
        ("2147483647", 2147483647),
        ("2147483648", 0),
        ("-2147483648", -2147483648),
        ("+10", 0),
        ("008", 0),
        ("-008", -8),
        ("", 0),
        ("1.5", 0),
        ("٣", 0),
    ],
)
def test_a_cost_is_a_plain_32_bit_integer_or_nothing(text: str, expected: int) -> None:
    assert cost(pod(annotations={ANNOTATION_EVICTION_COST: text}), ANNOTATION_EVICTION_COST) == expected


def test_the_pod_that_just_covers_the_excess_is_the_best() -> None:
    gi = 1 << 30
    exceeding, weights = {"cpu": 4000, "memory": 4 * gi}, {"cpu": 1, "memory": 2}
    pods = {
        1: {"cpu": 2000, "memory": 5 * gi},
        2: {"cpu": 3000, "memory": 4 * gi},
        3: {"cpu": 4000, "memory": 3 * gi},
        4: {"cpu": 5000, "memory": 2 * gi},
    }
    scores = {name: pod_score(used, exceeding, weights) for name, used in pods.items()}
    assert sorted(scores, key=lambda name: -scores[name]) == [2, 1, 3, 4]
    assert sorted(scores, key=lambda name: sort_key(pod(), scores[name])) == [2, 1, 3, 4]


def test_a_pod_without_metrics_goes_after_those_with_some() -> None:
    assert sort_key(pod(), 0.0) < sort_key(pod(), None)


def test_only_what_exceeds_counts() -> None:
    assert pod_score({"cpu": 1, "memory": 1 << 40}, {"cpu": 2}, {"cpu": 1}) == 0.5
    assert pod_score({"cpu": 1}, {}, {}) == 0.0


def test_nodes_are_scored_by_weighted_use() -> None:
    gi32, weights = 34359738368, {"cpu": 1, "memory": 1, "pods": 1}
    capacity = {"cpu": 32000, "memory": gi32, "pods": 110}
    nodes = {
        "node1": {"cpu": 1730, "memory": 3038982964, "pods": 25},
        "node2": {"cpu": 1220, "memory": 3038982964, "pods": 11},
        "node3": {"cpu": 1530, "memory": 5038982964, "pods": 20},
    }
    scores = {name: node_score(used, capacity, weights) for name, used in nodes.items()}
    assert sorted(scores, key=lambda name: -scores[name]) == ["node3", "node1", "node2"]
    assert node_score({"cpu": 9, "gpu": 1}, {"cpu": 3}, {"cpu": 1, "gpu": 1}) == 500
    assert node_score({"cpu": 9}, {"cpu": 3}, {}) == 0
