"""The points that rank the feasible nodes."""

from typing import ClassVar

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet

from .cycle_state import CycleState
from .forms import Forms, TwoForms
from .node_info import NodeInfo, each
from .status import Status

MIN_NODE_SCORE = 0
MAX_NODE_SCORE = 100


class PreScore:
    """Runs once for the pod and the feasible nodes before scoring. Not called if only one node is left."""

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Return Success; or Skip, which also skips this plugin's Score; anything else fails the attempt."""
        raise NotImplementedError


class BeforeScore:
    """Transformer: may replace pod and nodes before scoring. Runs where Score is enabled."""

    def before_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Status]:
        """Return what to score; a failure ends the attempt."""
        raise NotImplementedError


class Score(TwoForms):
    """Ranks nodes. Scores must be within 0..100 after `normalize_scores` and are multiplied by the weight."""

    _forms: ClassVar[Forms] = (("score", "score_nodes"),)

    def score(self, state: CycleState, pod: Pod, node: NodeInfo) -> int:
        """Return a node's score; raise to fail the attempt."""
        return int(self.score_nodes(state, pod, node.alone().nodes)[0])

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Return (n,) int64 scores, one per node; raise to fail the attempt."""
        return np.fromiter((self.score(state, pod, node) for node in each(nodes)), np.int64, len(nodes))

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
        """Return the scores (n,) normalised to 0..100; the default leaves them unchanged."""
        return scores
