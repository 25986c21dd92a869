"""The order in which the Kubernetes descheduler evicts pods."""

from typing import Any

from koordpy.api.core import Pod
from koordpy.api.scheme import decode
from koordpy.descheduling.toolkit.evictability import ANNOTATION_PREFER_NO_EVICTION
from koordpy.descheduling.toolkit.upstream_pod_sorter import sort_by_priority


def pod(name: str, priority: int | None = None, qos: str = "Burstable", *, prefers: bool = False) -> Pod:
    annotations: dict[str, Any] = {ANNOTATION_PREFER_NO_EVICTION: "true"} if prefers else {}
    return decode(
        Pod,
        {
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"priority": priority},
            "status": {"qosClass": qos},
        },
    )


def order(*pods: Pod) -> list[str]:
    return [item.metadata.name for item in sort_by_priority(list(pods))]


def test_by_priority_then_qos() -> None:
    pods = (
        pod("high", 9),
        pod("guaranteed", 1, "Guaranteed"),
        pod("burstable", 1),
        pod("best", 1, "BestEffort"),
        pod("none"),
    )
    assert order(*pods) == ["none", "best", "burstable", "guaranteed", "high"]


def test_equal_pods_are_reversed() -> None:
    assert order(pod("a"), pod("b"), pod("c")) == ["c", "b", "a"]


def test_pods_that_prefer_no_eviction_are_after_equal_ones() -> None:
    assert order(pod("a", prefers=True), pod("b"), pod("c", prefers=True)) == ["b", "c", "a"]


def test_unknown_qos_classes_are_less_than_nothing() -> None:
    assert order(pod("a", qos="X"), pod("b", qos="X")) == ["a", "b"]
    assert order(pod("a", qos="Guaranteed"), pod("b", qos="X")) == ["a", "b"]
