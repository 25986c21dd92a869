"""Rows are grouped by all of their columns, however large the numbers are."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koordpy.lib.row_groups import group

NUMBERS = st.one_of(
    st.integers(0, 2), st.sampled_from([-(1 << 63), (1 << 63) - 1, 1 << 40, -(1 << 61), 1 << 61])
)


@given(st.lists(st.tuples(NUMBERS, NUMBERS, NUMBERS, NUMBERS), max_size=30))
def test_rows_have_one_group_if_and_only_if_they_are_equal(rows: list[tuple[int, ...]]) -> None:
    table = np.array(rows, np.int64).reshape(len(rows), 4)
    groups, first = group(list(table.T), len(rows))
    assert [rows[at] for at in first[groups].tolist()] == rows
    assert len(first) == len(set(rows))
    assert [rows.index(row) for row in rows] == first[groups].tolist()


def test_columns_of_small_types_are_not_truncated() -> None:
    columns = [np.array([1, 1, 0], np.bool_), np.array([200, 201, 200], np.uint8)]
    groups, first = group(columns, 3)
    assert len(first) == 3
    assert len(set(groups.tolist())) == 3


def test_numbers_are_numbered_by_size_whether_there_are_few_or_many() -> None:
    for step in (1, 1 << 20):
        groups, first = group([np.array([7, 2, 7, 2, 5]) * step], 5)
        assert groups.tolist() == [2, 0, 2, 0, 1]
        assert first.tolist() == [1, 4, 0]
