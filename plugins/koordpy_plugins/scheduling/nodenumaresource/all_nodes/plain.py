"""Pods that ask for no CPUs of their own and no NUMA nodes, on nodes that impose neither: most of them.

Such a node is `is_plain` in the columns of CPUs. It cannot refuse such a pod, whatever is allocated, reserved
or preempted there, and is scored by what is requested of it as a whole.
"""

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet

from ..attempt.pod_state import PodState
from ..scorer import Scorer, amounts_of
from ..state.columns import CPUColumns
from .scores import of_nodes, scores


class PlainNodes:
    """The plain nodes of a cluster, over its columns of CPUs."""

    def __init__(self, columns: CPUColumns, scorer: Scorer) -> None:
        self._columns, self._scorer = columns, scorer

    def of(self, pod: PodState, nodes: NodeSet) -> Bool | None:
        """(n,) which nodes are plain to a pod; None if none is, for what it asks."""
        if pod.bind or pod.numa_policy or pod.designated is not None:
            return None
        plain = self._columns.of(nodes).flag("is_plain")
        return plain if np.count_nonzero(plain) else None

    def score(self, pod: PodState, nodes: NodeSet) -> Int64:
        """(n,) scores of plain nodes."""
        wanted = amounts_of(pod.requests)

        def asked(name: str) -> Int64:
            return np.full(len(nodes), wanted(name))

        return scores(self._scorer, len(nodes), lambda name: of_nodes(nodes, name), asked)
