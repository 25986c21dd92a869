"""Numbers of things in messages."""

import pytest

from koordpy.lib.counting import are, counted, have


@pytest.mark.parametrize(
    ("number", "text"), [(0, "0 nodes"), (1, "1 node"), (2, "2 nodes"), (5000, "5,000 nodes")]
)
def test_a_noun_is_plural_unless_there_is_one(number: int, text: str) -> None:
    assert counted(number, "node") == text


def test_a_plural_of_its_own() -> None:
    assert (counted(1, "entry", "entries"), counted(2, "entry", "entries")) == ("1 entry", "2 entries")


def test_verbs_agree() -> None:
    assert (are(1), are(2), have(1), have(0)) == ("is", "are", "has", "have")
