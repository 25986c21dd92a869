"""Names and rows after any changes."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.cluster.rows import Rows

NAMES = st.sampled_from([f"node-{i}" for i in range(8)])


@given(st.lists(st.tuples(st.booleans(), NAMES), max_size=40), st.lists(NAMES, max_size=12))
def test_every_name_finds_its_own_row(steps: list[tuple[bool, str]], asked: list[str]) -> None:
    rows = Rows(2)
    model: dict[str, int] = {}
    for comes, name in steps:
        if comes and name not in model:
            if rows.are_used_up:
                rows.grow(rows.capacity)
            model[name] = rows.claim(name)
        elif not comes and name in model:
            rows.release(model.pop(name))
        assert rows.find(asked).tolist() == [model.get(name, -1) for name in asked]
    assert len(set(model.values())) == len(model)
    for name, row in model.items():
        assert rows.get(name) == row
        assert rows.name_of(row) == name


def test_a_free_row_has_no_name() -> None:
    rows = Rows(2)
    rows.release(rows.claim("node-1"))
    with pytest.raises(KeyError, match="is free"):
        rows.name_of(0)
