"""Pods avoid nodes with taints that they do not tolerate.

Source: Kubernetes, `framework/plugins/tainttoleration`.
"""

import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Pod
from koordpy.api.plugin import PluginArgs
from koordpy.api.taints import PREFER_NO_SCHEDULE, find_untolerated, tolerated
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    Filter,
    Plugin,
    PreScore,
    Reach,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import PASS, SUCCESS, Code, Status, Verdict
from koordpy.scheduling.toolkit.normalize import default_normalize
from koordpy.scheduling.toolkit.taint_sets import TaintSets

REASON = "node(s) had untolerated taint(s)"


class TaintToleration(Plugin, Filter, PreScore, Score, SignPlugin):
    """Refuses nodes with an untolerated NoSchedule or NoExecute taint; fewer untolerated PreferNoSchedule
    taints score higher."""

    name = "TaintToleration"
    reach = Reach.NOWHERE
    reads_requests = False

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._taints = TaintSets(handle.nodes)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Find the first untolerated taint of each set of taints."""
        numbers = self._taints.of(nodes)
        if not np.count_nonzero(numbers):
            return PASS
        tolerations = pod.spec.tolerations
        refused = self._taints.each(
            numbers, lambda taints: find_untolerated(taints, tolerations) is not None
        ).astype(np.bool_)
        return Verdict.reject(refused, REASON, Code.UNSCHEDULABLE_AND_UNRESOLVABLE)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Nothing to prepare."""
        return SUCCESS

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NDArray[np.int64]:
        """Count PreferNoSchedule taints that no toleration with that effect (or none) covers."""
        numbers = self._taints.of(nodes)
        if not np.count_nonzero(numbers):
            return np.zeros(len(nodes), np.int64)
        tolerations = [item for item in pod.spec.tolerations if item.effect in ("", PREFER_NO_SCHEDULE)]
        return self._taints.each(
            numbers,
            lambda taints: sum(
                taint.effect == PREFER_NO_SCHEDULE and not tolerated(tolerations, taint) for taint in taints
            ),
        )

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Score the most taints with 0 and none with 100."""
        return default_normalize(scores, reverse=True)
