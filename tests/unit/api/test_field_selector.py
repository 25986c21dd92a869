import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.field_selector import FieldSelector, FieldSelectorError, Term, parse

FIELDS = st.sampled_from(["metadata.name", "spec.nodeName", "status.phase"])
VALUES = st.text(alphabet="ab\\,= !", max_size=4)


@given(st.lists(st.builds(Term, FIELDS, VALUES, st.booleans()), max_size=4), st.dictionaries(FIELDS, VALUES))
def test_text_written_again_means_the_same(terms: list[Term], fields: dict[str, str]) -> None:
    selector = FieldSelector(tuple(terms))
    again = parse(str(selector))
    assert sorted(map(str, again.terms)) == sorted(map(str, terms))
    assert again.matches(fields) == selector.matches(fields)


@pytest.mark.parametrize(
    ("text", "fields", "matches"),
    [
        ("", {}, True),
        (",,", {}, True),
        ("a=b", {"a": "b"}, True),
        ("a==b", {"a": "b"}, True),
        ("a!=b", {}, True),
        ("a=", {}, True),
        ("=", {"a": "b"}, True),
        (r"a=x\,y", {"a": "x,y"}, True),
        ("a= b", {"a": "b"}, False),
    ],
)
def test_field_selector_text(text: str, fields: dict[str, str], matches: bool) -> None:
    assert parse(text).matches(fields) is matches


@pytest.mark.parametrize("text", ["a", "a===b", r"a=\b", "a=b=c", "a=b\\"])
def test_malformed_text_is_refused(text: str) -> None:
    with pytest.raises(FieldSelectorError):
        parse(text)


def test_exact_value_is_that_of_an_equal_term() -> None:
    assert parse("a!=c,a=b").exact_value("a") == "b"
    assert parse("a!=c").exact_value("a") is None
