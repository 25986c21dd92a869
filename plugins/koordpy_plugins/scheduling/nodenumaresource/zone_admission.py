"""The affinity of a pod on many nodes with a NUMA policy at once, when no other provider has hints for it.

Hints and their scores come from arrays. Nodes with the same hints, in the same order of their scores, have
the same merged hint: the topology manager's merge runs once for each such group.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations
from typing import Final

import numpy as np

from koordpy.cluster.columns import Int64
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.toolkit.topology_manager import bitmask
from koordpy.scheduling.toolkit.topology_manager.policy import (
    Exclusive,
    Merged,
    NumaNodeStatus,
    NumaTopologyExclusive,
    NUMATopologyPolicy,
    merge_hints,
)

from .hints import hints_of
from .scorer import Scorer
from .state.columns import NUMA_POLICIES
from .zone_arrays import ZoneArrays

MOST_ZONES: Final = 5
"""Nodes with more NUMA nodes are evaluated by themselves: there are 31 sets of 5, and a bit for each."""

_OFFERED: Final = 1 << 62
"""In a row's bits of a resource: some NUMA node has it."""

Reasons = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Admitted:
    """(n,) the affinities, None where the pod is refused; the reasons for that as keys, 0 for none."""

    affinities: Sequence[NUMATopologyHint | None]
    keys: Int64
    reasons: Sequence[Reasons]
    """By key."""


@dataclass(frozen=True, slots=True)
class Holding:
    """(n,) the NUMA policy by position, and masks of the NUMA nodes of pods on one, or on several."""

    policy: Int64
    single: Int64
    shared: Int64


def admit(
    arrays: ZoneArrays,
    zones: Sequence[int],
    holding: Holding,
    exclusive: NumaTopologyExclusive,
    scorer: Scorer,
) -> Admitted:
    """Admit a pod to nodes that all have the same NUMA nodes, which have some of what it requests."""
    masks = _subsets(zones)
    names = sorted(arrays.wanted)
    bits, scores = _hint_bits(arrays, names, masks), np.zeros((len(masks), len(arrays)), np.int64)
    any_bits = np.bitwise_or.reduce(bits, axis=0)
    for at, mask in enumerate(masks):
        scores[at] = arrays.scores(scorer, mask)
    there = (1 << len(zones)) - 1
    statuses = [holding.single & there, holding.shared & there]
    if exclusive is not NumaTopologyExclusive.REQUIRED:
        statuses = [np.zeros_like(each) for each in statuses]
    ranks = _ranks(scores, any_bits, masks)
    state = np.ascontiguousarray(np.stack([holding.policy, *statuses, *bits, *ranks], axis=1), np.int64)
    groups, first = _grouped(state)
    merged = [_merge(state[at].tolist(), names, masks, zones, exclusive) for at in first]
    return _spread(groups, merged, masks, scores, (bits & _OFFERED != 0).sum(axis=0))


def _subsets(zones: Sequence[int]) -> list[tuple[int, ...]]:
    sizes = range(1, len(zones) + 1)
    return list(chain.from_iterable(combinations(zones, size) for size in sizes))


def _hint_bits(arrays: ZoneArrays, names: Sequence[str], masks: Sequence[tuple[int, ...]]) -> Int64:
    """(names, n) a bit for each mask that serves a resource, by position, and `_OFFERED`."""
    bits = np.zeros((len(names), len(arrays)), np.int64)
    fits = [arrays.fits(mask)[0] for mask in masks]
    for row, name in enumerate(names):
        offered = arrays.offers(name)
        if not offered.any():
            continue
        bits[row] = np.where(offered, _OFFERED, 0)
        for at, mask in enumerate(masks):
            bits[row] |= (offered & fits[at] & arrays.has_left(name, mask)).astype(np.int64) << at
    return bits


def _ranks(scores: Int64, bits: Int64, masks: Sequence[tuple[int, ...]]) -> Int64:
    """(masks, n) for masks with a hint how many with as many NUMA nodes score less; 0 without one.

    Only masks with equally many NUMA nodes are compared by scores.
    """
    ranks = np.zeros_like(scores)
    is_hint = [(bits >> at) & 1 for at in range(len(masks))]
    for at, mask in enumerate(masks):
        for other, than in enumerate(masks):
            if other != at and len(than) == len(mask):
                ranks[at] += is_hint[at] & is_hint[other] & (scores[other] < scores[at])
    return ranks


def _grouped(state: Int64) -> tuple[list[int], list[int]]:
    """Return the group of each row of numbers, and the first row of each group."""
    whole = state.tobytes()
    size = state.shape[1] * state.itemsize
    keys = [whole[at : at + size] for at in range(0, len(whole), size)]
    groups: dict[bytes, int] = {}
    first: list[int] = []
    found = []
    for at, key in enumerate(keys):
        group = groups.setdefault(key, len(first))
        if group == len(first):
            first.append(at)
        found.append(group)
    return found, first


def _merge(
    state: Sequence[int],
    names: Sequence[str],
    masks: Sequence[tuple[int, ...]],
    zones: Sequence[int],
    exclusive: NumaTopologyExclusive,
) -> Merged:
    policy, single, shared, *rest = state
    bits, ranks = rest[: len(names)], rest[len(names) :]
    policy_name = NUMATopologyPolicy(NUMA_POLICIES[policy])
    is_restricted = policy_name is NUMATopologyPolicy.RESTRICTED
    numbered = [(bitmask.of(mask), ranks[at]) for at, mask in enumerate(masks)]
    hints: Mapping[str, Sequence[NUMATopologyHint]] = {
        name: hints_of(
            [each for at, each in enumerate(numbered) if found >> at & 1], is_restricted=is_restricted
        )
        for name, found in zip(names, bits, strict=True)
        if found & _OFFERED
    }
    statuses = [_status(node, single, shared) for node in range(len(zones))]
    return merge_hints(policy_name, zones, [hints], Exclusive(exclusive, statuses), for_admission=True)


def _status(node: int, single: int, shared: int) -> NumaNodeStatus:
    if shared >> node & 1:
        return NumaNodeStatus.SHARED
    return NumaNodeStatus.SINGLE if single >> node & 1 else NumaNodeStatus.IDLE


def _spread(
    groups: Sequence[int],
    merged: Sequence[Merged],
    masks: Sequence[tuple[int, ...]],
    scores: Int64,
    resources: Int64,
) -> Admitted:
    """Give each node what its group gets, with its own score: that of the mask, once for each resource."""
    position = {bitmask.of(mask): at for at, mask in enumerate(masks)}
    at = np.array(groups, np.int64)
    chosen = [each.hint.affinity if each.admit else None for each in merged]
    columns = np.array([len(masks) if mask is None else position[mask] for mask in chosen], np.int64)[at]
    padded = np.concatenate([scores, np.zeros((1, scores.shape[1]), np.int64)])
    total = padded[columns, np.arange(len(at))] * resources
    reasons: list[Reasons] = [()]
    key_of = [_key(reasons, each.reasons) if not each.admit else 0 for each in merged]
    known: dict[tuple[int, int], NUMATopologyHint] = {}
    affinities: list[NUMATopologyHint | None] = []
    for group, score in zip(groups, total.tolist(), strict=True):
        if key_of[group]:
            affinities.append(None)
            continue
        hint = known.get((group, score))
        if hint is None:
            hint = known[group, score] = replace(merged[group].hint, score=score)
        affinities.append(hint)
    return Admitted(affinities, np.array(key_of, np.int64)[at], reasons)


def _key(table: list[Reasons], reasons: Reasons) -> int:
    if reasons not in table:
        table.append(reasons)
    return table.index(reasons)
