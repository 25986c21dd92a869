import sys
from enum import StrEnum

import msgspec
import numpy as np

from koordpy.lib.deep_size import deep_size


class Colour(StrEnum):
    RED = "red"


class Pair(msgspec.Struct):
    left: str
    right: list[str]


def test_parts_are_counted_once():
    shared = ["x" * 1000]
    assert deep_size([shared, shared], 1 << 20) < 1500
    assert deep_size(Pair("a" * 500, ["b" * 700]), 1 << 20) > 1200


def test_what_lives_anyway_is_free():
    assert deep_size((Colour.RED, Pair, len, None, True), 1 << 20) == sys.getsizeof((None,) * 5)


def test_views_of_arrays_count_with_their_bytes():
    assert deep_size(np.zeros(1000)[:500], 1 << 20) >= 4000


def test_measuring_ends_beyond_the_most():
    assert 1000 < deep_size([str(number) * 10 for number in range(1_000_000)], 1000) < 10_000_000 + 10_000
