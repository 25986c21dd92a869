import random

import pytest

from koordpy.lib import byte_budget
from koordpy.lib.bounded_cache import BoundedCache, cached, text_size


def held(name: str) -> byte_budget.Usage:
    return byte_budget.usage()[name]


def test_a_result_is_computed_once():
    asked = []

    @cached("test_once", 1 << 20)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    assert [length("a"), length("bb"), length("a"), length("bb")] == [1, 2, 1, 2]
    assert asked == ["a", "bb"]


def test_exceptions_are_not_cached():
    asked = []

    @cached("test_exceptions", 1 << 20)
    def refuse(text: str) -> int:
        asked.append(text)
        raise ValueError(text)

    for _ in range(2):
        with pytest.raises(ValueError, match="x"):
            refuse("x")
    assert asked == ["x", "x"]


def test_what_is_too_large_for_a_share_is_computed_each_time():
    asked = []

    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    cache = BoundedCache("test_large", 1 << 16, length)
    long = "x" * 100_000
    assert [cache.get(long), cache.get(long)] == [100_000, 100_000]
    assert asked == [long, long]
    assert len(cache) == 0
    assert held("test_large").held == 0


def test_large_values_of_small_keys_are_measured():
    def large(key: str) -> list[str]:
        return [f"{key}{number}" * 100 for number in range(30)]

    cache = BoundedCache("test_measured", 1 << 20, large)
    for number in range(1000):
        cache.get(str(number))
    assert 0 < held("test_measured").held <= 1 << 20
    assert len(cache) == held("test_measured").entries < 100


def test_a_cache_never_exceeds_its_budget():
    rng = random.Random(5)
    cache: BoundedCache[str, str] = BoundedCache("test_budget", 40_000, lambda text: text.upper(), text_size)
    for _ in range(5000):
        text = chr(97 + rng.randrange(20)) * rng.randrange(1, 1500)
        assert cache.get(text) == text.upper()
        assert 0 <= held("test_budget").held <= 40_000
        assert held("test_budget").entries == len({*cache._young, *cache._old})
    cache.clear()
    assert held("test_budget").held == len(cache) == 0


def test_what_is_used_again_and_again_stays():
    asked = []

    def upper(text: str) -> str:
        asked.append(text)
        return text.upper()

    cache = BoundedCache("test_stays", 40_000, upper, text_size)
    for number in range(2000):
        cache.get("often")
        cache.get(str(number))
    assert asked.count("often") == 1


def test_budgets_of_one_name_are_reported_together_and_vanish_with_their_caches():
    first, second = (BoundedCache("test_sum", 1 << 20, str, text_size) for _ in range(2))
    first.get("a")
    second.get("b")
    assert (held("test_sum").entries, held("test_sum").limit) == (2, 2 << 20)


def test_a_budget_without_space_is_refused():
    with pytest.raises(ValueError, match="cache test_none: a budget of 3 bytes, expected at least 8"):
        BoundedCache("test_none", 3, str)


def test_the_latest_large_result_is_kept_besides_where_that_is_asked_for() -> None:
    computed = []

    @cached("test_latest", 8000, lambda key, value: value, keeps_latest=True)
    def function(key: str) -> int:
        computed.append(key)
        return 100_000

    for key in ("a", "a", "b", "b", "a"):
        assert function(key) == 100_000
    assert computed == ["a", "b", "a"]


def test_the_largest_entry_may_be_chosen() -> None:
    cache = BoundedCache[str, str](
        "test_largest", 8000, lambda key: key, lambda key, value: len(key), largest=3
    )
    assert (cache.get("abc"), cache.get("abcd"), len(cache)) == ("abc", "abcd", 1)


def _length(key: str, value: str) -> int:
    return len(key)
