"""Sorting as Go's `sort.Slice`; `data/go_sort.jsonl.gz` holds inputs with the orders that Go 1.26 gave."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.lib import go_sort

Item = tuple[int, int]
"""A key and the place before sorting."""

LESS: dict[str, Callable[[Item, Item], bool]] = {
    "lt": lambda a, b: a[0] < b[0],
    "le": lambda a, b: a[0] <= b[0],
    "gt": lambda a, b: a[0] > b[0],
    "true": lambda a, b: True,
    "mod": lambda a, b: (a[0] - b[0] + 300) % 3 == 1,
}
SAMPLE = Path(__file__).parent / "data" / "go_sort.jsonl.gz"
CASES = [json.loads(line) for line in gzip.decompress(SAMPLE.read_bytes()).splitlines()]


def order(keys: list[int], less: Callable[[Item, Item], bool]) -> list[int]:
    items = [(key, index) for index, key in enumerate(keys)]
    go_sort.sort(items, less)
    return [index for _, index in items]


@pytest.mark.parametrize("kind", LESS)
def test_order_is_that_of_go(kind: str) -> None:
    cases = [case for case in CASES if case["less"] == kind]
    assert len(cases) >= 10
    assert max(len(case["keys"]) for case in cases) > 50, "some cases must need pivots"
    for case in cases:
        assert order(case["keys"], LESS[kind]) == case["order"]


@given(st.lists(st.integers(-5, 5), max_size=200))
def test_proper_order_sorts(keys: list[int]) -> None:
    places = order(keys, LESS["lt"])
    assert [keys[place] for place in places] == sorted(keys)
    assert sorted(places) == list(range(len(keys)))


def test_short_runs_of_equals_are_reversed_where_equals_are_less() -> None:
    assert order([1, 1, 0, 1], LESS["le"]) == [2, 3, 1, 0]
