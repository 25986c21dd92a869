"""One look at the nodes for many pods that are the same.

The pods of a job come one after another, and what was found out about the nodes for the first holds for the
next: only nodes that took a pod since, or changed otherwise, look different. So all nodes are filtered and
scored once, for half a second at most, and each pod gets the best of those that have not changed. A node
that has changed is passed over, as kube-scheduler passes over most nodes once it has found a few hundred;
but where it may well be the best one, all nodes are looked at again.

Pods are the same when every plugin says so (`SignPlugin`). Binds check what was found for another pod like
what was found for the pod itself: when the node has changed by then, all filters look again.

Source: Kubernetes, OpportunisticBatching (KEP-5598). There a sorted list of nodes serves one pod a node, and
only where each pod fills its node.
"""

import logging
from collections import OrderedDict
from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import BATCH_ATTEMPTS, counter
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, Scores
from koordpy.scheduling.profiles.registry import Profiles

from .candidates import Candidates
from .node_choice import Chooser

log = logging.getLogger(__name__)

SECONDS = 0.5
"""For so long the nodes need not be looked at again; as in kube-scheduler."""

TRIED = 8
"""Best nodes of which it is found out what they are worth with one more such pod."""

LOOKED_FOR = 16
"""Best nodes that are looked for among the candidates, before these are looked at one and all."""

LEFT_ALONE = 32
"""Pods that are looked at one by one after a ranking that was not worth its while."""

WORKLOADS = 64
"""Signatures that are remembered; with 5,000 nodes each may hold a megabyte for a moment."""


class Ranking:
    """What all nodes are worth to pods of one signature.

    `order` are the rows of those that fit, best last. `worth_after` says by row what some of the best are
    worth with one more such pod on them.
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
        """The pod for which the nodes were looked at."""
        self.state, self.outcome, self.scores = state, outcome, scores
        table, rows = scores.nodes.table, scores.nodes.rows
        self.moment, self.hidden_version = table.moment, table.hidden.version
        self._order = order
        self._worth = np.full(table.capacity, -1, np.int64)
        self._worth[rows] = scores.total
        self._taken = np.zeros(table.capacity, np.bool_)
        # A pod makes a node a little better now and then, where it evens out what is left of the resources.
        gain = max((after - int(self._worth[row]) for row, after in worth_after.items()), default=0)
        self._gain = max(gain, 0)
        self._bound = self._worth.copy()
        self._bound[rows] += self._gain
        self._worth_after = worth_after

    def best(self, candidates: Candidates, table: NodeTable, promised: list[int]) -> int | None:
        """Return the row of the best of the candidates; None when that takes a new look.

        `promised` are rows of nodes that have been named for other pods since.
        """
        if table.capacity != len(self._worth):
            return None
        changed = table.generation > self.moment[0]
        changed |= table.pods_generation > self.moment[1]
        changed |= ~table.present  # the generations of a row that is free begin anew
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
        """Return the first candidate in order that is not lost. Mostly it is one of the first few."""
        order = self._order
        while order and changed[order[-1]]:  # for good, while what is taken may be given back
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
        """Note that a node was named for a pod, which counts on it from now on."""
        self._taken[row] = True
        self._bound[row] = self._worth_after.get(row, self._bound[row])

    def give_back(self, row: int) -> None:
        """Note that the pod for which a node was named is not going there: it is tried again, or gone."""
        self._taken[row] = False
        self._bound[row] = self._worth[row] + self._gain


@dataclass(slots=True)
class _Workload:
    """The pods of one signature; the first one is looked at alone, there may be no second."""

    ranking: Ranking | None = None
    found_at: float = 0.0
    promises: int = 0
    served: int | None = None
    """Pods that the latest look has served so far; None when that has been judged."""
    left_alone: int = 1


class Batches:
    """Finds nodes for pods that are the same as others before them, where koordpy chooses the node."""

    def __init__(self, profiles: Profiles, chooser: Chooser, handle: Handle) -> None:
        self._profiles, self._chooser = profiles, chooser
        self._nodes, self._nominator = handle.nodes, handle.nominator
        self._clock, self._rng = handle.clock, handle.rng
        self._workloads: OrderedDict[Hashable, _Workload] = OrderedDict()
        for name in profiles.frameworks:
            whole = profiles.whole_of(name)
            if whole is not None and whole.signer.silent:
                log.info(
                    "profile %s: every pod is looked at alone, these plugins do not vouch for alike ones: %s",
                    name,
                    ", ".join(whole.signer.silent),
                )

    def find(self, pod: Pod, candidates: Candidates) -> tuple[Ranking, int] | None:
        """Return what is known of all nodes and the row of the best candidate; None to look at these.

        Nominated pods count on their nodes by rules that a ranking does not know.
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
            workload = self._workloads[signature] = _Workload()
            if len(self._workloads) > WORKLOADS:
                self._workloads.popitem(last=False)
        else:
            self._workloads.move_to_end(signature)
        return workload

    def _forget_old(self) -> None:
        """Let go of what is too old to be used: it is large."""
        latest = self._clock.monotonic() - SECONDS
        for workload in self._workloads.values():
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
        """Return whether to look at all nodes, instead of these alone: not if that was in vain just now."""
        served, workload.served = workload.served, None
        if served is not None and served * len(candidates.names) < len(self._nodes):
            workload.left_alone = LEFT_ALONE
        workload.ranking = None
        if workload.left_alone:
            workload.left_alone -= 1
            return False
        return True

    def _look(self, pod: Pod, whole: Framework) -> Ranking | None:
        """Look at all nodes for a pod; None where they cannot be ranked once for several pods.

        That is where the pod fits nowhere, a plugin breaks, or scores depend on which nodes are candidates;
        and where pods are packed: a node gets better with each of them, the one that has changed is the best.
        """
        state = whole.new_state()
        outcome = whole.find_feasible(state, pod, self._nodes.all())
        if outcome.error is not None or not outcome.feasible.any():
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
        """(n,) how much more nodes are worth with such a pod on them.

        What other nodes there are may count for a score, so both are scored among the same.
        """
        more = {name: [pod] for name in nodes.names}
        imagined = state.clone()
        imagined.write(PLACED, more)
        before = self._chooser.score(whole, state.clone(), pod, nodes)
        after = self._chooser.score(whole, imagined, pod, nodes.with_pods(more))
        return None if before is None or after is None else after.total - before.total
