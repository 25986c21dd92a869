"""Which NUMA nodes can give a pod its devices, and which do it best, on many nodes at once.

All sets of NUMA nodes are tried in all states of devices together. The answers are those of `hints` for one
node, on nodes without reservations and preemption.
"""

from collections.abc import Mapping, Sequence
from itertools import chain, combinations
from typing import Final

import numpy as np

from koordpy.cluster.nodes import NodeSet
from koordpy.lib.row_groups import group
from koordpy.scheduling.interface import NUMAHintGroups, NUMATopologyHints, shared_hint
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager import bitmask

from ..allocation.arrays import Allocation, Answers, allocation_of, views_of, visible_columns
from ..allocation.requests import Requests
from ..allocation.view_arrays import Bool, Int64, ViewArrays
from ..state.columns import DeviceColumns
from ..state.layout import Layout, counts_by_numa_node, numa_nodes
from . import hints

_MOST_NUMA_NODES: Final = 8
"""Nodes with more are left to `hints`: there are 255 sets of 8, as many as Kubernetes allows."""

_MASK_WIDTH: Final = 63
"""Masks of NUMA nodes are signed here; nodes with NUMA node 63 are left to `hints` as well."""

_NO_HINTS: Final[NUMATopologyHints] = ({}, SUCCESS)


def hint_groups(
    columns: DeviceColumns, nodes: NodeSet, requests: Requests, special: Bool
) -> NUMAHintGroups | None:
    """Return hints by group of nodes, of which `special` ones (n,) have none.

    None if arrays cannot decide what the pod requests.
    """
    allocation = allocation_of(requests)
    if allocation is None:
        return None
    states, which = _alike(columns, nodes, requests)
    groups = _Groups(columns, states, allocation)
    numbers = np.where(special, -1, groups.numbers[which])

    def check(at: Int64, masks: Int64) -> tuple[Int64, Sequence[Status]]:
        keys, statuses = np.zeros(len(at), np.int64), [SUCCESS]
        others = np.flatnonzero(~groups.serve(which[at], masks))
        if len(others):
            others_of = nodes.by_row().pick(at[others])
            views, rows = views_of(columns, others_of, allocation.demands, masks[others])
            answers = allocation.answers(views)
            keys[others], statuses = answers.keys[rows], list(answers.statuses)
        return keys, statuses

    return NUMAHintGroups(numbers, groups.hints, check)


def _alike(columns: DeviceColumns, nodes: NodeSet, requests: Requests) -> tuple[Int64, Int64]:
    """Return states (s,) of which no two look the same to a pod, and which of them each node has (n,)."""
    states, which = columns.states(nodes)
    found = visible_columns(columns, states, requests)
    assert found is not None
    groups, first = group((*found[0], found[1]), len(states))
    return states[first], groups[which]


class _Groups:
    """States (s,) by their hints; `numbers` (s,) is -1 for a state that is left to `hints`."""

    def __init__(self, columns: DeviceColumns, states: Int64, allocation: Allocation) -> None:
        self._columns, self._allocation = columns, allocation
        self.hints: list[NUMATopologyHints] = [_NO_HINTS]
        self._serving: dict[int, Bool] = {}
        self.numbers = np.where(columns.known.values[states], -1, 0)
        layouts = columns.layout_id.values[states]
        alike: dict[tuple[int, ...], list[int]] = {}
        for number in np.unique(layouts[(self.numbers < 0) & (layouts >= 0)]).tolist():
            layout = columns.layouts.value_of(number)
            there = numa_nodes(layout)
            is_tried = hints.has_preference(there, len(layout))
            alike.setdefault(there if is_tried else (), []).append(number)
        for there, of_layouts in alike.items():
            here = np.flatnonzero((self.numbers < 0) & np.isin(layouts, of_layouts))
            if not there:
                self.numbers[here] = 0
            elif len(there) <= _MOST_NUMA_NODES and there[-1] < _MASK_WIDTH:
                self._search(here, states[here], there)

    def serve(self, at: Int64, masks: Int64) -> Bool:
        """(n,) whether states at positions are known to serve masks (n,): there is a hint with the mask."""
        found = np.zeros(len(at), np.bool_)
        for mask, serving in self._serving.items():
            found |= (masks == mask) & serving[at]
        return found

    def _search(self, here: Int64, states: Int64, there: Sequence[int]) -> None:
        """Find the hints of states whose devices are on some NUMA nodes."""
        sets = list(chain.from_iterable(combinations(there, size) for size in range(1, len(there) + 1)))
        masks = [bitmask.of(each) for each in sets]
        views = ViewArrays(
            self._columns,
            np.repeat(states, len(sets)),
            self._allocation.demands,
            np.tile(masks, len(states)),
        )
        answers, gpus = self._allocation.choose(views)
        shape = (len(states), len(sets))
        enough = self._enough(views, shape, sets)
        serves = (answers.keys == 0).reshape(shape) & enough
        gpus = gpus.reshape(shape)
        is_best = serves & (gpus == gpus[:, -1:])
        for mask, serving in zip(masks, serves.T, strict=True):
            self._serving.setdefault(mask, np.zeros(len(self.numbers), np.bool_))[here] = serving
        # What all NUMA nodes together cannot give, no others are asked for.
        refusals = np.where(enough[:, -1], answers.keys.reshape(shape)[:, -1], len(answers.statuses))
        bits = np.packbits(np.concatenate([serves, is_best], axis=1), axis=1)
        groups, first = group((refusals, *bits.T), len(states))
        self.numbers[here] = np.where(
            answers.unknown.reshape(shape).any(axis=1), -1, groups + len(self.hints)
        )
        for at in first.tolist():
            self.hints.append(
                self._hints(masks, serves[at], is_best[at])
                if refusals[at] == 0
                else ({}, self._refusal(int(refusals[at]), answers))
            )

    def _hints(self, masks: Sequence[int], serves: Bool, is_best: Bool) -> NUMATopologyHints:
        served = np.flatnonzero(serves)
        fewest = masks[int(served[0])].bit_count()  # masks ascend by size
        of_type = [
            shared_hint(masks[at], masks[at].bit_count() == fewest, hints.BEST_SCORE if best else 0)
            for at, best in zip(served.tolist(), is_best[served].tolist(), strict=True)
        ]
        return dict.fromkeys(self._allocation.demands, of_type), SUCCESS

    @staticmethod
    def _refusal(number: int, answers: Answers) -> Status:
        if number < len(answers.statuses):
            return answers.statuses[number]
        return Status.unresolvable(hints.INSUFFICIENT)

    def _enough(self, views: ViewArrays, shape: tuple[int, int], sets: Sequence[Sequence[int]]) -> Bool:
        """(s, sets) whether NUMA nodes have as many devices of each type, or none, as are wanted.

        True also where a node has no device of a type, or no virtual function, at all: that is refused first.
        """
        layouts = views.read(self._columns.layout_id).reshape(shape)[:, 0]
        numbers, of_state = np.unique(layouts, return_inverse=True)
        found, lacks = np.ones(shape, np.bool_), np.zeros(shape, np.bool_)
        for type_, demand in self._allocation.demands.items():
            there = np.array(
                [_counts(self._columns.layouts.value_of(number), type_, sets) for number in numbers.tolist()]
            )[of_state]
            listed = views.read(views.of(type_).count).reshape(shape)
            wanted = views.least(type_, demand)
            if demand.count is None:
                wanted = np.reshape(wanted, shape)
                lacks |= wanted == 0
            found &= (there == 0) | (there >= wanted)
            lacks |= listed == 0
            if demand.functions is not None:
                lacks |= ~views.with_functions(type_)[1].reshape(shape)
        return found | lacks


def _counts(layout: Layout, type_: str, sets: Sequence[Sequence[int]]) -> list[int]:
    """Return how many devices of a type are on each set of NUMA nodes."""
    counts: Mapping[int, int] = counts_by_numa_node(layout, type_)
    return [sum(counts.get(node, 0) for node in nodes) for nodes in sets]
