from datetime import UTC, datetime

from koordpy.lib.clock import FakeClock
from koordpy.lib.ttl_cache import TTLCache


def test_keys_are_forgotten_and_their_memory_is_given_back() -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    cache = TTLCache(5, 10, clock)
    cache.add("a")
    clock.advance(5)
    assert "a" in cache
    clock.advance(0.1)
    assert "a" not in cache
    cache.add("b")
    assert len(cache) == 2
    clock.advance(4.9)
    cache.add("c")
    assert len(cache) == 2
    assert {"b", "c"} == {key for key in "abc" if key in cache}


def test_a_key_can_be_discarded_and_renewed() -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    cache = TTLCache(5, 10, clock)
    cache.add("a")
    clock.advance(4)
    cache.add("a")
    clock.advance(4)
    assert "a" in cache
    cache.discard("a")
    cache.discard("never there")
    assert "a" not in cache
