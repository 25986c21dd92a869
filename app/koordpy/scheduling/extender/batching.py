"""One pass over the nodes for many identical pods.

The pods of a job come one after another, and the results computed for the first hold for the next: only nodes
that received a pod since, or changed otherwise, differ. So all nodes are filtered and scored once, the
results are used for at most half a second, and each pod gets the best node that has not changed. A node that
has changed is skipped, as kube-scheduler skips most nodes once it has found a few hundred; but if it may well
be the best one, all nodes are evaluated again.

Pods are the same if every plugin signs them equally (`SignPlugin`). Binds verify results that come from
another pod like the pod's own: if the node has changed by then, all filters run again.

Source: Kubernetes, OpportunisticBatching (KEP-5598). There a sorted list of nodes serves one pod per node,
and only if each pod fills its node.
"""

import logging
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.lib.deep_size import deep_size
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import BATCH_ATTEMPTS, counter
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, Scores
from koordpy.scheduling.interface.plan import PLAN
from koordpy.scheduling.profiles.profiles import Profiles

from .candidates import Candidates
from .node_choice import Chooser

log = logging.getLogger(__name__)

SECONDS = 0.5
"""How long results are valid; as in kube-scheduler."""

TRIED = 8
"""The number of best nodes that are also scored with one more such pod."""

LOOKED_FOR = 16
"""The number of best nodes that are looked up among the candidates, before all candidates are scanned."""

LEFT_ALONE = 32
"""Pods that are evaluated one by one after a ranking that did not pay off."""

WORKLOADS = 64
"""Signatures that are remembered; with 5,000 nodes each may hold a megabyte for a moment."""

SIGNATURE_BYTES = 4 << 20
"""The budget of the signatures, which have what tenants write."""


class Ranking:
    """The scores of all nodes for pods of one signature.

    `order` are the rows of those that fit, best last. `worth_after` has, by row, the scores of some of the
    best with one more such pod on them.
    """

    def __init__(
        self,
        pod_key: str,
        state: CycleState,
        outcome: FilterOutcome,
        scores: Scores,
        order: list[int],
        worth_after: Mapping[int, int],
    ) -> None:
        self.pod_key = pod_key
        """The pod for which the nodes were evaluated."""
        self.state, self.outcome, self.scores = state, outcome, scores
        table, rows = scores.nodes.table, scores.nodes.rows
        self.moment, self.hidden_version = table.moment, table.hidden.version
        self._order = order
        self._worth = np.full(table.capacity, -1, np.int64)
        self._worth[rows] = scores.total
        self._taken = np.zeros(table.capacity, np.bool_)
        # A pod sometimes makes a node slightly better, by balancing its free resources.
        gain = max((after - int(self._worth[row]) for row, after in worth_after.items()), default=0)
        self._gain = max(gain, 0)
        self._bound = self._worth.copy()
        self._bound[rows] += self._gain
        self._worth_after = worth_after

    def best(self, candidates: Candidates, table: NodeTable, promised: list[int]) -> int | None:
        """Return the row of the best candidate; None if that requires a new pass.

        `promised` are rows of nodes that have been named for other pods since.
        """
        if table.capacity != len(self._worth):
            return None
        changed = table.generation > self.moment[0]
        changed |= table.pods_generation > self.moment[1]
        changed |= ~table.present  # the generations of a freed row start over
        lost = changed | self._taken
        lost[promised] = True
        row = self._first(candidates, table, changed, lost)
        if row is None:
            return None
        rivals = np.flatnonzero(lost & table.present & (self._bound > self._worth[row])).tolist()
        if any(candidates.include(table.name_of(rival)) for rival in rivals):
            return None
        return row

    def _first(self, candidates: Candidates, table: NodeTable, changed: Bool, lost: Bool) -> int | None:
        """Return the first candidate in order that is not lost. Usually it is one of the first few."""
        order = self._order
        while order and changed[order[-1]]:  # permanently, while allocations may be released
            order.pop()
        looked_for = 0
        for row in reversed(order):
            if lost[row]:
                continue
            if candidates.include(table.name_of(row)):
                return row
            looked_for += 1
            if looked_for == LOOKED_FOR:
                break
        else:
            return None
        rows = candidates.selected[0].rows
        worth = self._worth[rows]
        worth[lost[rows]] = -1
        best = int(worth.argmax()) if len(worth) else 0
        return int(rows[best]) if len(worth) and worth[best] >= 0 else None

    def take(self, row: int) -> None:
        """Record that a node was chosen for a pod, which counts on it from now on."""
        self._taken[row] = True
        self._bound[row] = self._worth_after.get(row, self._bound[row])

    def give_back(self, row: int) -> None:
        """Record that the pod for which a node was chosen is not going there: it is retried, or gone."""
        self._taken[row] = False
        self._bound[row] = self._worth[row] + self._gain


@dataclass(slots=True)
class _Workload:
    """The pods of one signature; the first one is evaluated alone, since there may be no second."""

    ranking: Ranking | None = None
    found_at: float = 0.0
    promises: int = 0
    served: int | None = None
    """Pods that the latest pass has served so far; None once the pass has been rated."""
    left_alone: int = 1


class Batches:
    """Finds nodes for pods identical to earlier ones, where koordpy chooses the node."""

    def __init__(self, profiles: Profiles, chooser: Chooser, handle: Handle) -> None:
        self._profiles, self._chooser = profiles, chooser
        self._nodes, self._nominator = handle.nodes, handle.nominator
        self._clock, self._rng = handle.clock, handle.rng
        self._workloads: BoundedLru[Hashable, _Workload]
        self._workloads = BoundedLru("workloads", SIGNATURE_BYTES, max_entries=WORKLOADS)
        for name in profiles.frameworks:
            whole = profiles.whole_of(name)
            if whole is not None and whole.signer.silent:
                log.info(
                    "profile %s: every pod is evaluated alone, because these plugins do not sign pods: %s",
                    name,
                    ", ".join(whole.signer.silent),
                )

    def find(self, pod: Pod, candidates: Candidates) -> tuple[Ranking, int] | None:
        """Return the ranking and the row of the best candidate; None to evaluate the candidates.

        Nominated pods count on their nodes by rules that a ranking does not cover.
        """
        if self._nominator or not candidates.are_several:
            return None
        whole = self._profiles.whole_of(pod.spec.scheduler_name)
        if whole is None or not self._chooser.can_choose(whole, pod):
            return None
        signature = whole.signer.sign(pod)
        if signature is None:
            return None
        workload = self._workload(signature)
        if workload.ranking is not None:
            state = workload.ranking.state.clone()
            if not whole.pre_filter_each(state, pod, self._nodes.all()).is_success:
                return None
        found = self._best(workload, candidates)
        if found is None and self._is_worthwhile(workload, candidates):
            self._forget_old()
            workload.ranking = self._look(pod, whole)
            workload.found_at, workload.promises = self._clock.monotonic(), self._chooser.promises
            if workload.ranking is None:
                workload.left_alone = LEFT_ALONE
            else:
                workload.served = 0
            found = self._best(workload, candidates)
        counter(BATCH_ATTEMPTS, whole.profile_name, "hint_not_used" if found is None else "hint_used").inc()
        if found is None:
            return None
        ranking, row = found
        ranking.take(row)
        workload.served = (workload.served or 0) + 1
        self._chooser.promise(pod, self._nodes.name_of(row), partial(ranking.give_back, row))
        return found

    def _workload(self, signature: Hashable) -> _Workload:
        workload = self._workloads.get(signature)
        if workload is None:
            workload = _Workload()
            self._workloads.put(signature, workload, 500 + deep_size(signature, self._workloads.largest))
        return workload

    def _forget_old(self) -> None:
        """Drop rankings that are too old to be used, because they are large."""
        latest = self._clock.monotonic() - SECONDS
        for workload in self._workloads:
            if workload.found_at < latest:
                workload.ranking = None

    def _best(self, workload: _Workload, candidates: Candidates) -> tuple[Ranking, int] | None:
        ranking = workload.ranking
        if ranking is None or self._clock.monotonic() - workload.found_at > SECONDS:
            return None
        names = self._chooser.promised_since(workload.promises)
        rows = [row for name in names if (row := self._nodes.row_of(name)) is not None]
        row = ranking.best(candidates, self._nodes, rows)
        return None if row is None else (ranking, row)

    def _is_worthwhile(self, workload: _Workload, candidates: Candidates) -> bool:
        """Return whether to evaluate all nodes, not only candidates: not if that just did not pay off."""
        served, workload.served = workload.served, None
        if served is not None and served * len(candidates.names) < len(self._nodes):
            workload.left_alone = LEFT_ALONE
        workload.ranking = None
        if workload.left_alone:
            workload.left_alone -= 1
            return False
        return True

    def _look(self, pod: Pod, whole: Framework) -> Ranking | None:
        """Evaluate all nodes for a pod; None if one ranking cannot serve several pods.

        That is the case if the pod fits nowhere or was planned together with others, a plugin fails, or
        scores depend on which nodes are candidates; and if pods are packed: a node gets better with each of
        them, and the changed one is the best.
        """
        state = whole.new_state()
        outcome = whole.find_feasible(state, pod, self._nodes.all())
        if outcome.error is not None or not outcome.feasible.any() or state.read(PLAN) is not None:
            return None
        kept = outcome.kept
        scores = self._chooser.score(whole, state, pod, kept)
        if scores is None or whole.are_relative(scores):
            return None
        at = np.array(scores.top(TRIED), np.int64)
        gains = self._gains(pod, whole, state, kept.pick(at))
        if gains is None or gains.sum() > 0:
            return None
        worth_after = dict(zip(kept.rows[at].tolist(), (scores.total[at] + gains).tolist(), strict=True))
        return Ranking(pod.metadata.key, state, outcome, scores, self._in_order(scores), worth_after)

    def _in_order(self, scores: Scores) -> list[int]:
        """Return the rows of the nodes, best last; those of equal worth in any order."""
        chance = np.random.default_rng(self._rng.getrandbits(32)).random(len(scores.total))
        rows: list[int] = scores.nodes.rows[np.lexsort((chance, scores.total))].tolist()
        return rows

    def _gains(self, pod: Pod, whole: Framework, state: CycleState, nodes: NodeSet) -> Int64 | None:
        """(n,) how much the scores of nodes rise with such a pod on them.

        A score may depend on the other nodes, so both are scored among the same nodes.
        """
        more = {name: [pod] for name in nodes.names}
        imagined = state.clone()
        imagined.write(PLACED, more)
        before = self._chooser.score(whole, state.clone(), pod, nodes)
        after = self._chooser.score(whole, imagined, pod, nodes.with_pods(more))
        return None if before is None or after is None else after.total - before.total
