"""The arithmetic of Jobs."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.embedded.workloads.job_progress import Progress, backoff, read_indexes, wanted, write_indexes
from koordpy.embedded.workloads.objects import Job


@pytest.mark.parametrize(
    ("indexes", "text"),
    [(set(), ""), ({3}, "3"), ({0, 1}, "0,1"), ({0, 1, 2, 5, 7, 8, 9}, "0-2,5,7-9")],
)
def test_indexes_are_written_as_ranges(indexes: set[int], text: str) -> None:
    assert write_indexes(indexes) == text


@given(st.frozensets(st.integers(0, 300)))
def test_indexes_are_read_as_they_were_written(indexes: frozenset[int]) -> None:
    assert read_indexes(write_indexes(indexes)) == indexes


@pytest.mark.parametrize(
    ("spec", "succeeded", "expected"),
    [
        ({"parallelism": 3, "completions": 10}, 0, 3),
        ({"parallelism": 3, "completions": 10}, 8, 2),
        ({"parallelism": 3, "completions": 10}, 10, 0),
        ({"parallelism": 3}, 0, 3),
        ({"parallelism": 3}, 1, 0),
        ({"parallelism": 0, "completions": 2}, 0, 0),
    ],
)
def test_how_many_pods_should_be_active(spec: dict[str, int], succeeded: int, expected: int) -> None:
    assert wanted(Job(spec=spec), Progress([], succeeded, 0)) == expected


def test_failed_pods_are_replaced_later_and_later() -> None:
    assert [backoff(failures) for failures in (0, 1, 2, 3, 20)] == [0.0, 10.0, 20.0, 40.0, 600.0]


def test_endless_ranges_of_indexes_are_cut() -> None:
    assert len(read_indexes("0-999999999,5-999999999999")) <= 100_001
    assert read_indexes("x,3-,-4,7") == {3, 7}
