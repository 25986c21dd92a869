"""Balance the utilization of a node's resources.

Source: Kubernetes, `framework/plugins/noderesources` (`balanced_allocation.go`).
"""

from collections.abc import Hashable, Sequence

import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Pod
from koordpy.api.resources import pod_status_vector, surely_same
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
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

from .args import NodeResourcesBalancedAllocationArgs

_PRE_SCORE: StateKey[dict[str, int]] = StateKey("PreScoreNodeResourcesBalancedAllocation")

_ALWAYS = ("cpu", "memory", "ephemeral-storage")


class NodeResourcesBalancedAllocation(Plugin, PreScore, Score, SignPlugin):
    """Scores how little the utilizations of a node's resources differ with the pod on it."""

    name = "NodeResourcesBalancedAllocation"
    args: NodeResourcesBalancedAllocationArgs

    def __init__(self, args: NodeResourcesBalancedAllocationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._names = args.names
        self._requests_of = LastAnswer(self._requests, surely_same).of  # workloads come in one go

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """The allocated resources in a container's status count as well."""
        status = pod.status
        return None if status.container_statuses or status.init_container_statuses else ()

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Skip pods that request none of the resources: they would all go to the same node."""
        requests = self._requests_of(pod)
        if not any(requests.values()):
            return Status.skip()
        state.write(_PRE_SCORE, requests)
        return SUCCESS

    def _requests(self, pod: Pod) -> dict[str, int]:
        vector = pod_status_vector(pod)
        return {name: vector.get(name, 0) for name in self._names}

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Score balanced nodes with 100; extended resources count if the pod requests them."""
        requests = state.read(_PRE_SCORE)
        if requests is None:
            requests = self._requests_of(pod)
        parts = []
        for name, amount in requests.items():
            column = nodes.table.resources.get(name)
            if column is not None and (amount or name in _ALWAYS):
                parts.append((nodes.requested(column) + amount, nodes.allocatable(column)))
        return balance(parts) if parts and any(requests.values()) else np.zeros(len(nodes), np.int64)


def balance(parts: Sequence[tuple[Int64, Int64]]) -> Int64:
    """Return (n,) scores for (requested, allocatable) of several resources, without those that a node lacks.

    The score is 100 times one minus the standard deviation of the utilizations, truncated to an integer. The
    sums are computed in the order of the resources, because floating-point results depend on it.
    """
    if len(parts) == 2 and all(np.count_nonzero(there) == len(there) for _, there in parts):
        first, second = (np.minimum(requested / allocatable, 1.0) for requested, allocatable in parts)
        even: Int64 = ((1 - np.abs(first - second) / 2) * float(MAX_NODE_SCORE)).astype(np.int64)
        return even
    has = np.stack([allocatable != 0 for _, allocatable in parts])
    shares: NDArray[np.float64] = np.stack(
        [
            np.minimum(requested / np.where(there, allocatable, 1), 1.0)
            for (requested, allocatable), there in zip(parts, has, strict=True)
        ]
    )
    count = has.sum(axis=0)
    total, squares = np.zeros(has.shape[1]), np.zeros(has.shape[1])
    for share, there in zip(shares, has, strict=True):
        total += np.where(there, share, 0.0)
    mean = total / np.maximum(count, 1)
    for share, there in zip(shares, has, strict=True):
        squares += np.where(there, (share - mean) * (share - mean), 0.0)
    deviation = np.sqrt(squares / np.maximum(count, 1))
    spread = np.where(has, shares, -np.inf).max(axis=0) - np.where(has, shares, np.inf).min(axis=0)
    deviation = np.where(count == 2, spread / 2, np.where(count > 2, deviation, 0.0))
    scores: Int64 = ((1 - deviation) * float(MAX_NODE_SCORE)).astype(np.int64)
    return scores
