"""How many members of a gang each node holds, one after the other in their order.

Every member is filtered with its own requests, in a state of its own PreFilter, on the node as it is with the
members before it. Members that are alike are not filtered one by one: as long as a plugin considers one node
at a time, a node that refuses a pod also refuses it with more pods on it, so that bisection finds the first
refusal on all nodes at once, beginning with what the free resources suggest. Where plugins track the pods of
the attempt, members are added one by one; where plugins consider the pods of several nodes (spread
constraints, affinity between pods), each node has states of its own.

Source: Koordinator, `calculateNodeOfferSlot` in
`pkg/scheduler/plugins/coscheduling/core/network_topology_solver.go`. There every member is filtered in the
state of the first, hence with the first one's requests.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.sandbox import Sandbox
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.handle import WhatIf
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome, PreFilterOutcome
from koordpy.scheduling.interface.status import Status

from .leading import LeadingMembers
from .members import likeness

Begin = Callable[[Pod], tuple[CycleState, PreFilterOutcome]]
"""Begins the attempt of a member: its state, and what PreFilter says."""


@dataclass(slots=True)
class Slots:
    """The result for the n nodes of a set, in its order."""

    nodes: NodeSet
    numbers: Int64
    """(n,) how many of the members fit one after the other."""
    refusals: dict[str, Status] = field(default_factory=dict)
    """Why the next member does not fit, by node name; not of nodes that hold all members."""
    error: Status | None = None
    """An Error: nothing else counts."""


class FilterFailed(Exception):
    """A plugin failed for a member; carries the Error status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class SlotProbe:
    """Members in their order, and nodes. `begin` is called once for members that are alike."""

    def __init__(
        self,
        framework: WhatIf,
        members: Sequence[Pod],
        nodes: NodeSet,
        begin: Begin,
        *,
        one_by_one: bool = False,
    ) -> None:
        """With `one_by_one` members that are alike are filtered one by one, too: the same, slowly."""
        self._framework, self._members, self._nodes, self._begin = framework, members, nodes, begin
        self._one_by_one = one_by_one
        self._attempts: dict[Hashable, _Attempt] = {}
        self._likeness = [likeness(pod) for pod in members]
        self._numbers = np.zeros(len(nodes), np.int64)
        self._refusals: list[Status | None] = [None] * len(nodes)
        self._first: dict[int, Sequence[Pod]] = {0: ()}
        """The first members by their number."""

    def run(self) -> Slots:
        """Find the numbers."""
        try:
            self._run()
        except FilterFailed as failure:
            return Slots(self._nodes, np.zeros(len(self._nodes), np.int64), error=failure.status)
        named = zip(self._nodes.names, self._refusals, strict=True)
        return Slots(self._nodes, self._numbers, {name: why for name, why in named if why is not None})

    def _run(self) -> None:
        leading = LeadingMembers(self._nodes, self._members)
        at = np.arange(len(self._nodes))
        begin = 0
        while begin < len(self._members) and len(at):
            attempt = self._attempt_of(begin)
            if attempt.tracks or self._one_by_one:
                self._add_one_by_one(at)
                return
            end = begin + 1
            while end < len(self._members) and self._likeness[end] == self._likeness[begin]:
                end += 1
            at = self._bisect(leading, self._admitted(attempt, at), attempt, begin, end)
            begin = end

    def _attempt_of(self, place: int) -> "_Attempt":
        """Return the attempt of the members that are like the one at a place."""
        key = self._likeness[place]
        known = self._attempts.get(key)
        if known is None:
            state, outcome = self._begin(self._members[place])
            status = outcome.status
            if not (status.is_success or status.is_rejected):
                raise FilterFailed(status)
            tracks = status.is_success and self._framework.tracks_pods(state)
            known = self._attempts[key] = _Attempt(state, outcome, tracks, state.read(PLACED) or {})
        return known

    def _admitted(self, attempt: "_Attempt", at: Int64) -> Int64:
        """Return the nodes of these that PreFilter leaves; the others refuse."""
        outcome = attempt.outcome
        if not outcome.status.is_success:
            self._refuse(at, outcome.status)
            return at[:0]
        if outcome.node_names is None:
            return at
        names, allowed = self._nodes.names, outcome.node_names
        left = np.fromiter((names[index] in allowed for index in at.tolist()), np.bool_, len(at))
        self._refuse(at[~left], outcome.absent_status)
        admitted: Int64 = at[left]
        return admitted

    def _refuse(self, at: Int64, status: Status) -> None:
        for index in at.tolist():
            self._refusals[index] = status

    # --- alike, and no plugin tracks pods ----------------------------------------------------------

    def _bisect(self, leading: LeadingMembers, at: Int64, attempt: "_Attempt", begin: int, end: int) -> Int64:
        """Find the first of the members from `begin` to `end`, all alike, that each node refuses.

        `at` (k,) are nodes that hold all members before. Return those that hold these too.
        """
        low = np.full(len(at), begin, np.int64)  # all members before it fit
        high = np.full(len(at), end, np.int64)  # it does not, unless it is the end
        tried = begin + leading.fitting(at, begin, end) - 1
        turn = 0
        while len(open_ := np.flatnonzero(low < high)):
            if turn == 0:
                place = np.clip(tried, begin, end - 1)
            elif turn == 1:
                place = low
            else:
                place = (low + high) // 2
            turn += 1
            numbers = place[open_]
            attempt.state.write(PLACED, self._placed(attempt, at[open_], numbers))
            outcome = self._filter(attempt.state, self._members[begin], leading.on(at[open_], numbers))
            fits = outcome.feasible
            low[open_[fits]] = numbers[fits] + 1
            high[open_[~fits]] = numbers[~fits]
            self._kept(at[open_], outcome)
        self._numbers[at] = low
        holding_all: Int64 = at[low == end]
        for index in holding_all.tolist():
            self._refusals[index] = None
        return holding_all

    def _placed(self, attempt: "_Attempt", at: Int64, numbers: Int64) -> Mapping[str, Sequence[Pod]]:
        """Return the first members, so many of each node (k,), by node name; equal numbers share a list."""
        names, first = self._nodes.names, self._first
        placed: dict[str, Sequence[Pod]] = {}
        for index, number in zip(at.tolist(), numbers.tolist(), strict=True):
            if number not in first:
                first[number] = self._members[:number]
            placed[names[index]] = first[number]
        for name, pods in attempt.placed.items():
            placed[name] = [*pods, *placed.get(name, ())]
        return placed

    def _filter(self, state: CycleState, member: Pod, nodes: NodeSet) -> FilterOutcome:
        outcome = self._framework.run_filters(state, member, nodes)
        if outcome.error is not None:
            raise FilterFailed(outcome.error)
        return outcome

    # --- one by one ------------------------------------------------------------------------------

    def _add_one_by_one(self, at: Int64) -> None:
        """Add members one by one, from the first one on, to nodes that may hold more than counted so far."""
        for place in range(len(self._members)):
            self._attempt_of(place)
        if not any(self._framework.entangled(attempt.state) for attempt in self._attempts.values()):
            self._walk(at)
            return
        for index in self._promising(at).tolist():
            self._walk(np.array([index]))

    def _promising(self, at: Int64) -> Int64:
        """Return the nodes that are not refused by plugins that consider one node at a time."""
        attempt = self._attempt_of(0)
        at = self._admitted(attempt, at)
        state = attempt.state.clone()
        state.skip_filter.update(self._framework.entangled(state))
        return self._kept(at, self._filter(state, self._members[0], self._nodes.pick(at)))

    def _kept(self, at: Int64, outcome: FilterOutcome) -> Int64:
        """Return the nodes that passed; the others refuse."""
        for refusals in outcome.refusals:
            for status, refused in refusals.grouped():
                self._refuse(at[refused], status)
        kept: Int64 = at[outcome.feasible]
        return kept

    def _walk(self, at: Int64) -> None:
        """Add members one by one to nodes (k,), all nodes together."""
        states = {key: attempt.state.clone() for key, attempt in self._attempts.items()}
        placed = {key: {**attempt.placed} for key, attempt in self._attempts.items()}
        for key, state in states.items():
            state.write(PLACED, placed[key])
        last = {key: place for place, key in enumerate(self._likeness)}
        sandbox = Sandbox(self._nodes.pick(at))
        position = np.zeros(len(self._nodes), np.int64)
        position[at] = np.arange(len(at))
        for place, member in enumerate(self._members):
            key = self._likeness[place]
            at = self._admitted(self._attempts[key], at)
            if not len(at):
                return
            nodes = sandbox.nodes.pick(position[at])
            at = self._kept(at, self._filter(states[key], member, nodes))
            self._numbers[at] = place + 1
            if place + 1 == len(self._members):
                return
            following = [
                (self._members[end], states[other])
                for other, end in last.items()
                if end > place and self._attempts[other].outcome.status.is_success
            ]
            for index in position[at].tolist():
                sandbox.put(index, member)
                node = NodeInfo(sandbox.nodes, index)
                for on_nodes in placed.values():
                    on_nodes[node.name] = [*on_nodes.get(node.name, ()), member]
                for pod, state in following:
                    self._framework.add_pod(state, pod, member, node)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """The attempt of members that are alike; `tracks` if a plugin tracks pods in its state.

    `placed` are the pods of a what-if, by node name.
    """

    state: CycleState
    outcome: PreFilterOutcome
    tracks: bool
    placed: Mapping[str, Sequence[Pod]]
