from koordpy.lib.short_cache import LONGEST, short_cache


def test_short_texts_are_asked_about_once_and_long_ones_every_time():
    asked = []

    @short_cache(10)
    def length(text: str) -> int:
        asked.append(text)
        return len(text)

    long = "x" * (LONGEST + 1)
    assert [length("a"), length("a"), length(long), length(long)] == [1, 1, LONGEST + 1, LONGEST + 1]
    assert asked == ["a", long, long]
