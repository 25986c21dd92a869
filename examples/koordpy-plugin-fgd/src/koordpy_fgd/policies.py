"""The policies that the paper compares with, scored as its authors' simulator does, whole numbers included.

None of them looks at the models of GPUs: that is a matter of filters.
"""

from typing import Final

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import MAX_NODE_SCORE, MIN_NODE_SCORE, Plugin, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gpus import (
    GPU_REQUEST,
    GPUS,
    NO_GPU,
    WHOLE_GPU,
    ChooseGPU,
    GPUColumns,
    GPURequest,
)

LARGEST_CPU: Final = 128_000
"""Milli-CPU by which amounts of CPU are divided, to be comparable with those of GPUs."""
LARGEST_GPUS: Final = 8_000
"""Milli-GPU by which amounts of GPUs are divided."""


class GPUPolicy(Plugin, Score):
    """Scores by the columns of GPUs; without them all nodes are equal."""

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Return the policy's scores."""
        columns, request = state.read(GPUS), state.read(GPU_REQUEST)
        if columns is None or request is None:
            return np.zeros(len(nodes), np.int64)
        return self.scores(columns, request, nodes.rows)

    def scores(self, columns: GPUColumns, request: GPURequest, rows: Int64) -> Int64:
        """Return (n,) scores of these rows."""
        raise NotImplementedError


class Random(GPUPolicy, ChooseGPU):
    """Any node, any of its GPUs."""

    name = "Random"

    def scores(self, columns: GPUColumns, request: GPURequest, rows: Int64) -> Int64:
        """Return 100 for one node, 0 for the others."""
        scores = np.zeros(len(rows), np.int64)
        scores[self.handle.rng.randrange(len(rows))] = MAX_NODE_SCORE
        return scores

    def choose_gpu(self, state: CycleState, pod: Pod, row: int) -> int | None:
        """Return any GPU that has enough left; None without GPUs, or if none has."""
        columns, request = state.read(GPUS), state.read(GPU_REQUEST)
        if columns is None or request is None:
            return None
        sufficient = np.flatnonzero(columns.free[row] >= request.milli).tolist()
        return int(self.handle.rng.choice(sufficient)) if sufficient else None


class DotProd(GPUPolicy):
    """Where what is left and what is requested have the smallest inner product, of CPU and GPUs."""

    name = "DotProd"

    def scores(self, columns: GPUColumns, request: GPURequest, rows: Int64) -> Int64:
        """Return the inner product, as the share that is missing to its largest value."""
        product = columns.cpu_free[rows] / LARGEST_CPU * (request.cpu / LARGEST_CPU)
        product += columns.free_total(rows) / LARGEST_GPUS * (request.total / LARGEST_GPUS)
        scores: Int64 = (MAX_NODE_SCORE * (1 - product / 2)).astype(np.int64)
        return _limited(scores)


class GpuClustering(GPUPolicy):
    """Beside pods that request as many GPUs, so that pods of a kind are together."""

    name = "GpuClustering"

    def scores(self, columns: GPUColumns, request: GPURequest, rows: Int64) -> Int64:
        """Return a quarter each: alone with their kind, with it among others, idle, with others alone."""
        if not request.count:
            return np.zeros(len(rows), np.int64)
        kinds = columns.pods[rows] > 0
        kind = 0 if request.is_shared else request.count
        with_kind = kinds[:, kind] if kind < kinds.shape[1] else np.zeros(len(rows), np.bool_)
        alone = np.where(with_kind, kinds.sum(axis=1) == 1, ~kinds.any(axis=1))
        quarter = MAX_NODE_SCORE // 4
        fullness = quarter * (LARGEST_GPUS - columns.free_total(rows)) // LARGEST_GPUS
        scores: Int64 = fullness + quarter * (2 * with_kind + alone)
        return _limited(scores)


class GpuPacking(GPUPolicy):
    """First on GPUs that are in use, then on nodes that are, then on idle nodes."""

    name = "GpuPacking"

    def scores(self, columns: GPUColumns, request: GPURequest, rows: Int64) -> Int64:
        """Return 50 to 100 where used GPUs suffice, 33 to 50 on nodes in use, up to 33 on idle ones."""
        if not request.milli:
            return np.zeros(len(rows), np.int64)
        free = columns.free[rows]
        whole = (free == WHOLE_GPU).sum(axis=1)
        ascending = np.sort(free, axis=1)
        taken = ascending >= request.milli
        taken &= taken.cumsum(axis=1) <= request.count
        new = (taken & (ascending == WHOLE_GPU)).sum(axis=1)
        left = np.where(taken, ascending * 100 // WHOLE_GPU, 0).sum(axis=1)
        third, half = MAX_NODE_SCORE // 3, MAX_NODE_SCORE // 2
        on_used = np.maximum(MAX_NODE_SCORE - left // 10, half)
        on_node = np.where(new > 0, np.maximum(half - new, third), on_used)
        idle = whole == (free != NO_GPU).sum(axis=1)
        scores: Int64 = np.where(idle, np.maximum(third - whole, whole), on_node)
        return scores


class BestFit(GPUPolicy):
    """Where the least is left, of CPU and GPUs together."""

    name = "BestFit"

    def scores(self, columns: GPUColumns, request: GPURequest, rows: Int64) -> Int64:
        """Return the mean share of CPU and GPUs that is used with the pod."""
        left = (columns.cpu_free[rows] - request.cpu) / LARGEST_CPU * 0.5
        left = left + (columns.free_total(rows) - request.total) / LARGEST_GPUS * 0.5
        scores: Int64 = ((1.0 - left) * MAX_NODE_SCORE).astype(np.int64)
        return scores

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
        """Spread the scores over 0 to 100; all 0 if they are equal."""
        lowest, spread = scores.min(), scores.max() - scores.min()
        normal: Int64 = (scores - lowest) * MAX_NODE_SCORE // spread if spread else np.zeros_like(scores)
        return normal


def _limited(scores: Int64) -> Int64:
    """Limit scores to 0..100: nodes may be larger than those of the paper, or overcommitted."""
    limited: Int64 = scores.clip(MIN_NODE_SCORE, MAX_NODE_SCORE)
    return limited
