"""Fragmentation Gradient Descent: place a pod where it adds least to the fragments of the GPUs.

Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient Descent",
USENIX ATC 2023, section 4. A node's score falls with the growth of its fragments by the pod; a pod that
shares a GPU is tried on each of the node's GPUs and gets the one with the highest score.
"""

from dataclasses import dataclass, field
from typing import Final

import numpy as np
from pydantic import Field

from koordpy.api.config_model import ConfigModel
from koordpy.api.core import Pod
from koordpy.api.plugin import PluginArgs
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import MAX_NODE_SCORE, Plugin, Score
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gpus import GPU_REQUEST, GPUS, ChooseGPU, GPUColumns, GPURequest
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.toolkit.gpu_fragments import TYPICAL_PODS, TypicalPods

_MOST_REQUESTS: Final = 4096
"""Requests whose scores are kept."""


class TypicalPod(ConfigModel):
    """A frequent request: milli-CPU, `count` GPUs with `milli` of each of `models`; how many pods have it."""

    cpu: int = Field(ge=0)
    count: int = Field(default=0, ge=0)
    milli: int = Field(default=0, ge=0, le=1000)
    models: list[str] = []
    pods: int = Field(ge=1)


class FGDArgs(PluginArgs):
    """`typicalPods`: what the workload requests, where whoever accounts for GPUs does not say it."""

    typical_pods: list[TypicalPod] = []


@dataclass
class _Known:
    """Scores and GPUs of one request by row, as of the generation of each row."""

    score: Int64
    gpu: Int64
    generation: Int64


@dataclass
class _Table:
    """What is known of nodes for one workload; made anew with more rows, or other typical pods."""

    typical: TypicalPods
    fragments: np.ndarray
    generation: Int64
    requests: dict[GPURequest, _Known] = field(default_factory=dict)


class FGD(Plugin, Score, ChooseGPU):
    """Scores nodes by how little a pod adds to their fragments."""

    name = "FGD"
    args: FGDArgs

    def __init__(self, args: FGDArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._typical = TypicalPods(
            (GPURequest(of.cpu, of.count, of.milli, frozenset(of.models)), of.pods)
            for of in args.typical_pods
        )
        self._table: _Table | None = None

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Return the sigmoid of how many GPUs fewer are fragments, from 0 to 100; 50: nothing changes."""
        columns, request = state.read(GPUS), state.read(GPU_REQUEST)
        typical = self._typical or state.read(TYPICAL_PODS)
        if columns is None or request is None or not typical:
            return np.zeros(len(nodes), np.int64)
        known = self._up_to_date(columns, request, typical, nodes.rows)
        scores: Int64 = known.score[nodes.rows]
        return scores

    def choose_gpu(self, state: CycleState, pod: Pod, row: int) -> int | None:
        """Return the GPU by which the node has its score; None where nodes are equal, or none suffices."""
        columns, request = state.read(GPUS), state.read(GPU_REQUEST)
        typical = self._typical or state.read(TYPICAL_PODS)
        if columns is None or request is None or not typical:
            return None
        gpu = int(self._up_to_date(columns, request, typical, np.array([row])).gpu[row])
        return gpu if columns.free[row, gpu] >= request.milli else None

    def _up_to_date(self, of: GPUColumns, request: GPURequest, typical: TypicalPods, rows: Int64) -> _Known:
        size, table = len(of.generation), self._table
        if table is None or table.typical is not typical or len(table.generation) != size:
            table = self._table = _Table(typical, np.zeros(size), np.full(size, -1))
        known = table.requests.get(request)
        if known is None:
            if len(table.requests) >= _MOST_REQUESTS:
                table.requests.clear()
            known = _Known(np.zeros(size, np.int64), np.zeros(size, np.int64), np.full(size, -1))
            table.requests[request] = known
        stale = rows[table.generation[rows] != of.generation[rows]]
        if len(stale):
            table.fragments[stale] = typical.fragments(
                of.cpu_free[stale], of.free[stale], of.model[stale], of.models
            )
            table.generation[stale] = of.generation[stale]
        stale = rows[known.generation[rows] != of.generation[rows]]
        if len(stale):
            known.score[stale], known.gpu[stale] = _scores(of, request, table, stale)
            known.generation[stale] = of.generation[stale]
        return known


def _scores(of: GPUColumns, request: GPURequest, table: _Table, rows: Int64) -> tuple[Int64, Int64]:
    """Return the scores (n,) of nodes, and the GPU (n,) that a pod which shares one would get there."""
    free = of.free[rows]
    if request.is_shared:
        node, gpu = np.nonzero((free >= request.milli) & _first_of_equals(free))
        after = free[node]
        after[np.arange(len(node)), gpu] -= request.milli
    else:
        node, gpu = np.arange(len(rows)), np.zeros(len(rows), np.int64)
        whole = free >= request.milli
        whole &= whole.cumsum(axis=1) <= request.count
        after = np.where(whole, free - request.milli, free)
    at = rows[node]
    fragments = table.typical.fragments(of.cpu_free[at] - request.cpu, after, of.model[at], of.models)
    fewer = (table.fragments[at] - fragments) / 1000
    tried = np.full((len(rows), max(free.shape[1], 1)), -1, np.int64)
    tried[node, gpu] = (MAX_NODE_SCORE / (1 + np.exp(-fewer))).astype(np.int64)
    return tried.max(axis=1).clip(0), tried.argmax(axis=1)


def _first_of_equals(free: Int64) -> Bool:
    """(n, GPUs) whether no GPU before it has as much left: equal ones need not be tried twice."""
    earlier = np.tri(free.shape[1], k=-1, dtype=np.bool_)
    first: Bool = ~((free[:, :, None] == free[:, None, :]) & earlier).any(axis=2)
    return first
