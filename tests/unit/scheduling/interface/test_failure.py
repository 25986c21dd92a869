"""Failed attempts: which handlers are called, which may claim them, and the resulting nomination."""

import pytest

from koordpy.scheduling.interface.failure import Failure, taken_over
from koordpy.scheduling.interface.fit_error import fit_error
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import PostFilterResult
from koordpy.scheduling.interface.status import Status
from tests.unit.scheduling.worlds import pod, world

CLEARED = PostFilterResult(override=True)
REJECTED = Status.unschedulable("rejected")


@pytest.mark.parametrize(
    ("status", "expected"),
    [
        (REJECTED.by("JobPreemptionSuccessPlugin"), PostFilterResult("waited-here", override=True)),
        (REJECTED.by("JobRejectPlugin"), PostFilterResult()),
        (REJECTED.by("JobPreemptionFailurePlugin"), CLEARED),
        (REJECTED.by("Other"), PostFilterResult("n", override=True)),
        (Status.unresolvable("no").by("JobPreemptionFailurePlugin"), PostFilterResult("n", override=True)),
        (Status.failed("no").by("JobRejectPlugin"), PostFilterResult("n", override=True)),
    ],
)
def test_plugins_that_reject_a_job_decide_about_nominations(
    status: Status, expected: PostFilterResult
) -> None:
    assert taken_over(status, PostFilterResult("n", override=True), "waited-here") == expected


@pytest.mark.parametrize(
    ("nomination", "nominated_before", "keeps_none"),
    [
        (None, "n", True),
        (CLEARED, "n", True),
        (PostFilterResult("n", override=True), "", False),
        (PostFilterResult(), "", True),
        (PostFilterResult(), "n", False),
    ],
)
def test_whether_a_pod_is_nominated_after_a_failure(
    nomination: PostFilterResult | None, nominated_before: str, keeps_none: bool
) -> None:
    failed = pod("p", status={"nominatedNodeName": nominated_before})
    assert Failure(failed, REJECTED, nomination).keeps_no_node == keeps_none


def test_the_first_claim_of_a_failure_wins_and_observers_are_still_called() -> None:
    handle = Handle(world([]))
    told: list[str] = []

    def handler(name: str, answer: bool) -> None:
        def handle_it(failure: Failure) -> bool:
            told.append(f"{name} of {failure.pod.metadata.name}")
            return answer

        handle.on_failure(handle_it, claims=name.startswith("claims"))

    for name, answer in (
        ("claims nothing", False), ("claims", True), ("claims too late", True),
        ("looks", False), ("looks last", True), ("looks too late", False),
    ):  # fmt: skip
        handler(name, answer)
    assert handle.report_failure(Failure(pod("p"), REJECTED))
    assert told == ["claims nothing of p", "claims of p", "looks of p", "looks last of p"]


def test_the_text_counts_nodes_by_reason_in_the_order_of_the_text() -> None:
    assert fit_error(12, {"b": 10, "c": 2, "none": 0}) == "0/12 nodes are available: 10 b, 2 c."
    assert fit_error(3, {"a": 3}, pre_filter="not now") == "0/3 nodes are available: not now."
    assert fit_error(3, {}) == "0/3 nodes are available:"
    assert fit_error(3, {"a": 3}, post_filter="preemption: no.") == (
        "0/3 nodes are available: 3 a. preemption: no."
    )


def test_reasons_that_differ_from_node_to_node_are_cut() -> None:
    text = fit_error(
        500, {f"reason {number} {'x' * 5_000}": 1 for number in range(500)}, post_filter="No victims."
    )
    assert len(text) < 20_000
    assert text.startswith("0/500 nodes are available: 1 reason 0 xxx")
    assert text.endswith("characters). No victims.")
