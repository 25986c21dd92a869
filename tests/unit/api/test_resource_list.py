"""Resource lists in annotations."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import resource_list
from koordpy.api.quantity import parse
from koordpy.api.scheme import DecodeError

AMOUNTS = st.dictionaries(
    st.sampled_from(["cpu", "memory", "nvidia.com/gpu", "é"]),
    st.integers(-(10**12), 10**12).flatmap(lambda n: st.sampled_from([f"{n}", f"{n}m", f"{n}Ki"])),
)


@given(AMOUNTS)
def test_written_list_reads_as_the_same_amounts(amounts: dict[str, str]) -> None:
    quantities = {name: parse(amount) for name, amount in amounts.items()}
    text = resource_list.text(quantities)
    assert resource_list.parse(text) == quantities
    assert resource_list.text(resource_list.parse(text)) == text


def test_list_is_written_sorted_and_compact() -> None:
    assert resource_list.text({"memory": parse("1024Mi"), "cpu": parse("1000m")}) == (
        '{"cpu":"1","memory":"1Gi"}'
    )


def test_null_is_no_list() -> None:
    assert resource_list.parse("null") is None
    assert resource_list.text(None) == "null"


def test_numbers_and_nulls_are_amounts() -> None:
    read = resource_list.parse('{"cpu": 1.50, "memory": null}')
    assert read == {"cpu": parse("1500m"), "memory": parse("0")}


def test_a_list_of_an_object_is_read_from_its_wire_values() -> None:
    assert resource_list.from_wire({"cpu": "1500m", "memory": 1024}) == {
        "cpu": parse("1.5"),
        "memory": parse("1Ki"),
    }


def test_names_are_written_as_they_are() -> None:
    assert resource_list.text({"é": parse("1")}) == '{"é":"1"}'


@pytest.mark.parametrize(
    ("text", "message"),
    [("[]", "Expected `object | null`, got `array`"), ('{"cpu":"x"}', "quantity 'x': expected digits")],
)
def test_a_refusal_says_what_is_wrong(text: str, message: str) -> None:
    with pytest.raises(DecodeError, match=f"^{re.escape(message)}"):
        resource_list.parse(text)


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"cpu":"x"}', '{"cpu":true}', '{"cpu":{}}'])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(DecodeError):
        resource_list.parse(text)
