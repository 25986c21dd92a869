from koordpy.lib.short_cache import LONGEST, short_cache


def test_short_texts_are_cached_and_long_ones_are_not():
    asked = []

    @short_cache(10)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    long = "x" * (LONGEST + 1)
    assert [length("a"), length("a"), length(long), length(long)] == [1, 1, LONGEST + 1, LONGEST + 1]
    assert asked == ["a", long, long]
