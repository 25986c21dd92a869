"""Numbers that Go 1.26 has drawn: `rand.New(rand.NewSource(seed))`, then the calls in this order."""

import pytest

from koordpy.lib.go_random import GoRandom


@pytest.mark.parametrize(
    ("seed", "first", "numbers", "permutation", "shuffled", "later"),
    [
        (
            42,
            3440579354231278675,
            [7, 4, 448434750],
            [6, 5, 0, 4, 2, 1, 3, 7],
            [8, 0, 2, 7, 6, 4, 9, 5, 1, 3],
            1993708277666609027,
        ),
        (
            0,
            8717895732742165505,
            [4, 9, 116702506],
            [5, 6, 0, 7, 2, 1, 3, 4],
            [6, 5, 9, 3, 0, 7, 1, 4, 2, 8],
            2274100956872767573,
        ),
        (
            -7,
            747107023976529931,
            [8, 2, 189665856],
            [5, 0, 4, 2, 3, 6, 1, 7],
            [7, 3, 2, 4, 0, 9, 5, 6, 1, 8],
            8206815305465258678,
        ),
        (
            1 << 40,
            5470237361722394362,
            [0, 1, 364506073],
            [3, 7, 6, 2, 1, 5, 4, 0],
            [2, 6, 8, 7, 4, 5, 9, 3, 1, 0],
            985468965743906257,
        ),
    ],
)
def test_numbers_are_those_of_go(seed, first, numbers, permutation, shuffled, later):
    rng, items = GoRandom(seed), list(range(10))
    assert rng.int63() == first
    assert [rng.randrange(n) for n in (10, 16, 2**31 - 1)] == numbers
    assert rng.permutation(8) == permutation
    rng.shuffle(items)
    assert items == shuffled
    assert [rng.int63() for _ in range(2000)][-1] == later


def test_what_go_has_not_is_random_too():
    rng = GoRandom(1)
    assert {rng.choice("abc") for _ in range(50)} == set("abc")
    assert all(0 <= rng.random() < 1 for _ in range(50))
    assert all(rng.getrandbits(70) < 1 << 70 for _ in range(50))
    assert max(rng.getrandbits(70) for _ in range(50)) > 1 << 66
    with pytest.raises(ValueError, match="below 2"):
        rng.randrange(1 << 31)
