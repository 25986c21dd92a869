"""Taints keep pods away that do not tolerate them. Source: Kubernetes, `framework/plugins/tainttoleration`.

Few different sets of taints exist in a cluster. Each gets a number, kept per node until the node changes, and
a pod's tolerations are tried against the sets, not against the nodes.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Node, Pod, Taint
from koordpy.api.taints import PREFER_NO_SCHEDULE, find_untolerated, tolerated
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.args import PluginArgs
from koordpy.scheduling.cycle_state import CycleState
from koordpy.scheduling.handle import Handle
from koordpy.scheduling.interface import Filter, Plugin, PreScore, Score
from koordpy.scheduling.node_memo import NodeMemo
from koordpy.scheduling.normalize import default_normalize
from koordpy.scheduling.status import PASS, SUCCESS, Code, Status, Verdict

REASON = "node(s) had untolerated taint(s)"


class TaintSets:
    """The different sets of taints that nodes have, numbered from 1; 0 is a node without taints."""

    def __init__(self, handle: Handle) -> None:
        self.sets: list[Sequence[Taint]] = [()]
        self._numbers: dict[tuple[tuple[str, str, str], ...], int] = {(): 0}
        self._memo = NodeMemo(handle.nodes, self._number_of, np.int64)

    def of(self, nodes: NodeSet) -> NDArray[np.int64]:
        """Return (n,) the number of each node's set."""
        return self._memo.of(nodes)

    def each(self, numbers: NDArray[np.int64], answer: Callable[[Sequence[Taint]], int]) -> NDArray[np.int64]:
        """Return (n,) the answers about the sets with these numbers (n,), asking once a set."""
        answers = np.zeros(len(self.sets), np.int64)
        for number in np.flatnonzero(np.bincount(numbers)).tolist():
            answers[number] = answer(self.sets[number])
        return answers[numbers]

    def _number_of(self, node: Node) -> int:
        taints = node.spec.taints
        key = tuple((taint.key, taint.value, taint.effect) for taint in taints)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self.sets)
            self.sets.append(taints)
        return number


class TaintToleration(Plugin, Filter, PreScore, Score):
    """Refuses nodes with an untolerated NoSchedule or NoExecute taint; fewer untolerated PreferNoSchedule
    taints score higher."""

    name = "TaintToleration"

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._taints = TaintSets(handle)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Find the first untolerated taint of each set of taints."""
        numbers = self._taints.of(nodes)
        if not numbers.any():
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
        if not numbers.any():
            return np.zeros(len(nodes), np.int64)
        tolerations = [item for item in pod.spec.tolerations if item.effect in ("", PREFER_NO_SCHEDULE)]
        return self._taints.each(
            numbers,
            lambda taints: sum(
                taint.effect == PREFER_NO_SCHEDULE and not tolerated(tolerations, taint) for taint in taints
            ),
        )

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Give 0 to the most taints and 100 to none."""
        return default_normalize(scores, reverse=True)
