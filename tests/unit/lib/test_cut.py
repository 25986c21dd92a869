import pytest

from koordpy.lib.cut import cut


@pytest.mark.parametrize(("text", "expected"), [("", ""), ("a" * 40, "a" * 40)])
def test_a_short_text_stays_as_it_is(text: str, expected: str) -> None:
    assert cut(text, 40) == expected


def test_a_long_text_ends_with_its_length() -> None:
    found = cut("a" * 10_000, 40)
    assert len(found) == 40
    assert found.endswith("... (10000 characters)")
