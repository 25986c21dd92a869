"""Sums and differences of resource lists."""

from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.quantity import Quantity, parse
from koordpy.api.resource_amounts import (
    minus,
    minus_not_negative,
    plus,
    smallest,
    total,
    within_known,
    without_zeros,
)

LISTS = st.dictionaries(
    st.sampled_from("abc"), st.integers(-1000, 1000).map(lambda number: parse(f"{number}m"))
)


@given(st.lists(LISTS, max_size=4))
def test_sum_does_not_depend_on_order(lists: list[dict[str, Quantity]]) -> None:
    assert total(lists) == total(reversed(lists))


@given(LISTS, LISTS)
def test_two_lists_are_summed_name_by_name(left: dict[str, Quantity], right: dict[str, Quantity]) -> None:
    assert plus(left, right) == total([left, right])


def test_an_amount_that_one_list_has_keeps_its_text() -> None:
    summed = plus({"a": parse("1.500"), "b": parse("1.500")}, {"b": parse("1.500"), "c": parse("1.500")})
    assert {name: str(amount) for name, amount in summed.items()} == {"a": "1.500", "b": "3", "c": "1.500"}


@given(LISTS, LISTS)
def test_difference_has_the_names_of_both(left: dict[str, Quantity], right: dict[str, Quantity]) -> None:
    difference = minus(left, right)
    assert difference.keys() == left.keys() | right.keys()
    assert without_zeros(plus(difference, right)) == without_zeros(left)


@given(LISTS, LISTS)
def test_nothing_is_negative(left: dict[str, Quantity], right: dict[str, Quantity]) -> None:
    difference, exact = minus_not_negative(left, right), minus(left, right)
    assert difference.keys() == exact.keys()
    for name, amount in difference.items():
        assert amount == (max(exact[name], parse("0")) if name in left else parse("0"))


@given(LISTS, LISTS)
def test_smallest_is_within_both(left: dict[str, Quantity], right: dict[str, Quantity]) -> None:
    both = smallest(left, right)
    assert both.keys() == left.keys() & right.keys()
    assert within_known(both, left)
    assert within_known(both, right)


def test_of_equal_amounts_the_right_text_stays() -> None:
    assert str(smallest({"a": parse("1.500")}, {"a": parse("1500m")})["a"]) == "1500m"


def test_a_name_without_limit_is_not_limited() -> None:
    assert within_known({"a": parse("1"), "b": parse("100")}, {"a": parse("1")})
    assert not within_known({"a": parse("2")}, {"a": parse("1")})
