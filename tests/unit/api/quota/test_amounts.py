"""Comparisons of resource lists for quotas."""

from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.quantity import Quantity, parse
from koordpy.api.quota.amounts import fits, negative
from koordpy.api.resource_amounts import largest

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


@given(LISTS)
def test_list_fits_nothing_where_an_amount_is_positive(amounts: dict[str, Quantity]) -> None:
    assert fits(amounts, {}) is not any(amount.sign > 0 for amount in amounts.values())


@given(LISTS)
def test_negative_names_are_those_below_zero(amounts: dict[str, Quantity]) -> None:
    assert set(negative(amounts)) == {name for name, amount in amounts.items() if amount < parse("0")}
