"""Candidates that were not tried: all are counted, some are named with their reasons."""

from koordpy.api.core import Pod, PodSpec
from koordpy.api.meta import ObjectMeta
from koordpy.descheduling.explain.candidates import (
    LONGEST_REASON,
    MOST_NAMED,
    MOST_NAMED_PER_NODE,
    Candidates,
)


def pods(number: int, nodes: int = 1) -> list[Pod]:
    return [
        Pod(
            metadata=ObjectMeta(namespace="a", name=f"p{index}"),
            spec=PodSpec(node_name=f"n{index % nodes}"),
        )
        for index in range(number)
    ]


class Asked:
    """A reason, and how often it was asked for."""

    def __init__(self) -> None:
        self.times = 0

    def __call__(self, pod: Pod | None = None) -> str:
        self.times += 1
        return "young"


def test_all_are_counted_and_the_first_of_each_node_are_named() -> None:
    found, reason = Candidates(), Asked()
    for pod in pods(100, nodes=2):
        found.filtered(pod, "F", reason)
    assert [(item.by, item.pods) for item in found.counts()] == [("F", 100)]
    assert len(found.named) == reason.times == 2 * MOST_NAMED_PER_NODE
    assert {item.node for item in found.named} == {"n0", "n1"}
    assert found.named[0].reason == "young"


def test_no_reason_is_asked_for_once_enough_are_named() -> None:
    found, reason = Candidates(), Asked()
    some, others = pods(5000, nodes=5000), pods(4000, nodes=4000)
    found.skipped(some, "P", reason)
    for pod in others:
        found.filtered(pod, "F", reason)
    found.skipped(some, "P", reason)
    assert len(found.named) == reason.times == MOST_NAMED
    assert [(item.by, item.pods) for item in found.counts()] == [("P", 5000), ("F", 4000)]


def test_a_pod_counts_once_with_its_first_reason() -> None:
    found, some = Candidates(), pods(2)
    found.filtered(some[0], "F", lambda _: "first")
    found.skipped(some, "P", "second")
    found.filtered(some[1], "F", lambda _: "third")
    assert [(item.pod, item.reason) for item in found.named] == [("a/p0", "first"), ("a/p1", "second")]
    assert [(item.by, item.pods) for item in found.counts()] == [("F", 1), ("P", 1)]


def test_a_long_reason_is_cut() -> None:
    found = Candidates()
    found.skipped(pods(1), "P", "x" * 10_000)
    assert len(found.named[0].reason) == LONGEST_REASON
