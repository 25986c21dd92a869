"""One evaluation of all nodes for many identical pods.

The pods of a job come one after another, and the results computed for the first hold for the next: only nodes
that received a pod since, or changed otherwise, differ. So all nodes are filtered and scored once, the
results are used for at most half a second, and each pod gets the best node that has not changed
(`koordpy.scheduling.cycle.ranking`).

Pods are the same if every plugin signs them equally (`SignPlugin`).

Source: Kubernetes, OpportunisticBatching (KEP-5598). There a sorted list of nodes serves one pod per node,
and only if each pod fills its node.
"""

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.lib.deep_size import deep_size
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.framework.metrics import BATCH_ATTEMPTS, counter
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import Scores
from koordpy.scheduling.interface.plan import PLAN

from .ranking import Offered, Ranking

SECONDS = 0.5
"""How long results are valid; as in kube-scheduler."""

TRIED = 8
"""The number of best nodes that are also scored with one more such pod."""

LEFT_ALONE = 32
"""Pods that are evaluated one by one after a ranking that did not pay off."""

WORKLOADS = 64
"""Signatures that are remembered; with 5,000 nodes each may hold a megabyte for a moment."""

SIGNATURE_BYTES = 4 << 20
"""The budget of the signatures, which have what tenants write."""

SEEN, SEEN_BYTES = 1_024, 250
"""Signatures that one pod has had so far, of which only hashes are kept, and the bytes of one."""

Score = Callable[[Framework, CycleState, Pod, NodeSet], Scores | None]


class Promises(Protocol):
    """Nodes that were named for pods which the node table does not have there yet."""

    @property
    def promises(self) -> int:
        """How many there have been so far."""
        ...

    def promised_since(self, promises: int) -> list[str]:
        """Return the nodes of those after the first `promises` that are still open."""
        ...


@dataclass(slots=True)
class _Workload:
    """The pods of one signature."""

    ranking: Ranking | None = None
    found_at: float = 0.0
    promises: int = 0
    served: int | None = None
    """Pods that the latest evaluation has served so far; None once it has been rated."""
    left_alone: int = 0


class Rankings:
    """Rankings of nodes by the signatures of pods."""

    def __init__(self, name: str, handle: Handle, score: Score, promises: Promises | None = None) -> None:
        """Nodes are scored by `score`; `name` is that of the memory of signatures in metrics."""
        self._score, self._promises = score, promises
        self._nodes, self._clock, self._rng = handle.nodes, handle.clock, handle.rng
        self._workloads: BoundedLru[Hashable, _Workload]
        self._workloads = BoundedLru(name, SIGNATURE_BYTES, max_entries=WORKLOADS)
        self._seen = BoundedLru[int, bool](f"{name}_seen", SEEN * SEEN_BYTES)
        """Hashes of signatures that one pod has had so far."""

    def take(
        self, whole: Framework, pod: Pod, signature: Hashable, offered: Offered
    ) -> tuple[Ranking, int] | None:
        """Take the best offered node for a pod; None to evaluate the offered nodes for it.

        Returns the ranking and the row of the node, which is skipped from now on unless it is given back.
        """
        workload = self._workload(signature)
        found = None if workload is None else self._find(workload, whole, pod, offered)
        counter(BATCH_ATTEMPTS, whole.profile_name, "hint_not_used" if found is None else "hint_used").inc()
        return found

    def _workload(self, signature: Hashable) -> _Workload | None:
        """Return the workload of a signature; None for the first pod, since there may be no second."""
        workload = self._workloads.get(signature)
        if workload is None:
            number = hash(signature)
            if self._seen.get(number) is None:
                self._seen.put(number, True, SEEN_BYTES)
                return None
            workload = _Workload()
            self._workloads.put(signature, workload, 500 + deep_size(signature, self._workloads.largest))
        return workload

    def _find(
        self, workload: _Workload, whole: Framework, pod: Pod, offered: Offered
    ) -> tuple[Ranking, int] | None:
        found = self._best(workload, offered)
        if found is None and self._is_worthwhile(workload, offered):
            self._forget_old()
            workload.ranking = self._evaluate(pod, whole)
            workload.found_at = self._clock.monotonic()
            workload.promises = 0 if self._promises is None else self._promises.promises
            if workload.ranking is None:
                workload.left_alone = LEFT_ALONE
            else:
                workload.served = 0
            found = self._best(workload, offered)
        if found is not None:
            ranking, row = found
            ranking.take(row)
            workload.served = (workload.served or 0) + 1
        return found

    def _forget_old(self) -> None:
        """Drop rankings that are too old to be used, because they are large."""
        latest = self._clock.monotonic() - SECONDS
        for workload in self._workloads:
            if workload.found_at < latest:
                workload.ranking = None

    def _best(self, workload: _Workload, offered: Offered) -> tuple[Ranking, int] | None:
        ranking = workload.ranking
        if ranking is None or self._clock.monotonic() - workload.found_at > SECONDS:
            return None
        names = () if self._promises is None else self._promises.promised_since(workload.promises)
        rows = [row for name in names if (row := self._nodes.row_of(name)) is not None]
        row = ranking.best(offered, self._nodes, rows)
        return None if row is None else (ranking, row)

    def _is_worthwhile(self, workload: _Workload, offered: Offered) -> bool:
        """Return whether to evaluate all nodes, not only those offered: not if that just did not pay off."""
        served, workload.served = workload.served, None
        if served is not None and served * len(offered.nodes) < len(self._nodes):
            workload.left_alone = LEFT_ALONE
        workload.ranking = None
        if workload.left_alone:
            workload.left_alone -= 1
            return False
        return True

    def _evaluate(self, pod: Pod, whole: Framework) -> Ranking | None:
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
        scores = self._score(whole, state, pod, kept)
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
        before = self._score(whole, state.clone(), pod, nodes)
        after = self._score(whole, imagined, pod, nodes.with_pods(more))
        return None if before is None or after is None else after.total - before.total
