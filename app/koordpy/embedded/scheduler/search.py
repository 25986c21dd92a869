"""Finds a node for a pod: plugins filter, extenders filter the rest, both score, the best node is chosen.

The order, the arithmetic and what counts as a failure are kube-scheduler's (`schedulePod` in
`pkg/scheduler/schedule_one.go`).
"""

import asyncio
import logging
import random
from collections.abc import Sequence
from dataclasses import dataclass

import msgspec
import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import ExtenderError
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import FilterOutcome, Refusals
from koordpy.scheduling.interface.status import SUCCESS, Code, Status, Verdict
from koordpy.scheduling.profiles.config import SchedulerConfiguration

from .extenders import Extender, encoded

log = logging.getLogger(__name__)

MIN_FEASIBLE_NODES = 100
"""Below this many nodes all are filtered, regardless of the percentage."""


@dataclass(slots=True)
class Found:
    """The result of a search: a node, or why there is none."""

    node_name: str = ""
    status: Status = SUCCESS
    outcome: FilterOutcome | None = None
    """Set if nodes were filtered and none fits; rejections by extenders are included."""
    extender_refused: bool = False


class NodeSearch:
    """Searches one node table, each time continuing where the last search stopped."""

    def __init__(
        self,
        config: SchedulerConfiguration,
        nodes: NodeTable,
        extenders: Sequence[Extender],
        rng: random.Random,
    ) -> None:
        self._nodes, self._extenders, self._rng = nodes, extenders, rng
        default = config.percentage_of_nodes_to_score or 0
        self._percentages = {
            profile.scheduler_name: default
            if profile.percentage_of_nodes_to_score is None
            else profile.percentage_of_nodes_to_score
            for profile in config.profiles
        }
        self._filtering = any(extender.config.filter_verb for extender in extenders)
        self._scoring = any(extender.config.prioritize_verb for extender in extenders)
        self._next_start = 0

    async def find(self, framework: Framework, state: CycleState, pod: Pod) -> Found:
        """Search a node for a pod; an extender that fails ends the search, unless it can be ignored."""
        nodes = self._nodes.all()
        if not len(nodes):
            return Found(status=Status.unresolvable("no nodes available to schedule pods"))
        outcome = framework.find_feasible(state, pod, nodes)
        if outcome.error is not None:
            return Found(status=outcome.error)
        asked = _Asked(pod, [extender for extender in self._extenders if extender.is_interested(pod)])
        left = await self._nominated(outcome, asked)
        try:
            if left is None:
                enough = self._enough(outcome, framework)
                left, refused = await asked.filter(enough)
                _count(outcome, refused)
                if not len(left):
                    return Found(outcome=outcome, extender_refused=len(enough) > 0)
        except ExtenderError as error:
            return Found(status=Status.failed(error))
        if len(left) == 1:
            return Found(left.names[0])
        return await self._best(framework, state, pod, left, asked)

    async def _nominated(self, outcome: FilterOutcome, asked: "_Asked") -> NodeSet | None:
        """Return the node that the pod is nominated to, if it fits there."""
        name = asked.pod.status.nominated_node_name
        index = outcome.nodes.index_of(name) if name else None
        if index is None or not outcome.feasible[index]:
            return None
        try:
            left, _ = await asked.filter(outcome.nodes.pick(np.array([index], np.int64)))
        except ExtenderError as error:
            log.warning(
                "cannot check whether pod %s fits its nominated node: %s", asked.pod.metadata.key, error
            )
            return None
        return left if len(left) else None

    def _enough(self, outcome: FilterOutcome, framework: Framework) -> NodeSet:
        """Return the feasible nodes that kube-scheduler would have found before it stopped searching."""
        total = len(outcome.nodes)
        if not total:
            return outcome.nodes
        wanted = self._wanted(total, framework)
        start = self._next_start % total
        found = np.flatnonzero(outcome.feasible)
        before = int(np.searchsorted(found, start))
        found = np.concatenate([found[before:], found[:before]])
        looked_at = total
        if len(found) > wanted:
            found = found[:wanted]
            looked_at = (int(found[-1]) - start) % total + 1
        self._next_start = (start + looked_at) % (total + len(outcome.absent))
        return outcome.nodes.pick(found)

    def _wanted(self, total: int, framework: Framework) -> int:
        if not (self._filtering or self._scoring or framework.scores):
            return 1
        percentage = self._percentages[framework.profile_name]
        if total < MIN_FEASIBLE_NODES:
            return total
        if percentage == 0:
            percentage = max(50 - total // 125, 5)
        return max(total * percentage // 100, MIN_FEASIBLE_NODES)

    async def _best(
        self, framework: Framework, state: CycleState, pod: Pod, nodes: NodeSet, asked: "_Asked"
    ) -> Found:
        if not (self._extenders or framework.scores):
            return Found(nodes.names[0])
        scores, status = framework.run_score(state, pod, nodes)
        if scores is None:
            return Found(status=status)
        total = scores.total + await asked.prioritize(nodes)
        best = np.flatnonzero(total == total.max())
        return Found(nodes.names[int(best[self._rng.randrange(len(best))])])


class _Asked:
    """The extenders that handle a pod, called for it; the pod is encoded once."""

    def __init__(self, pod: Pod, extenders: Sequence[Extender]) -> None:
        self.pod, self._extenders = pod, extenders
        self._raw: msgspec.Raw | None = None

    async def filter(self, nodes: NodeSet) -> tuple[NodeSet, dict[str, Status]]:
        """Call the extenders in order, each with the nodes left by the previous one. Raises ExtenderError."""
        refused: dict[str, Status] = {}
        for extender in self._extenders:
            if not extender.config.filter_verb or not len(nodes):
                continue
            try:
                result = await extender.filter(self._encoded(), nodes)
            except ExtenderError as error:
                if not extender.config.ignorable:
                    raise
                log.warning("skipping extender %s, which is ignorable: %s", extender.name, error)
                continue
            for name, reason in result.failed.items():
                refused[name] = Status(Code.UNSCHEDULABLE, (reason,), extender.name)
            for name, reason in result.unresolvable.items():
                refused[name] = Status(Code.UNSCHEDULABLE_AND_UNRESOLVABLE, (reason,), extender.name)
            if len(result.kept) != len(nodes) or result.kept != list(nodes.names):
                index = {name: i for i, name in enumerate(nodes.names)}
                nodes = nodes.pick(np.array([index[name] for name in result.kept], np.int64))
        return nodes, refused

    async def prioritize(self, nodes: NodeSet) -> Int64:
        """Call prioritize of all concurrently and return scores (n,); one that fails adds nothing."""
        asked = [extender for extender in self._extenders if extender.config.prioritize_verb]
        added = await asyncio.gather(*(self._scores(extender, nodes) for extender in asked))
        return np.sum(added, axis=0, dtype=np.int64) if added else np.zeros(len(nodes), np.int64)

    async def _scores(self, extender: Extender, nodes: NodeSet) -> Int64:
        try:
            return await extender.prioritize(self._encoded(), nodes)
        except ExtenderError as error:
            log.warning("no scores from extender %s: %s", extender.name, error)
            return np.zeros(len(nodes), np.int64)

    def _encoded(self) -> msgspec.Raw:
        if self._raw is None:
            self._raw = encoded(self.pod)
        return self._raw


def _count(outcome: FilterOutcome, refused: dict[str, Status]) -> None:
    """Add extenders' rejections to the outcome, for messages and preemption."""
    if not refused:
        return
    positions = [index for index, name in enumerate(outcome.nodes.names) if name in refused]
    indexes = np.array(positions, np.int64)
    verdict = Verdict.of([refused[outcome.nodes.names[index]] for index in positions])
    outcome.feasible[indexes] = False
    outcome.refusals.append(Refusals("", indexes, verdict, indexes))
