"""Sums and comparisons of resource lists."""

from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.quantity import Quantity, parse
from koordpy.api.quota.amounts import fits, largest, negative, plus, total

LISTS = st.dictionaries(
    st.sampled_from("abc"), st.integers(-1000, 1000).map(lambda number: parse(f"{number}m"))
)


@given(LISTS, LISTS)
def test_both_lists_fit_their_largest(left: dict[str, Quantity], right: dict[str, Quantity]) -> None:
    both = largest(left, right)
    assert both.keys() == left.keys() | right.keys()
    assert fits(left, both)
    assert fits(right, both)
    assert all(amount in (left.get(name), right.get(name)) for name, amount in both.items())


@given(st.lists(LISTS, max_size=4))
def test_sum_does_not_depend_on_order(lists: list[dict[str, Quantity]]) -> None:
    assert total(lists) == total(reversed(lists))


@given(LISTS, LISTS)
def test_two_lists_are_summed_name_by_name(left: dict[str, Quantity], right: dict[str, Quantity]) -> None:
    assert plus(left, right) == total([left, right])


def test_an_amount_that_one_list_has_keeps_its_text() -> None:
    summed = plus({"a": parse("1.500"), "b": parse("1.500")}, {"b": parse("1.500"), "c": parse("1.500")})
    assert {name: str(amount) for name, amount in summed.items()} == {"a": "1.500", "b": "3", "c": "1.500"}


@given(LISTS)
def test_list_fits_nothing_where_an_amount_is_positive(amounts: dict[str, Quantity]) -> None:
    assert fits(amounts, {}) is not any(amount.sign > 0 for amount in amounts.values())


@given(LISTS)
def test_negative_names_are_those_below_zero(amounts: dict[str, Quantity]) -> None:
    assert set(negative(amounts)) == {name for name, amount in amounts.items() if amount < parse("0")}
