"""The order of members."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy_plugins.scheduling.coscheduling.topology.members import (
    in_order_of_index,
    in_order_of_name,
    index_of,
    likeness,
)

from .networks import member


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("0", 0),
        ("+3", 3),
        ("03", 3),
        ("-0", 0),
        ("0" * 30 + "7", 7),
        (str((1 << 63) - 1), (1 << 63) - 1),
        (str(1 << 63), None),
        ("-1", None),
        ("1.0", None),
        (" 1", None),
        ("1_0", None),
        ("٣", None),
        ("", None),
        ("9" * 5000, None),
    ],
)
def test_an_index_is_a_plain_number_that_is_not_negative(text: str, index: int | None) -> None:
    assert index_of(member("m", index=text)) == index


def test_members_go_by_index_then_by_name_those_without_index_last() -> None:
    pods = [member("d"), member("c", index="x"), member("b", index="10"), member("a", index="2")]
    pods += [member("f", index="2"), member("e", index="-3")]
    assert [pod.metadata.name for pod in in_order_of_index(pods)] == ["a", "f", "b", "c", "d", "e"]
    assert [pod.metadata.name for pod in in_order_of_name(pods)] == ["a", "b", "c", "d", "e", "f"]


@given(st.permutations([("a", "1"), ("b", "1"), ("c", ""), ("d", "0"), ("e", "x")]))
def test_the_order_does_not_depend_on_that_in_which_pods_came(given_: list[tuple[str, str]]) -> None:
    pods = [member(name, index=index) for name, index in given_]
    assert [pod.metadata.name for pod in in_order_of_index(pods)] == ["d", "a", "b", "c", "e"]


def test_name_and_index_make_no_difference_to_where_a_pod_fits_but_all_else_may() -> None:
    first = likeness(member("a", index="1"))
    assert likeness(member("b", index="2")) == first
    assert likeness(member("a", index="1", selector="x")) != first
    assert likeness(member("a", "2", index="1")) != first
    assert likeness(member("a", index="1", priority=3)) != first
