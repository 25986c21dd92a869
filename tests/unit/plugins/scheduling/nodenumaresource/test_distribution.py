"""Requests split among NUMA nodes."""

from hypothesis import given
from hypothesis import strategies as st

from koordpy.api.quantity import parse
from koordpy_plugins.scheduling.nodenumaresource.allocation.distribution import distribute


def test_little_available_is_made_up_for_by_the_others() -> None:
    available = {0: {"cpu": parse("1")}, 1: {"cpu": parse("8")}}
    shares, short = distribute({"cpu": parse("4")}, available, [0, 1], whole_cpus=1)
    assert {node: str(each["cpu"]) for node, each in shares.items()} == {0: "1", 1: "3"}
    assert short == []


def test_cpus_that_are_not_bound_are_split_in_thousandths() -> None:
    available = {node: {"cpu": parse("8")} for node in (0, 1)}
    shares, _ = distribute({"cpu": parse("3500m")}, available, [0, 1], whole_cpus=0)
    assert [str(each["cpu"]) for each in shares.values()] == ["1750m", "1750m"]


def test_the_order_is_by_the_availability_of_the_numa_nodes_at_positions() -> None:
    # NUMA nodes 2 and 3 are ordered by what 0 and 1 have, as in Koordinator.
    have = {0: "9", 1: "1", 2: "1", 3: "8"}
    available = {node: {"cpu": parse(text)} for node, text in have.items()}
    _, short = distribute({"cpu": parse("6")}, available, [2, 3], whole_cpus=1)
    assert short == ["cpu"]  # 3 is asked for its half first, so 2 cannot be made up for
    shares, short = distribute(
        {"cpu": parse("6")}, {**available, 1: {"cpu": parse("9")}}, [2, 3], whole_cpus=1
    )
    assert short == []
    assert {node: str(each["cpu"]) for node, each in shares.items()} == {2: "1", 3: "5"}


def test_whole_cores_are_shared_out_whole() -> None:
    available = {node: {"cpu": parse("8")} for node in (0, 1)}
    shares, short = distribute({"cpu": parse("6")}, available, [0, 1], whole_cpus=2)
    assert {node: str(each["cpu"]) for node, each in shares.items()} == {0: "2", 1: "4"}
    assert short == []


def test_a_resource_that_no_numa_node_has_is_left_out() -> None:
    shares, short = distribute({"gpu": parse("1")}, {0: {"cpu": parse("1")}}, [0], whole_cpus=1)
    assert (shares, short) == ({}, [])


@given(
    st.integers(0, 64),
    st.dictionaries(st.integers(0, 5), st.integers(0, 20), min_size=1),
    st.sampled_from([0, 1, 2]),
)
def test_shares_are_available_and_add_up(need: int, have: dict[int, int], whole_cpus: int) -> None:
    available = {node: {"cpu": parse(str(amount))} for node, amount in have.items()}
    shares, short = distribute({"cpu": parse(str(need))}, available, sorted(have), whole_cpus=whole_cpus)
    amounts = {node: each["cpu"].milli_value() for node, each in shares.items()}
    assert all(0 < amount <= have[node] * 1000 for node, amount in amounts.items())
    assert (sum(amounts.values()) == need * 1000) == (not short)
    assert list(shares) == sorted(shares)
