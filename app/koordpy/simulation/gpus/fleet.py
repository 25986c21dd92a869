"""The GPUs of a simulated cluster, one by one in milli-GPU, and what fits where."""

from collections.abc import Sequence

import numpy as np

from koordpy.cluster.columns import Bool, Int64
from koordpy.scheduling.interface.gpus import NO_GPU, WHOLE_GPU, GPUColumns, GPURequest

from .workload import Node, Request


class Fleet:
    """What nodes have left. Rows are in the order of the given nodes."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        width = max(node.gpus for node in nodes)
        models = sorted({node.model for node in nodes if node.model})
        count = np.array([node.gpus for node in nodes], np.int64)
        self.columns = GPUColumns(
            cpu_free=np.array([node.cpu for node in nodes], np.int64),
            free=np.where(np.arange(width) < count[:, None], WHOLE_GPU, NO_GPU),
            model=np.array([models.index(n.model) if n.model else -1 for n in nodes], np.int64),
            models=models,
            pods=np.zeros((len(nodes), 1 + width), np.int64),
            generation=np.zeros(len(nodes), np.int64),
        )
        self.memory_free = np.array([node.memory for node in nodes], np.int64)
        self.capacity = int(count.sum()) * WHOLE_GPU
        """Milli-GPU of all GPUs."""
        self.used = 0
        """Milli-GPU that pods have."""
        self._allowed: dict[frozenset[str], Bool] = {}

    def fits(self, request: Request) -> Int64:
        """Return the rows (n,) of nodes with CPU, memory and GPUs for a pod, of a model that it may use."""
        columns, gpu = self.columns, request.gpu
        fit = (columns.cpu_free >= gpu.cpu) & (self.memory_free >= request.memory)
        if gpu.count:
            fit &= (columns.free >= gpu.milli).sum(axis=1) >= gpu.count
            if gpu.models:
                fit &= self._may_use(gpu.models)
        return np.flatnonzero(fit)

    def tightest(self, request: GPURequest, row: int) -> int:
        """Return the GPU of a node with the least left that suffices for a pod which shares one."""
        free = self.columns.free[row]
        return int(np.where(free >= request.milli, free, WHOLE_GPU + 1).argmin())

    def place(self, request: Request, row: int, gpu: int | None = None) -> None:
        """Allocate to a pod: one that shares a GPU gets `gpu`, others the first free ones."""
        columns, wanted = self.columns, request.gpu
        free = columns.free[row]
        if wanted.is_shared:
            assert gpu is not None
            minors = np.array([gpu])
        else:
            minors = np.flatnonzero(free >= wanted.milli)[: wanted.count]
        if len(minors) < wanted.count or (free[minors] < wanted.milli).any():
            raise ValueError(f"row {row}: {wanted} does not fit on GPUs with {free.tolist()} left")
        free[minors] -= wanted.milli
        columns.cpu_free[row] -= wanted.cpu
        self.memory_free[row] -= request.memory
        if wanted.count:
            columns.pods[row, 0 if wanted.is_shared else wanted.count] += 1
        columns.generation[row] += 1
        self.used += wanted.total

    def _may_use(self, models: frozenset[str]) -> Bool:
        known = self._allowed.get(models)
        if known is None:
            columns = self.columns
            # The last one is that of nodes without a model.
            of_model = np.array([name in models for name in (*columns.models, "")], np.bool_)
            known = self._allowed[models] = of_model[columns.model]
        return known
