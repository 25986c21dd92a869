"""The scores of an attempt, as prioritize answers them.

Only the scores of the nodes that filter kept are stored with the attempt. Other calls in between (another
extender has dropped some nodes, or a bind is in flight) leave it unchanged.
"""

import logging
import time

from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.metrics import POINT_DURATION, histogram
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.outcome import Scores

from . import wire
from .attempts import Attempt

log = logging.getLogger(__name__)


def score_kept(attempt: Attempt, kept: NodeSet) -> None:
    """Score the nodes that filter kept, and keep the answer to a prioritize call about them."""
    scores = attempt.scores = _score(attempt, attempt.state, kept)
    totals = [0] * len(kept) if scores is None else scores.total.tolist()
    attempt.priorities = wire.host_priorities(kept.names, totals)


def score_others(attempt: Attempt, nodes: NodeSet) -> dict[str, int]:
    """Return the scores of any nodes by name; empty if scoring fails."""
    scores = _score(attempt, attempt.state.clone(), nodes)
    return {} if scores is None else dict(zip(nodes.names, scores.total.tolist(), strict=True))


def _score(attempt: Attempt, state: CycleState, nodes: NodeSet) -> Scores | None:
    began = time.perf_counter()
    state.skip_score.clear()
    scores, status = attempt.framework.run_score(state, attempt.pod, nodes)
    if scores is None:
        log.warning("pod %s: no scores: %s", attempt.pod.metadata.key, status.message)
        attempt.decision.message = status.message
    else:
        attempt.decision.scored(scores)
    took = time.perf_counter() - began
    attempt.decision.took("score", took)
    histogram(POINT_DURATION, "Score", status.code.label, attempt.framework.profile_name).observe(took)
    return scores
