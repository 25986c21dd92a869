"""Distribution of a resource: Koordinator's worked examples, and that arrays agree with the loop."""

from random import Random

import numpy as np
import pytest

from koordpy_plugins.scheduling.elasticquota.state.water_filling import (
    ARRAYS_FROM,
    Int64,
    Pool,
    by_arrays,
    by_loop,
)

Child = tuple[int, int, int, int, int]
"""Weight, request, minimum, guarantee, and whether it lends."""


def shared(total: int, **children: Child) -> dict[str, int]:
    pool = Pool()
    for name, values in children.items():
        pool.insert(name, values)
    pool.set_total(total)
    pool.distribute()
    return dict(zip(pool.names, pool.runtime, strict=True))


FOUR: dict[str, Child] = {
    "n1": (40, 5, 10, 0, 1),
    "n2": (60, 20, 15, 0, 1),
    "n3": (50, 40, 20, 0, 1),
    "n4": (80, 70, 15, 0, 1),
}


@pytest.mark.parametrize(
    ("fourth", "expected"),
    [
        ((80, 70, 15, 0, 1), [5, 20, 35, 40]),
        ((0, 70, 15, 0, 1), [5, 20, 40, 15]),
        ((0, 70, 15, 45, 1), [5, 20, 30, 45]),
    ],
)
def test_what_is_left_is_shared_by_weight_until_requests_are_met(fourth: Child, expected: list[int]) -> None:
    assert list(shared(100, **{**FOUR, "n4": fourth}).values()) == expected


def test_the_smallest_names_get_what_cannot_be_divided() -> None:
    borrowers = {f"borrower-{n:02}": (1, 100, 8 if n < 8 else 7, 0, 1) for n in range(10)}
    found = shared(81, donor=(1, 0, 3, 0, 1), **borrowers)
    assert found["donor"] == 0
    assert [found[name] for name in sorted(borrowers)] == [9, 9, 9, 8, 8, 8, 8, 8, 7, 7]


def test_a_child_that_does_not_lend_keeps_its_minimum() -> None:
    assert shared(10, a=(1, 0, 4, 0, 0), b=(1, 20, 0, 0, 1)) == {"a": 4, "b": 6}


def test_a_negative_sum_of_weights_shares_nothing() -> None:
    assert shared(10, a=(-600, 9, 0, 0, 1), b=(500, 9, 0, 0, 1)) == {"a": 0, "b": 0}


def test_a_removed_child_leaves_its_share_to_the_others() -> None:
    pool = Pool()
    for name in "abc":
        pool.insert(name, (1, 9, 0, 0, 1))
    pool.set_total(9)
    pool.remove("a")
    pool.distribute()
    assert dict(zip(pool.names, pool.runtime, strict=True)) == {"b": 5, "c": 4}


def arrays(names: list[str], columns: tuple[list[int], ...], total: int) -> Int64 | None:
    order = sorted(range(len(names)), key=names.__getitem__)
    by_name = np.empty(len(names), np.int64)
    by_name[order] = np.arange(len(names))
    return by_arrays(np.array(columns, np.int64), by_name, total)


def random_pool(rng: Random, bits: int) -> tuple[list[str], tuple[list[int], ...]]:
    names = [f"q{n}" for n in rng.sample(range(1000), rng.randint(1, 40))]
    few = rng.choice((3, 1 << bits))
    rows = [
        (
            rng.randrange(few),
            rng.randrange(1 << rng.randint(1, bits)),
            rng.choice((0, rng.randrange(few))),
            rng.choice((0, 0, rng.randrange(few))),
            rng.randint(0, 1),
        )
        for _ in names
    ]
    return names, tuple(list(column) for column in zip(*rows, strict=True))


@pytest.mark.parametrize("bits", [4, 20, 37, 45])
def test_arrays_agree_with_the_loop(bits: int) -> None:
    rng = Random(bits)
    exact = 0
    for _ in range(400):
        names, columns = random_pool(rng, bits)
        total = rng.randrange(1 << (bits + 4))
        found = arrays(names, columns, total)
        if found is not None:
            exact += 1
            assert found.tolist() == by_loop(names, columns, total)
    assert exact > 300


@pytest.mark.parametrize(
    ("values", "total"),
    [((1844674407370955161, 1 << 40, 0, 0, 1), 1 << 45), ((-1, 5, 0, 0, 1), 10), ((1, 5, 0, 0, 1), 1 << 62)],
)
def test_pools_that_may_overflow_are_computed_by_the_loop(values: Child, total: int) -> None:
    names = [f"q{n}" for n in range(8)]
    columns = tuple([value] * 8 for value in values)
    assert arrays(names, columns, total) is None


def test_a_large_pool_follows_its_changes() -> None:
    rng, pool = Random(7), Pool()
    for number in range(ARRAYS_FROM + 20):
        pool.insert(f"q{number}", (rng.randint(1, 9), rng.randint(0, 99), rng.randint(0, 9), 0, 1))
    for step in range(60):
        pool.set_total(rng.randint(0, 9000))
        if step % 7 == 0:
            pool.remove(rng.choice(pool.names))
        pool.set(rng.choice(pool.names), rng.randrange(4), rng.randint(0, 99))
        pool.distribute()
        assert pool.runtime == by_loop(pool.names, pool.columns, pool.total)
