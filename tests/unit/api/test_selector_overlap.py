"""Overlap of selectors: the verdict against trying every set of labels."""

from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import label_selector, labels
from koordpy.api.label_selector import EVERYTHING, NOTHING, Operator, Requirement, Selector
from koordpy.api.selector_overlap import contradiction, example, implies

KEYS = "ab"
VALUES = ("", "x", "y", "z", "x0")
UNIVERSE = (None, *VALUES, "other")


def every_set_of_labels() -> Iterator[dict[str, str]]:
    for values in product(UNIVERSE, repeat=len(KEYS)):
        yield {key: value for key, value in zip(KEYS, values, strict=True) if value is not None}


@st.composite
def selectors(draw: st.DrawFn) -> Selector:
    requirements = []
    for _ in range(draw(st.integers(0, 4))):
        operator = draw(
            st.sampled_from(
                [Operator.EQUALS, Operator.IN, Operator.NOT_IN, Operator.EXISTS, Operator.DOES_NOT_EXIST]
            )
        )
        size = 1 if operator is Operator.EQUALS else draw(st.integers(1, 3))
        values = () if operator in (Operator.EXISTS, Operator.DOES_NOT_EXIST) else VALUES
        chosen = draw(st.lists(st.sampled_from(values), min_size=size, max_size=size)) if values else []
        requirements.append(Requirement(draw(st.sampled_from(KEYS)), operator, tuple(chosen)))
    return Selector(requirements)


@given(st.lists(selectors(), min_size=1, max_size=3))
def test_the_verdict_is_that_of_trying_all_labels(given_selectors: list[Selector]) -> None:
    possible = any(
        all(selector.matches(tried) for selector in given_selectors) for tried in every_set_of_labels()
    )
    found = example(*given_selectors)
    assert (found is not None) is possible
    if found is not None:
        assert all(selector.matches(found) for selector in given_selectors)
        assert all(labels.value_error(value) is None for value in found.values())


@given(selectors())
def test_a_contradiction_is_explained(selector: Selector) -> None:
    assert (contradiction(selector) is None) is (example(selector) is not None)


@given(selectors(), selectors())
def test_one_selector_implies_another_as_trying_all_labels_says(narrow: Selector, wide: Selector) -> None:
    tried = all(wide.matches(labels) for labels in every_set_of_labels() if narrow.matches(labels))
    assert implies(narrow, wide) is tried


@given(
    st.lists(
        st.builds(
            lambda operator, number: Requirement("n", operator, (str(number),)),
            st.sampled_from([Operator.GREATER_THAN, Operator.LESS_THAN, Operator.NOT_EQUALS]),
            st.integers(-2, 5),
        ),
        min_size=1,
        max_size=4,
    )
)
def test_bounds_are_met_where_they_can_be(requirements: list[Requirement]) -> None:
    selector = Selector(requirements)
    texts = [f"{'0' * zeros}{number}" for number in range(10) for zeros in range(5)]
    possible = selector.matches({}) or any(selector.matches({"n": text}) for text in texts)
    found = example(selector)
    assert (found is not None) is possible
    assert found is None or selector.matches(found)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("a=x,a=y", "'a=x' and 'a=y' exclude each other"),
        ("a=x,!a", "'a=x' and '!a' exclude each other"),
        ("a in (x),a notin (x,y),b", "'a in (x)' and 'a notin (x,y)' exclude each other"),
        ("a,!a", "'a' and '!a' exclude each other"),
        ("a>5,a<6", "'a>5' and 'a<6' exclude each other"),
        ("a,b!=x", None),
    ],
)
def test_what_excludes_each_other_is_named(text: str, told: str | None) -> None:
    assert contradiction(label_selector.parse(text)) == told


def test_labels_that_the_api_server_would_refuse_are_no_example() -> None:
    assert example(label_selector.of_labels({"a": "not a value!"})) is None
    assert "such a value" in (contradiction(label_selector.of_labels({"a": "not a value!"})) or "")
    assert "no object has a label 'not a key'" in (
        contradiction(label_selector.of_labels({"not a key": "v"})) or ""
    )


def test_everything_and_nothing() -> None:
    assert example(EVERYTHING) == {}
    assert example(EVERYTHING, NOTHING) is None
    assert contradiction(NOTHING) == "it matches nothing"
