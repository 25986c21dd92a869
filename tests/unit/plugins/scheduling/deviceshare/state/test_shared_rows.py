"""Equal rows of columns are stored once."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from koordpy_plugins.scheduling.deviceshare.state.shared_rows import SharedRows

ROWS = st.lists(st.tuples(st.integers(0, 3), st.booleans()), max_size=300)


@given(ROWS)
def test_rows_are_one_if_and_only_if_their_cells_are_equal(cells: list[tuple[int, bool]]) -> None:
    rows = SharedRows()
    numbers, flags = rows.add_column(2, fill=-1), rows.add_column(dtype=np.bool_, fill=False)
    settled = []
    for number, flag in cells:
        numbers.values[rows.spare, 1], flags.values[rows.spare] = number, flag
        settled.append(rows.settle())
    assert len(rows) == len(set(cells)) == len(set(settled))
    shown = [(numbers.values[row].tolist(), bool(flags.values[row])) for row in settled]
    assert shown == [([-1, number], flag) for number, flag in cells]


def test_rows_that_are_not_used_are_forgotten_and_their_place_is_used_again() -> None:
    rows = SharedRows()
    column = rows.add_column()

    def put(number: int) -> int:
        column.values[rows.spare] = number
        return rows.settle()

    kept = put(1000)
    highest = kept
    for number in range(500):
        highest = max(highest, put(number))
        rows.tidy(np.array([0, kept]))
    assert len(rows) < 80
    assert highest < 140
    assert column.values[kept] == 1000
    assert put(1000) == kept
    assert column.values[0] == 0
