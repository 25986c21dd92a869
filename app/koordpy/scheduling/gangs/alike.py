"""Nodes for pods that are identical to one placed just before: the members of a gang usually are.

All nodes are filtered and scored once. After that only the nodes that were given a pod differ, so for each
further pod the best node is known at once. What a node is worth with one such pod on it is computed for all
nodes that may need it together; a node that is given a second one is evaluated again alone.

Pods are identical if every plugin signs them equally (`SignPlugin`), as for the batches of single pods
(`koordpy.scheduling.cycle.rankings`); the plugin that knows the job does so by `PlansJobs.sign_member`.
Reserve validates each pod all the same.
"""

from collections.abc import Hashable

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.outcome import Scores

MOST_AHEAD = 1024
"""Nodes that are evaluated with one more pod at once."""

_NONE = -1
"""The worth of a node on which the pod does not fit."""


class Alike:
    """The ranking of nodes for pods of one job with the same signature; `pods` is how many there may be."""

    def __init__(self, pods: int) -> None:
        self._ahead = min(pods, MOST_AHEAD)
        self._signature: Hashable | None = None

    def found(self, whole: Framework, pod: Pod, state: CycleState, scores: Scores, best: int) -> None:
        """Remember the results of a whole cycle for a pod that goes to the node at index `best`."""
        self._signature = None
        if whole.handle.nominator or whole.are_relative(scores):
            return
        self._signature = whole.signer.sign_member(pod)
        if self._signature is None:
            return
        self._state = state.clone()
        rows = scores.nodes.rows
        self._capacity = scores.nodes.table.capacity
        self._worth = np.full(self._capacity, _NONE, np.int64)
        self._worth[rows] = scores.total
        self._after: Int64 | None = None
        self._stale: set[int] = set()
        self._scores = scores
        self._take(int(rows[best]), pod, whole)

    def next(self, whole: Framework, pod: Pod, table: NodeTable) -> tuple[CycleState, str] | None:
        """Return a state and the best node for another pod; None if all nodes must be evaluated for it."""
        if self._signature is None or table.capacity != self._capacity:
            return None
        if whole.signer.sign_member(pod) != self._signature:
            return None
        self._evaluate_stale(whole, pod, table)
        row = int(self._worth.argmax())
        if self._worth[row] == _NONE:
            return None
        state = self._state.clone()
        if not whole.pre_filter_each(state, pod, table.all()).is_success:
            return None
        self._take(row, pod, whole)
        return state, table.name_of(row)

    def _take(self, row: int, pod: Pod, whole: Framework) -> None:
        """Set what a node is worth once the pod is on it."""
        if self._after is None:
            self._after = self._worth_after(pod, whole)
        self._worth[row] = after = int(self._after[row])
        self._after[row] = -2
        if after == -2:
            self._worth[row] = _NONE
            self._stale.add(row)

    def _worth_after(self, pod: Pod, whole: Framework) -> Int64:
        """(capacity,) what the best nodes are worth with one such pod on them; -2 where it is not known."""
        known = np.full(self._capacity, -2, np.int64)
        # Of equally good nodes `next` takes the first, so these must be the first ones too.
        at = np.argsort(-self._scores.total, kind="stable")[: self._ahead]
        nodes = self._scores.nodes.pick(at)
        more = {name: [pod] for name in nodes.names}
        imagined = self._state.clone()
        imagined.write(PLACED, more)
        full = nodes.with_pods(more)
        outcome = whole.run_filters(imagined, pod, full)
        if outcome.error is not None:
            return known
        before, _ = whole.run_score(self._state.clone(), pod, nodes)
        after, _ = whole.run_score(imagined, pod, full)
        if before is None or after is None or whole.are_relative(before) or whole.are_relative(after):
            return known
        worth = self._worth[nodes.rows] + after.total - before.total
        worth[~outcome.feasible] = _NONE
        known[nodes.rows] = np.maximum(worth, _NONE)
        return known

    def _evaluate_stale(self, whole: Framework, pod: Pod, table: NodeTable) -> None:
        """Evaluate the nodes again that were given more pods than was computed ahead.

        Scores compare only among the same nodes, so each set has a node whose worth is known.
        """
        if not self._stale:
            return
        reference = int(self._worth.argmax())
        rows = np.array([*sorted(self._stale), reference], np.int64)
        nodes = NodeSet(table, [table.name_of(row) for row in rows.tolist()], rows)
        state = self._state.clone()
        outcome = whole.run_filters(state, pod, nodes)
        scores = None if outcome.error is not None else whole.run_score(state, pod, nodes)[0]
        if scores is None or whole.are_relative(scores) or self._worth[reference] == _NONE:
            return  # they stay without worth: a whole cycle finds them when nothing else is left
        worth = self._worth[reference] + scores.total - scores.total[-1]
        worth[~outcome.feasible] = _NONE
        self._worth[rows[:-1]] = np.maximum(worth[:-1], _NONE)
        self._stale.clear()
