"""Candidates that were not tried: all are counted, some are named with their reasons."""

from koordpy.api.core import Pod, PodSpec
from koordpy.api.meta import ObjectMeta
from koordpy.descheduling.explain.candidates import (
    LONGEST_REASON,
    MOST_NAMED,
    MOST_NAMED_PER_NODE,
    Candidates,
    NotEvicted,
)


def pods(number: int, nodes: int = 1, uid: str = "") -> list[Pod]:
    return [
        Pod(
            metadata=ObjectMeta(namespace="a", name=f"p{index}", uid=f"{uid}{index}" if uid else ""),
            spec=PodSpec(node_name=f"n{index % nodes}"),
        )
        for index in range(number)
    ]


class Asked:
    """A reason, and how often it was asked for."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self) -> str:
        self.times += 1
        return "young"


def test_all_are_counted_and_the_first_of_each_node_are_named() -> None:
    found, reason = Candidates(), Asked()
    for pod in pods(100, nodes=2):
        found.add((pod,), NotEvicted.FILTERED, "F", reason)
    assert [(item.by, item.pods) for item in found.counts()] == [("F", 100)]
    assert len(found.named) == reason.times == 2 * MOST_NAMED_PER_NODE
    assert {item.node for item in found.named} == {"n0", "n1"}
    assert found.named[0].reason == "young"


def test_no_reason_is_asked_for_once_enough_are_named() -> None:
    found, reason = Candidates(), Asked()
    found.add(pods(5000, nodes=5000), NotEvicted.SKIPPED, "P", reason)
    found.add(pods(5000, nodes=5000, uid="x"), NotEvicted.FILTERED, "F", reason)
    assert len(found.named) == reason.times == MOST_NAMED
    assert [(item.by, item.pods) for item in found.counts()] == [("P", 5000), ("F", 5000)]


def test_a_pod_counts_once_with_its_first_reason() -> None:
    found = Candidates()
    found.add(pods(1, uid="u"), NotEvicted.FILTERED, "F", "first")
    found.add(pods(2, uid="u"), NotEvicted.SKIPPED, "P", "second")
    assert [(item.pod, item.reason) for item in found.named] == [("a/p0", "first"), ("a/p1", "second")]
    assert [(item.by, item.pods) for item in found.counts()] == [("F", 1), ("P", 1)]


def test_a_long_reason_is_cut() -> None:
    found = Candidates()
    found.add(pods(1), NotEvicted.SKIPPED, "P", "x" * 10_000)
    assert len(found.named[0].reason) == LONGEST_REASON
