"""The nodes as the members of a job find them, one after the other: only what changed is evaluated again.

All nodes are filtered and scored for the first member of a kind. Then each placed pod changes little, and
plugins say what (`SignPlugin`): for most of them only the node that it was placed on, for some nothing. Their
results are kept, in an array by row for each plugin that normalizes scores and one for all others, and those
of changed nodes are replaced; what they will be is computed together for the nodes that may be chosen next.
Plugins whose answers depend on other nodes' pods (spread constraints, affinity between pods) run again for
each member that they concern, on all nodes but alone. Members that differ only in their requests share what
does not depend on these.

The nodes chosen are exactly those of whole cycles. Where this cannot be known, the caller runs one.
"""

from collections import OrderedDict
from collections.abc import Hashable, Mapping, Set
from dataclasses import dataclass, field
from random import Random
from typing import TypeVar

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import PODS, Bool, Int64
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.plugin_call import Broken
from koordpy.scheduling.framework.signature import Kind
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.plan import PLAN

MOST_KINDS = 16
"""Kinds of members whose results are kept; with 5,000 nodes each takes half a megabyte while planning."""

MOST_AHEAD = 1024
"""Nodes that are evaluated with one more pod at once."""

T = TypeVar("T")


class _Results:
    """What some plugins say of the nodes, by row: all arrays are (capacity,)."""

    def __init__(self, capacity: int) -> None:
        self.fits: Bool = np.zeros(capacity, np.bool_)
        self.total: Int64 = np.zeros(capacity, np.int64)
        """The weighted scores of the plugins that do not normalize them."""
        self.raw: dict[str, Int64] = {}
        """The scores of each of the others, before that."""

    def put(self, rows: Int64, total: Int64, raw: Mapping[str, Int64]) -> None:
        """Replace the scores of rows (k,)."""
        self.total[rows] = total
        for name, scores in raw.items():
            if name not in self.raw:
                self.raw[name] = np.zeros(len(self.fits), np.int64)
            self.raw[name][rows] = scores


@dataclass(slots=True)
class _Base:
    """The answers of plugins that placed pods do not change."""

    state: CycleState
    results: _Results


@dataclass(slots=True)
class _Members:
    """The answers for members of one kind, up to date with the table as of `seen`."""

    state: CycleState
    base: _Base
    results: _Results
    seen: int
    nominations: Set[tuple[str, str]]
    """Those that counted, of the last member."""
    rows: Int64 | None = None
    """The rows that fit, None if they are to be found again."""
    normalized: dict[str, Int64] = field(default_factory=dict)
    """Of these rows: normalized scores of plugins whose answers do not change."""
    chosen: int = -1
    """The row that the last member was given, when it had `pods_there` pods."""
    pods_there: int = 0
    last: str = ""
    """The UID of the last member."""
    ahead: _Results | None = None
    """What the answers will be for rows with one such pod more, where it is `known_ahead`."""
    known_ahead: set[int] = field(default_factory=set)


class Evaluations:
    """The results for the members of one job while it is planned; nothing else happens meanwhile."""

    def __init__(self, table: NodeTable, rng: Random, members: int) -> None:
        """`members` is how many there may be."""
        self._table, self._rng = table, rng
        self._most_ahead = min(members, MOST_AHEAD)
        self._everywhere = NodeSet.of_rows(table, table.all().rows)
        self.are_none = False
        """Whether the last member fits on no node."""
        self._bases: OrderedDict[Hashable, _Base] = OrderedDict()
        self._members: OrderedDict[Hashable, _Members] = OrderedDict()

    def best(self, whole: Framework, pod: Pod) -> tuple[CycleState, str] | None:
        """Return a state and the best node for a member; None if only a whole cycle can find it, or none.

        `are_none` says whether it would find none.
        """
        self.are_none = False
        if whole.replaces_before_score:
            return None
        kind = whole.signer.kind_of_member(pod)
        if kind is None or (kind.separable and whole.handle.nominator):
            return None
        try:
            return self._best(whole, pod, kind)
        except Broken:
            return None

    def _best(self, whole: Framework, pod: Pod, kind: Kind) -> tuple[CycleState, str] | None:
        members = self._current(whole, pod, kind)
        if members is None:
            return None
        state = members.state.clone()
        if not whole.pre_filter_again(state, pod, self._everywhere, kind.separable):
            return None
        if members.rows is None:
            members.rows = np.flatnonzero(members.results.fits & members.base.results.fits)
            members.normalized.clear()
        nodes, are_all = self._set(members.rows), True
        if kind.separable and len(nodes):
            fits = _filter(whole, state, pod, nodes, kind, kind.separable)
            if not fits.all():
                nodes, are_all = self._set(nodes.rows[fits]), False
        if not len(nodes):
            self.are_none = True
            return None
        best = 0
        if len(nodes) > 1 and whole.scores:
            total = self._scores(whole, state, pod, kind, members, nodes, are_all=are_all)
            equal = np.flatnonzero(total == total.max())
            best = int(equal[self._rng.randrange(len(equal))])
        row = members.chosen = int(nodes.rows[best])
        members.last = pod.metadata.uid
        members.pods_there = int(self._table.requested[row, PODS])
        return state, self._table.name_of(row)

    @staticmethod
    def _scores(
        whole: Framework,
        state: CycleState,
        pod: Pod,
        kind: Kind,
        members: _Members,
        nodes: NodeSet,
        *,
        are_all: bool,
    ) -> Int64:
        """(n,) the scores of nodes, which are the rows of the members or some of these."""
        base, results, rows = members.base.results, members.results, nodes.rows
        total = base.total[rows] + results.total[rows]
        for name, raw in base.raw.items():
            known = members.normalized.get(name) if are_all else None
            if known is None:
                known = whole.weighted_scores(state, pod, name, raw[rows])
                if are_all:
                    members.normalized[name] = known
            total += known
        for name, raw in results.raw.items():
            total += whole.weighted_scores(state, pod, name, raw[rows])
        if kind.separable:
            for name, raw in whole.raw_scores(state, pod, nodes, kind.separable).items():
                total += whole.weighted_scores(state, pod, name, raw)
        return total

    def _set(self, rows: Int64) -> NodeSet:
        return self._everywhere if len(rows) == len(self._everywhere) else NodeSet.of_rows(self._table, rows)

    # --- what is kept ----------------------------------------------------------------------------

    def _current(self, whole: Framework, pod: Pod, kind: Kind) -> _Members | None:
        """Return the results for a kind of members; None if PreFilter refuses the pod."""
        seen, nominations = self._table.moment[1], whole.handle.nominator.nominations_against(pod)
        members = self._members.get(kind.key)
        if members is None:
            base = self._bases.get(kind.base)
            if base is None:
                base = self._new_base(whole, pod, kind)
                if base is None:
                    return None
                _keep(self._bases, kind.base, base)
                state = base.state
            else:
                state = base.state.clone()
                if not whole.pre_filter_again(state, pod, self._everywhere, kind.local):
                    return None
            results = _Results(self._table.capacity)
            members = _Members(state, base, results, seen, nominations)
            self._evaluate(whole, pod, kind, members, np.flatnonzero(base.results.fits))
        else:
            changed = self._table.pods_generation > members.seen
            for _, name in nominations ^ members.nominations:
                row = self._table.row_of(name)
                if row is not None:
                    changed[row] = True
            rows = np.flatnonzero(changed & members.base.results.fits)
            if len(rows) and not (self._got_the_last_one(members, rows) and self._was_foreseen(members)):
                self._evaluate(whole, pod, kind, members, rows)
                if members.ahead is None and not nominations and self._got_the_last_one(members, rows):
                    self._look_ahead(whole, pod, kind, members)
            members.seen, members.nominations = seen, nominations
        _keep(self._members, kind.key, members)
        return members

    def _new_base(self, whole: Framework, pod: Pod, kind: Kind) -> _Base | None:
        state = CycleState()
        nodes = self._everywhere
        outcome = whole.run_pre_filter(state, pod, nodes)
        if not outcome.status.is_success or state.read(PLAN) is not None:
            return None
        if outcome.node_names is not None:
            nodes = nodes.subset(
                np.fromiter((name in outcome.node_names for name in nodes.names), np.bool_, len(nodes))
            )
        results = _Results(self._table.capacity)
        fits = _filter(whole, state, pod, nodes, kind, kind.fixed)
        results.fits[nodes.rows] = fits
        _score(whole, state, pod, self._set(nodes.rows[fits]), kind.fixed, results)
        return _Base(state, results)

    def _evaluate(self, whole: Framework, pod: Pod, kind: Kind, members: _Members, rows: Int64) -> None:
        """Ask the plugins in `kind.local` about rows (k,)."""
        state, results = members.state, members.results
        fits = _filter(whole, state, pod, self._set(rows), kind, kind.local)
        if (results.fits[rows] != fits).any():
            members.rows = None
        results.fits[rows] = fits
        _score(whole, state, pod, self._set(rows[fits]), kind.local, results)

    # --- looking ahead ---------------------------------------------------------------------------

    def _got_the_last_one(self, members: _Members, rows: Int64) -> bool:
        """Return whether rows changed by nothing but the last member, which is of the same kind."""
        row, table = members.chosen, self._table
        if len(rows) != 1 or rows[0] != row or table.placed_on(members.last) != table.name_of(row):
            return False
        return bool(table.requested[row, PODS] == members.pods_there + 1)

    @staticmethod
    def _was_foreseen(members: _Members) -> bool:
        """Take over what was computed for the row of the last member, if it was."""
        row, ahead, results = members.chosen, members.ahead, members.results
        if ahead is None or row not in members.known_ahead:
            return False
        members.known_ahead.discard(row)
        if results.fits[row] != ahead.fits[row]:
            members.rows = None
        results.fits[row] = ahead.fits[row]
        results.total[row] = ahead.total[row]
        for name in results.raw.keys() | ahead.raw.keys():
            here = np.array([row])
            scores = ahead.raw[name][here] if name in ahead.raw else np.zeros(1, np.int64)
            results.put(here, results.total[here], {name: scores})
        return True

    def _look_ahead(self, whole: Framework, pod: Pod, kind: Kind, members: _Members) -> None:
        """Evaluate at once the nodes that the next members may get, each with one of them on it."""
        members.ahead = _Results(self._table.capacity)
        base, results = members.base.results, members.results
        rows = np.flatnonzero(results.fits & base.fits)
        worth = base.total[rows] + results.total[rows]
        if len(rows) > self._most_ahead:
            rows = rows[np.argpartition(-worth, self._most_ahead)[: self._most_ahead]]
        rows = rows[rows != members.chosen]
        if not len(rows):
            return
        nodes = NodeSet.of_rows(self._table, rows)
        more = {name: [pod] for name in nodes.names}
        state = members.state.clone()
        state.write(PLACED, more)
        nodes = nodes.with_pods(more)
        fits = _filter(whole, state, pod, nodes, kind, kind.local)
        members.ahead.fits[rows] = fits
        _score(whole, state, pod, nodes.subset(fits), kind.local, members.ahead)
        members.known_ahead = set(rows.tolist())


def _keep(values: OrderedDict[Hashable, T], key: Hashable, value: T) -> None:
    values[key] = value
    values.move_to_end(key)
    if len(values) > MOST_KINDS:
        values.popitem(last=False)


def _filter(
    whole: Framework, state: CycleState, pod: Pod, nodes: NodeSet, kind: Kind, names: Set[str]
) -> Bool:
    """(n,) whether some of the plugins let a pod pass. Raises Broken."""
    skipped = state.skip_filter
    state.skip_filter = skipped | ((kind.fixed | kind.local | kind.separable) - names)
    try:
        outcome = whole.run_filters(state, pod, nodes)
    finally:
        state.skip_filter = skipped
    if outcome.error is not None:
        raise Broken(outcome.error)
    return outcome.feasible


def _score(
    whole: Framework, state: CycleState, pod: Pod, nodes: NodeSet, names: Set[str], results: _Results
) -> None:
    """Keep what some of the plugins score nodes with. Raises Broken."""
    if not len(nodes):
        return
    total = np.zeros(len(nodes), np.int64)
    raw: dict[str, Int64] = {}
    for name, scores in whole.raw_scores(state, pod, nodes, names).items():
        if whole.is_normalizing(name):
            raw[name] = scores
        else:
            total += whole.weighted_scores(state, pod, name, scores)
    results.put(nodes.rows, total, raw)
