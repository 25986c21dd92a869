"""What members of the network offer, which are candidates, and how pods are distributed below them."""

from collections.abc import Mapping
from itertools import accumulate
from operator import mul

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy_plugins.scheduling.coscheduling.topology.offers import Layout, Offers
from koordpy_plugins.scheduling.coscheduling.topology.requirement import Requirement, requirement_of

from .networks import BLOCK, KOORDINATORS, NODE, SPINE, Places, nodes_of, rules, tree_of

FOUR: Places = {"s1": {"b1": ["n1", "n2"], "b2": ["n3", "n4"]}}
CAPACITY = {"n1": 5, "n2": 7, "n3": 6, "n4": 4}


def offers(
    places: Places,
    slots: Mapping[str, int],
    requirement: Requirement | None = None,
    existing: Mapping[str, int] | None = None,
) -> tuple[Layout, Offers]:
    layout = Layout(tree_of(nodes_of(places)))
    names = list(slots)
    there = None if existing is None else np.array([existing.get(name, 0) for name in names], np.int64)
    given = Offers(
        layout, requirement or Requirement("", {}), names, np.array(list(slots.values()), np.int64), there
    )
    return layout, given


@pytest.mark.parametrize(
    ("multiples", "wanted", "expected"),
    [
        ({}, 15, {"n1": 5, "n2": 7, "n3": 3}),
        ({NODE: 4}, 20, {"n1": 4, "n2": 4, "n3": 4, "n4": 4}),
        ({BLOCK: 8}, 20, {"n2": 7, "n1": 1, "n3": 6, "n4": 2}),
    ],
)
def test_pods_are_distributed_to_the_fullest_first_in_multiples(
    multiples: dict[str, int], wanted: int, expected: dict[str, int]
) -> None:
    _, found = offers(FOUR, CAPACITY, Requirement("", multiples))
    shares = found.distribute(wanted, 0)
    assert dict(shares) == expected


def test_offers_are_sums_from_the_nodes_upward_rounded_down_to_multiples() -> None:
    layout, found = offers(FOUR, CAPACITY, Requirement("", {NODE: 2, SPINE: 8}))
    by_name = {layout.members[at].name: int(number) for at, number in enumerate(found.slots)}
    assert by_name == {"": 16, "s1": 16, "b1": 10, "b2": 10, "n1": 4, "n2": 6, "n3": 6, "n4": 4}


def names_of(layout: Layout, members: list[int]) -> list[str]:
    return [layout.members[at].name for at in members]


def test_candidates_are_the_lowest_members_with_enough_room_the_smallest_first() -> None:
    slots = {"node-1": 2, "node-8": 2, "node-2": 1, "node-7": 2, "node-3": 1, "node-6": 2}
    layout, found = offers(KOORDINATORS, slots)
    assert names_of(layout, found.candidates([0], 2)) == ["node-6", "node-7", "node-1", "node-8"]
    assert names_of(layout, found.candidates([0], 3)) == ["b3", "b2", "b1"]
    assert names_of(layout, found.candidates([0], 7)) == ["s1"]
    assert names_of(layout, found.candidates([0], 11)) == []


def test_candidates_near_pods_of_the_same_selector_come_first() -> None:
    slots = dict.fromkeys(["node-1", "node-8", "node-2", "node-7", "node-3", "node-6"], 1)
    layout, found = offers(KOORDINATORS, slots, existing={"node-8": 1, "node-7": 1, "node-3": 1})
    assert names_of(layout, found.candidates([0], 1)) == [
        "node-7", "node-8", "node-3", "node-1", "node-2", "node-6",
    ]  # fmt: skip


def test_one_member_of_the_layer_must_hold_the_gang() -> None:
    layout, found = offers(KOORDINATORS, {}, Requirement(BLOCK, {}))
    assert sorted(names_of(layout, found.gathering())) == ["b1", "b2", "b3", "b4"]
    assert offers(KOORDINATORS, {}, Requirement("", {}))[1].gathering() == [0]
    assert offers(KOORDINATORS, {}, Requirement("ClusterTopologyLayer", {}))[1].gathering() == [0]
    assert offers(KOORDINATORS, {}, Requirement("unknown", {}))[1].gathering() == []


def test_the_lowest_layer_that_must_gather_counts() -> None:
    tree = tree_of(nodes_of(FOUR))
    both = rules((SPINE, "MustGather"), (BLOCK, "MustGather"), (NODE, "PreferGather"))
    assert requirement_of(both, tree).must_gather == BLOCK
    assert requirement_of(rules((NODE, "PreferGather")), tree).must_gather == ""


def test_multiples_of_one_or_less_mean_nothing() -> None:
    spec = rules((SPINE, "PreferGather", 1), (BLOCK, "PreferGather", -4), (NODE, "", 2))
    assert requirement_of(spec, tree_of([])).multiples == {NODE: 2}


slots = st.dictionaries(st.sampled_from([f"node-{i}" for i in range(1, 9)]), st.integers(0, 6))
factors = st.lists(st.integers(1, 3), min_size=3, max_size=3)


@given(slots, factors, st.integers(1, 20))
def test_no_member_gets_more_than_it_offers_or_no_multiple(
    slots: dict[str, int], factors: list[int], wanted: int
) -> None:
    """Multiples of a layer are multiples of those of the layers below: else Koordinator may miss them."""
    units = dict(zip((NODE, BLOCK, SPINE), accumulate(factors, mul), strict=True))
    layout, found = offers(KOORDINATORS, slots, Requirement("", units))
    for candidate in found.candidates([0], wanted):
        given = dict(found.distribute(wanted, candidate))
        assert sum(given.values()) <= wanted
        assert all(number <= slots.get(name, 0) for name, number in given.items())
        below = layout.summed(layout.at(list(given)), np.array(list(given.values()), np.int64))
        assert below[candidate] == sum(given.values())
        within = {candidate}
        for index, member in enumerate(layout.members):
            if index == candidate or int(layout.parents[index]) in within:
                within.add(index)
                assert below[index] % units.get(member.layer, 1) == 0
