"""Filter, nomination and score of pods.

Nodes without anything for the pod are not looked at. Of the others those where the pod fits, and what their
reservations score, come out of arrays; nodes that refuse the pod are judged one by one for the reasons, those
with equal reasons together. Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go`, `scoring.go`.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.api.reservation import ALIGNED
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.reservation_points import ReservationPoints
from koordpy.scheduling.interface.status import PASS, SUCCESS, Status, Verdict

from . import fitting, scoring
from .ballot import Ballot
from .book import NO_ORDER, Bool, Int64
from .fitting import Fitting
from .judge import NO_MATCH, Judge
from .matches import NodeMatch
from .nominator import Nominator
from .others import Others
from .overlay import Shower
from .prepared import Prepared
from .withheld import Withheld

POLICY_CONFLICT = "node(s) reservation allocate policy conflict"
USED_UP = "reservation has allocateOnce enabled and has already been allocated"
MISSING_NODE = "missing node"

Score = Callable[[CycleState, Pod, ReservationInfo, str], int]
"""Scores a pod in a reservation on a node."""


class Pods:
    """The points of pods, for one profile's `plugin`.

    `points` gives the plugins that have a say about reservations, `skips_node` the gate
    SkipReservationFitsNode.
    """

    def __init__(
        self,
        plugin: Plugin,
        withheld: Withheld,
        shower: Shower,
        judge: Judge,
        nominator: Nominator,
        points: Callable[[], ReservationPoints],
        score: Score,
        skips_node: Callable[[], bool],
    ) -> None:
        self._plugin, self._table = plugin, plugin.handle.nodes
        self._withheld, self._shower, self._judge = withheld, shower, judge
        self._nominator, self._points = nominator, points
        self._score, self._skips_node = score, skips_node

    # --- filter ----------------------------------------------------------------------------------

    def filter(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Verdict:
        """Judge nodes, which are shown to the attempt."""
        count = len(nodes)
        answers = _Answers(count)
        rows = nodes.rows
        matched = np.zeros(count, np.bool_)
        if prepared.matches:
            matched = prepared.matches.mask(self._table.capacity)[rows]
        if prepared.wish.affinity is not None:
            answers.put(~matched, Status.unresolvable(NO_MATCH))
        else:
            for row in prepared.preemptible.rows(self._table):
                for index in np.flatnonzero((rows == row) & ~matched).tolist():
                    answers.set(index, self._judge.without_reservation(prepared, NodeInfo(nodes, index)))
        if matched.any() and not prepared.wish.ignores_reservations:
            self._filter_matched(state, prepared, pod, nodes, answers)
        if annotations.is_operating(pod.metadata):
            answers.put(self._withheld.conflicting(rows, ALIGNED), Status.unresolvable(POLICY_CONFLICT))
        return answers.verdict()

    def _filter_matched(
        self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet, answers: "_Answers"
    ) -> None:
        fit = self._fit(prepared, nodes, nominating=False)
        points = self._points().without(self._plugin)
        ask = partial(points.filter, state) if points.filters else None
        others = Others(ask, partial(_pairs, prepared, pod, nodes, fit))
        unsure = fit.any_of_node(fit.unsure)
        open_ = ~(fit.any_of_node(others.agree(fit.passes)) & ~unsure)
        others.hear(np.repeat(open_, fit.sizes))
        alone = fit.sizes == 1
        alike = open_ & alone & ~unsure & (not prepared.wish.name)
        at = fit.at[fit.first]
        for index in at[open_ & ~alike].tolist():
            answers.set(index, self._judge_node(prepared, pod, NodeInfo(nodes, index), others))
        kinds = np.flatnonzero(alike)
        if not len(kinds):
            return
        firsts = fit.first[kinds]
        signatures = np.packbits(fit.signature[firsts], axis=1)
        signatures = np.column_stack((signatures, others.marks(firsts)))
        _, firsts, groups = np.unique(signatures, axis=0, return_index=True, return_inverse=True)
        for group, first in enumerate(firsts.tolist()):
            status = self._judge_node(prepared, pod, NodeInfo(nodes, int(at[kinds[first]])), others)
            answers.put_at(at[kinds[groups.reshape(-1) == group]], status)

    def _fit(self, prepared: Prepared, nodes: NodeSet, *, nominating: bool) -> Fitting:
        skips = self._skips_node()
        return fitting.fit(
            prepared,
            nodes,
            self._withheld.book,
            self._judge.ignores,
            skips_node_alone=skips,
            skips_node=skips and nominating,
        )

    def _judge_node(self, prepared: Prepared, pod: Pod, node: NodeInfo, others: Others) -> Status:
        match = prepared.matches[node.row]
        return self._judge_match(
            prepared,
            node,
            match,
            match.matched,
            lambda info: others.status(node.index, pod, info),
            required=prepared.required,
        )

    def _judge_match(
        self,
        prepared: Prepared,
        node: NodeInfo,
        match: NodeMatch,
        infos: Sequence[ReservationInfo],
        others: Callable[[ReservationInfo], Status],
        *,
        required: bool,
    ) -> Status:
        return self._judge.with_reservations(
            prepared,
            match,
            node,
            infos,
            others,
            required=required,
            skip_node=len(infos) <= 1 and self._skips_node(),
        )

    def judge_alone(self, prepared: Prepared, info: ReservationInfo, node_name: str) -> Status:
        """Return whether the pod fits into one reservation, as if it had to be this one."""
        row = self._table.row_of(node_name)
        if info.is_used_up:
            return Status.unschedulable(USED_UP)
        if row is None or self._table.node(row) is None:
            return Status.unschedulable(MISSING_NODE)
        node = NodeInfo(self._shower.show(prepared, self._table.select([node_name])[0]), 0)
        match = prepared.matches.get(row) or NodeMatch(node_name)
        return self._judge_match(prepared, node, match, (info,), lambda _: SUCCESS, required=True)

    # --- nominate --------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Status:
        """Choose a reservation on every node that has one for the pod."""
        if not prepared.has_nodes:
            return Status.skip()
        if not prepared.matches:
            prepared.ballot = Ballot()
            return SUCCESS
        nodes = self._shower.show(prepared, nodes)
        fit = self._fit(prepared, nodes, nominating=True)
        book, at = self._withheld.book, fit.at
        scores = fitting.scores(prepared, book, fit.slots, self._table)
        slow = fit.any_of_node(fit.unsure) | self._nominator.knows(pod)
        able = fit.passes & ~book.used_up[fit.slots]
        settled = np.repeat((fit.sizes == 1) & (prepared.wish.affinity is not None), fit.sizes)
        asking = ~np.repeat(slow, fit.sizes)
        points = self._points().without(self._plugin)
        ask = partial(points.filter_nominate, state) if points.filters else None
        pairs = partial(_pairs, prepared, pod, nodes, fit)
        able = settled | Others(ask, pairs).agree(able & asking & ~settled)
        place = book.order[fit.slots]
        totals = scores
        if points.scores:
            contested = np.bincount(fit.group[able], minlength=len(fit.first)) > 1
            contested &= ~fit.any_of_node(able & (place != NO_ORDER)) & ~slow
            asked = np.flatnonzero(able & np.repeat(contested, fit.sizes))
            more, status = points.score(state, pod, pairs().pick(asked))
            if not status.is_success:
                return status
            totals = scores.copy()
            totals[asked] += sum(more.values())
        worth = np.where(place == NO_ORDER, -totals, 0)
        best = np.lexsort((np.arange(len(at)), worth, place, ~able, fit.group))[fit.first]
        chosen = np.where(able[best], best, -1)
        for group in np.flatnonzero(slow).tolist():
            first = int(fit.first[group])
            index = int(at[first])
            info, status = self._nominator.for_pod(
                state, prepared, pod, int(nodes.rows[index]), nodes.names[index]
            )
            if not status.is_success:
                return status
            chosen[group] = self._position(fit, first, info)
            if chosen[group] >= 0 and info is not None:
                scores[chosen[group]] = self._score(state, pod, info, nodes.names[index])
        prepared.ballot = self._ballot(prepared, nodes, fit, chosen[chosen >= 0], scores)
        return SUCCESS

    def _position(self, fit: Fitting, first: int, info: ReservationInfo | None) -> int:
        """Return where among the matched reservations of a node one is, -1 if it is none of them."""
        slot = None if info is None else self._withheld.book.slot_of(info.uid)
        if slot is None:
            return -1
        found = np.flatnonzero(fit.slots[first:] == slot)
        return first + int(found[0]) if len(found) else -1

    def _ballot(
        self, prepared: Prepared, nodes: NodeSet, fit: Fitting, chosen: Int64, scores: Int64
    ) -> Ballot:
        """Put down what was chosen; a pod that acts as a reservation is used, but gives no score."""
        book = self._withheld.book
        place = book.order[fit.slots]
        preferred: int | None = None
        if len(place) and int(place.min()) != NO_ORDER:
            first = int(np.lexsort((fit.at, place))[0])
            preferred = int(nodes.rows[fit.at[first]])
        chosen = chosen[~book.operating[fit.slots[chosen]]]
        rows = nodes.rows[fit.at[chosen]]
        order = np.argsort(rows)
        infos = [prepared.matches.infos[index] for index in fit.chosen[chosen[order]].tolist()]
        return Ballot(rows[order], infos, scores[chosen[order]], preferred)

    # --- score -----------------------------------------------------------------------------------

    def score(self, prepared: Prepared, nodes: NodeSet) -> Int64:
        """Rank nodes by the reservation chosen there; one that goes before all others wins."""
        ballot = prepared.ballot
        by_row = np.zeros(self._table.capacity, np.int64)
        by_row[ballot.rows] = ballot.scores
        if ballot.preferred is not None:
            by_row[ballot.preferred] = scoring.PREFERRED
        scores: Int64 = by_row[nodes.rows]
        return scores


def _pairs(prepared: Prepared, pod: Pod, nodes: NodeSet, fit: Fitting) -> ReservationPairs:
    """Return the pod with all matched reservations on the nodes of a set."""
    infos, imagined = prepared.matches.infos, prepared.matches.imagined
    found = [infos[index] for index in fit.chosen.tolist()]
    if imagined:
        rows = nodes.rows[fit.at].tolist()
        found = [imagined.of(row, info) for row, info in zip(rows, found, strict=True)]
    return ReservationPairs(nodes, fit.at, [pod] * len(found), found)


class _Answers:
    """A verdict in the making; what is said later about a node counts."""

    def __init__(self, count: int) -> None:
        self._codes = np.zeros(count, np.int8)
        self._keys = np.zeros(count, np.int64)
        self._table: dict[tuple[str, ...], int] = {}

    def set(self, index: int, status: Status) -> None:
        """Answer about one node."""
        self._codes[index] = status.code
        self._keys[index] = self._table.setdefault(status.reasons, len(self._table))

    def put(self, which: Bool, status: Status) -> None:
        """Answer alike about the nodes where `which` (n,) is true."""
        self.put_at(np.flatnonzero(which), status)

    def put_at(self, indexes: Int64, status: Status) -> None:
        """Answer alike about the nodes at some indexes."""
        if len(indexes):
            self._codes[indexes] = status.code
            self._keys[indexes] = self._table.setdefault(status.reasons, len(self._table))

    def verdict(self) -> Verdict:
        """Return the verdict."""
        return Verdict.keyed(self._codes, self._keys, list(self._table)) if self._codes.any() else PASS
