from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from koordpy.lib import profiling
from tests.pprof import decode

places = st.tuples(st.tuples(st.just("f.py"), st.text(max_size=5), st.integers(0, 9)), st.integers(0, 10**6))
profiles = st.dictionaries(st.lists(places, min_size=1, max_size=4).map(tuple), st.integers(1, 10**9))


@given(profiles)
def test_what_was_seen_is_what_is_read(seen: dict[profiling.Stack, int]) -> None:
    samples, rest = decode(profiling.encode(Counter(seen), taken=200, began=1.5, seconds=2))
    expected: Counter[tuple[tuple[str, int], ...]] = Counter()
    for stack, count in seen.items():
        expected[tuple((f"f.{name}", line) for (_, name, _), line in stack)] += count
    assert samples == expected
    assert rest == {9: 1_500_000_000, 10: 2_000_000_000, 12: 10_000_000}
