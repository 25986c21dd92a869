"""Who chooses the node: kube-scheduler among all that fit, or koordpy, which then names one alone.

The extender protocol leaves the choice to kube-scheduler: it scores every node that filter kept with its
own plugins, asks for our scores with a second call, and adds them up. But koordpy knows all that it needs to
come to the same sum: the whole framework of a profile scores with kube-scheduler's arithmetic. Where filter
answers with the best node alone, kube-scheduler scores nothing and calls nobody: one call and the scoring of
some hundred nodes are spared for every pod, which is what most of its time goes into.

The price: the weights and arguments of in-tree Score plugins count as they stand in koordpy's own
configuration, and a filter extender after koordpy can only accept the node or refuse the pod.
"""

import logging
import random
from typing import Literal

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet

from .attempts import Attempt
from .outcome import Scores
from .registry import Profiles

log = logging.getLogger(__name__)

NodeChoice = Literal["kube-scheduler", "koordpy"]


class Chooser:
    """Chooses nodes as kube-scheduler would: the highest total, any of those with the same."""

    def __init__(self, profiles: Profiles, rng: random.Random) -> None:
        self._profiles, self._rng = profiles, rng

    def weights(self, scheduler_name: str) -> dict[str, int]:
        """Return the weights of all Score plugins of a profile, kube-scheduler's own included."""
        whole = self._profiles.whole_of(scheduler_name)
        return {} if whole is None else whole.weights

    def choose(self, attempt: Attempt, nodes: NodeSet) -> tuple[int, Scores] | None:
        """Return the position of the best of the nodes, and all scores; None to leave it to kube-scheduler.

        That is done where kube-scheduler has Score plugins that koordpy has not, and where scoring fails:
        then the pod is better placed without our scores than not at all.
        """
        pod = attempt.pod
        whole = self._profiles.whole_of(pod.spec.scheduler_name)
        if whole is None or not whole.scores or _is_scored_elsewhere(pod):
            return None
        scores, status = whole.run_score(attempt.state, pod, nodes)
        attempt.state.skip_score.clear()
        if scores is None:
            log.warning(
                "pod %s: no scores, kube-scheduler chooses its node: %s", pod.metadata.key, status.message
            )
            return None
        best = np.flatnonzero(scores.total == scores.total.max())
        return int(best[self._rng.randrange(len(best))]), scores


def _is_scored_elsewhere(pod: Pod) -> bool:
    """Tell whether VolumeBinding or DynamicResources may prefer nodes for a pod."""
    spec = pod.spec
    return bool(spec.resource_claims) or any(v.persistent_volume_claim is not None for v in spec.volumes)
