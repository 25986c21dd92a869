"""Merging hints: the rule's examples, its messages, and the search against trying every combination."""

from collections.abc import Sequence
from dataclasses import replace
from itertools import product
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.toolkit.topology_manager import bitmask, many_hints
from koordpy.scheduling.toolkit.topology_manager.merge import merge
from koordpy.scheduling.toolkit.topology_manager.policy import (
    NOT_EXCLUSIVE,
    Exclusive,
    NumaNodeStatus,
    NumaTopologyExclusive,
    NUMATopologyPolicy,
    merge_hints,
)

BEST_EFFORT = NUMATopologyPolicy.BEST_EFFORT
RESTRICTED = NUMATopologyPolicy.RESTRICTED
SINGLE = NUMATopologyPolicy.SINGLE_NUMA_NODE


def hint(mask: int | None, preferred: bool = True, score: int = 0) -> NUMATopologyHint:
    return NUMATopologyHint(mask, preferred, score=score)


def by_trying_everything(
    everything: int, lists: Sequence[Sequence[NUMATopologyHint]], exclusive: Exclusive
) -> NUMATopologyHint:
    """The rule as specified: all combinations in order, the best so far."""
    best = NUMATopologyHint(everything)
    for choice in product(*lists):
        affinities = [item.affinity for item in choice if item.affinity is not None]
        mask = everything
        for affinity in affinities:
            mask &= affinity
        if not mask:
            continue
        preferred = all(item.preferred for item in choice) and len(set(affinities)) <= 1
        widest = max((affinity.bit_count() for affinity in affinities), default=mask.bit_count())
        made = NUMATopologyHint(
            mask,
            preferred and exclusive.allows(mask),
            widest != mask.bit_count() or any(item.unsatisfied for item in choice),
            sum(item.score for item in choice if item.affinity == mask),
        )
        known = best.affinity or 0
        if made.preferred != best.preferred:
            best = made if made.preferred else best
        elif bitmask.narrower(mask, known) or (
            mask.bit_count() == known.bit_count() and made.score > best.score
        ):
            best = made
    return best


masks = st.one_of(st.none(), st.integers(1, 31), st.sampled_from([1, 2, 4, 8]))
hints = st.builds(
    NUMATopologyHint, masks, st.booleans(), st.sampled_from([False, False, True]), st.integers(-2, 9)
)
exclusives = st.builds(
    Exclusive,
    st.sampled_from(list(NumaTopologyExclusive)),
    st.lists(st.sampled_from(list(NumaNodeStatus)), min_size=5, max_size=5),
)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from([1, 3, 5, 15]), st.lists(st.lists(hints, max_size=6), max_size=4), exclusives)
def test_the_search_finds_what_trying_every_choice_finds(
    everything: int, lists: list[list[NUMATopologyHint]], exclusive: Exclusive
) -> None:
    assert merge(everything, lists, exclusive.allows) == by_trying_everything(everything, lists, exclusive)


@settings(max_examples=600, deadline=None)
@given(st.sampled_from([1, 3, 5, 15]), st.lists(st.lists(hints, min_size=1, max_size=6), max_size=4))
def test_arrays_find_what_trying_every_choice_finds(
    everything: int, lists: list[list[NUMATopologyHint]]
) -> None:
    lists = [[replace(item, preferred=False) for item in items] for items in lists]
    if not lists:
        return
    found = many_hints.search(everything, lists)
    if found is None or (found.affinity == everything and found.score <= 0):
        found = NUMATopologyHint(everything)
    assert found == by_trying_everything(everything, lists, NOT_EXCLUSIVE)


def test_lists_of_many_hints_are_merged_as_trying_every_choice_would() -> None:
    rng = Random(3)
    lists = [
        [
            NUMATopologyHint(
                mask, mask.bit_count() == 1 + resource % 2, rng.random() < 0.1, rng.randint(-2, 9)
            )
            for mask in range(1, 32)
        ]
        for resource in range(3)
    ]
    for _ in range(20):
        rng.shuffle(lists[rng.randrange(3)])
        assert many_hints.suit(31, lists)
        assert merge(31, lists, lambda _: True) == by_trying_everything(31, lists, NOT_EXCLUSIVE)


@pytest.mark.parametrize(
    ("everything", "score"), [(1 << 63 | 3, 1), (3, 1 << 60)], ids=["a high NUMA id", "a huge score"]
)
def test_what_arrays_cannot_hold_is_merged_one_by_one(everything: int, score: int) -> None:
    lists = [
        [
            NUMATopologyHint(mask, False, False, score * (n % 3))
            for n in range(25)
            for mask in (1, 2, everything)
        ]
        for _ in range(2)
    ]
    assert not many_hints.suit(everything, lists)
    assert merge(everything, lists, lambda _: True) == by_trying_everything(everything, lists, NOT_EXCLUSIVE)


@settings(deadline=None)
@given(
    st.sampled_from(list(NUMATopologyPolicy)),
    st.lists(st.dictionaries(st.sampled_from("abc"), st.none() | st.lists(hints, max_size=4)), max_size=3),
    exclusives,
)
def test_for_admission_only_the_hint_of_rejected_pods_may_differ(
    policy: NUMATopologyPolicy,
    providers: list[dict[str, list[NUMATopologyHint] | None]],
    exclusive: Exclusive,
) -> None:
    whole = merge_hints(policy, [0, 1, 2], providers, exclusive)
    quick = merge_hints(policy, [0, 1, 2], providers, exclusive, for_admission=True)
    assert (quick.admit, quick.reasons) == (whole.admit, whole.reasons)
    if whole.admit:
        assert quick == whole


def test_eight_resources_on_eight_numa_nodes_are_merged_without_trying_255_to_the_8() -> None:
    lists = [
        [hint(mask, mask.bit_count() == 1 + resource % 2, 100 - mask % 100) for mask in range(1, 256)]
        for resource in range(8)
    ]
    merged = merge(255, lists, lambda _: True)
    assert merged.affinity == 1
    assert merged.score == 8 * 99


@pytest.mark.parametrize(
    ("lists", "affinity", "score"),
    [
        ([[hint(1, score=60), hint(2, score=80)], [hint(1, score=10), hint(2, score=15)]], 2, 95),
        ([[hint(2, score=80), hint(1, score=60)], [hint(1, score=10), hint(2, score=15)]], 1, 70),
    ],
)
def test_among_equally_narrow_masks_order_decides_whether_the_score_counts(
    lists: list[list[NUMATopologyHint]], affinity: int, score: int
) -> None:
    assert merge(3, lists, lambda _: True) == hint(affinity, score=score)


def test_a_mask_that_the_exclusive_policy_rules_out_is_not_preferred() -> None:
    exclusive = Exclusive(NumaTopologyExclusive.REQUIRED, [NumaNodeStatus.SHARED, NumaNodeStatus.IDLE])
    merged = merge_hints(RESTRICTED, [0, 1], [{"cpu": [hint(1, score=1), hint(2, score=1)]}], exclusive)
    assert merged.hint == hint(2, score=1)
    assert merged.admit


class TestPolicies:
    unaligned = ({"resource1": [hint(1)]}, {"resource2": [hint(3)]})

    def test_restricted_refuses_hints_that_differ(self) -> None:
        merged = merge_hints(RESTRICTED, range(4), self.unaligned)
        assert merged.hint == NUMATopologyHint(1, unsatisfied=True)
        assert merged.reasons == (
            "Unaligned NUMA Hint cause resource1 prefer [01] among [01] & resource2 prefer [11] among [11]",
        )
        assert not merged.admit

    def test_best_effort_gives_up_if_not_all_are_satisfied(self) -> None:
        merged = merge_hints(BEST_EFFORT, range(4), self.unaligned)
        assert merged.hint == NUMATopologyHint(15)
        assert merged.admit

    def test_single_refuses_a_resource_that_needs_two_numa_nodes(self) -> None:
        merged = merge_hints(SINGLE, [0, 1], [{"cpu": [hint(3)]}])
        assert merged.hint == NUMATopologyHint(None)
        assert merged.reasons == ("Unaligned NUMA Hint cause cpu prefer [11] among [11]",)

    def test_single_accepts_a_machine_with_one_numa_node(self) -> None:
        merged = merge_hints(SINGLE, [0], [{"cpu": [hint(1)]}])
        assert merged.hint == hint(None)
        assert merged.admit

    @pytest.mark.parametrize(("policy", "affinity"), [(RESTRICTED, 3), (BEST_EFFORT, 3), (SINGLE, None)])
    def test_without_providers_everything_is_preferred(
        self, policy: NUMATopologyPolicy, affinity: int | None
    ) -> None:
        assert merge_hints(policy, [0, 1], []).hint == hint(affinity)

    @pytest.mark.parametrize(("policy", "affinity"), [(RESTRICTED, 3), (SINGLE, None)])
    def test_what_cannot_be_satisfied_is_named(
        self, policy: NUMATopologyPolicy, affinity: int | None
    ) -> None:
        merged = merge_hints(policy, [0, 1], [{"gpu": [], "cpu": None}, None, {"rdma": []}])
        assert merged.hint == NUMATopologyHint(affinity)
        assert merged.reasons == ("Unsatisfied NUMA gpu", "Unsatisfied NUMA rdma")

    def test_no_policy_means_no_affinity(self) -> None:
        merged = merge_hints(NUMATopologyPolicy.NONE, [0, 1], [{"gpu": []}])
        assert merged.hint == NUMATopologyHint(None)
        assert merged.admit


@pytest.mark.parametrize(
    ("mask", "text"),
    [
        (None, "<nil>"), (0, "00"), (1, "01"), (2, "10"), (3, "11"), (4, "100"), (5, "0101"), (6, "0110"),
        (8, "1000"), (15, "1111"), (16, "10000"), (17, "010001"), (1 << 63, "1" + "0" * 63),
    ],
)  # fmt: skip
def test_masks_are_written_as_koordinator_writes_them(mask: int | None, text: str) -> None:
    assert bitmask.text(mask) == text


@given(st.sets(st.integers(0, 63)))
def test_a_mask_holds_the_numa_nodes_that_it_is_made_of(numa_nodes: set[int]) -> None:
    assert list(bitmask.bits(bitmask.of(numa_nodes))) == sorted(numa_nodes)


def test_a_numa_node_that_no_mask_can_hold_is_refused() -> None:
    with pytest.raises(ValueError, match="NUMA node 64: expected an id from 0 to 63"):
        bitmask.of([64])
