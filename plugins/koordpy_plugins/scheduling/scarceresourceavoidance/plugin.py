"""Keep pods that do not need a scarce resource away from nodes that have it.

Of the resources that a node has and the pod does not request, the fewer are scarce the better. Source:
Koordinator, `pkg/scheduler/plugins/scarceresourceavoidance`.
"""

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.resources import pod_fit_vector, surely_same
from koordpy.cluster.columns import PODS, Int64
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.lib.last_answer import LastAnswer
from koordpy.scheduling.interface import (
    MAX_NODE_SCORE,
    Plugin,
    PreScore,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status

from .args import ScarceResourceAvoidanceArgs

_REQUESTED: StateKey[frozenset[str]] = StateKey("PreScoreScarceResourceAvoidance")


_SCORES_KEPT = 64
"""The number of sets of requested resources for which the scores of all nodes are cached."""


class ScarceResourceAvoidance(Plugin, PreScore, Score, SignPlugin):
    """Scores the share of resources that are not scarce among those that the pod does not request."""

    name = "ScarceResourceAvoidance"
    args: ScarceResourceAvoidanceArgs

    def __init__(self, args: ScarceResourceAvoidanceArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._scarce = frozenset(args.resources)
        self._scores: dict[frozenset[str], tuple[int, Int64]] = {}
        self._requested_of = LastAnswer(_requested, surely_same).of  # workloads come in one go

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Read the pod's requests once."""
        state.write(_REQUESTED, self._requested_of(pod))
        return SUCCESS

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Count the resources of each node that the pod does not request."""
        requested = state.read(_REQUESTED)
        if requested is None:
            raise LookupError(f'get state node "{nodes.names[0]}" from PreScore: not found')
        generation = nodes.table.latest_generation
        known = self._scores.get(requested)
        if known is None or known[0] != generation:
            if len(self._scores) >= _SCORES_KEPT:
                self._scores.clear()
            known = self._scores[requested] = generation, self._by_row(nodes.table, requested)
        return known[1].take(nodes.rows)

    def _by_row(self, table: NodeTable, requested: frozenset[str]) -> Int64:
        """Return (rows,) the scores of all nodes; valid until a Node object changes."""
        unused, scarce = np.zeros(table.capacity, np.int64), np.zeros(table.capacity, np.int64)
        for column, name in enumerate(table.resources.names):
            if column == PODS or name in requested:
                continue
            has = table.allocatable[:, column] > 0
            unused += has
            if name in self._scarce:
                scarce += has
        return np.where(scarce > 0, (unused - scarce) * 100 // np.maximum(unused, 1), MAX_NODE_SCORE)


def _requested(pod: Pod) -> frozenset[str]:
    return frozenset(name for name, amount in pod_fit_vector(pod).items() if amount > 0)
