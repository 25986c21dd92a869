import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koordpy.scheduling.interface.status import PASS, SUCCESS, Code, Status, Verdict

statuses = st.lists(
    st.sampled_from(
        [SUCCESS, Status.unschedulable("a"), Status.unschedulable("a", "b"), Status.unresolvable("c")]
    ),
    min_size=1,
    max_size=30,
)


@given(statuses)
def test_a_verdict_returns_the_statuses_it_was_made_of(given_statuses: list[Status]) -> None:
    verdict = Verdict.of(given_statuses)
    assert [verdict.status(index) for index in range(len(given_statuses))] == given_statuses


def test_reject_gives_every_refused_node_the_same_reason() -> None:
    verdict = Verdict.reject(np.array([True, False, True]), "full")
    assert [verdict.status(i).reasons for i in range(3)] == [("full",), (), ("full",)]


def test_rejecting_no_node_passes() -> None:
    assert Verdict.reject(np.zeros(3, np.bool_), "full") is PASS


def test_reject_first_names_the_first_true_cell() -> None:
    verdict = Verdict.reject_first(np.array([[False, True], [True, True], [False, False]]), ["a", "b"])
    assert [verdict.status(i).reasons for i in range(3)] == [("b",), ("a",), ()]


@given(st.integers(1, 70), st.integers(0, 2**32 - 1))
def test_reject_every_names_all_true_cells(width: int, seed: int) -> None:
    refused = np.random.default_rng(seed).random((6, width)) < 0.3
    reasons = [f"r{i}" for i in range(width)]
    verdict = Verdict.reject_every(refused, reasons, Code.UNSCHEDULABLE)
    for index, row in enumerate(refused):
        assert verdict.status(index).reasons == tuple(r for r, cell in zip(reasons, row, strict=True) if cell)


def test_message_joins_reasons() -> None:
    assert Status.unschedulable("a", "b").message == "a, b"
    assert SUCCESS.message == ""


def test_only_refusals_are_rejections() -> None:
    rejected = {code for code in Code if Status(code).is_rejected}
    assert rejected == {Code.UNSCHEDULABLE, Code.UNSCHEDULABLE_AND_UNRESOLVABLE, Code.PENDING}
