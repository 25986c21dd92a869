"""How much of a node's free GPUs the pods of a workload cannot use: fragments, in milli-GPU.

After Weng et al., "Beware of Fragmentation: Scheduling GPU-Sharing Workloads with Fragmentation Gradient
Descent", USENIX ATC 2023, section 3. With respect to one pod, free GPUs of a node are a fragment

* all of them, if the pod requests no GPU, may not use the model, finds too few GPUs or too little CPU;
* otherwise those with less left than the pod requests of a GPU.

The fragments of a node are the mean of these over the *typical pods* of a workload.
"""

from collections import Counter
from collections.abc import Iterable, Sequence

import numpy as np

from koordpy.cluster.columns import Int64

from ..interface.cycle_state import StateKey
from ..interface.gpus import GPURequest


class TypicalPods:
    """The most frequent requests of a workload, which `share` of its pods have, with their frequencies."""

    def __init__(self, frequencies: Iterable[tuple[GPURequest, int]]) -> None:
        self.frequencies = list(frequencies)
        """Requests and how many pods have each."""
        gpu = [(request, count) for request, count in self.frequencies if request.count]
        self._requests = [request for request, _ in gpu]
        self._total = float(sum(count for _, count in self.frequencies))
        self._counts = np.array([count for _, count in gpu], np.float64)
        self._cpu = np.array([request.cpu for request, _ in gpu], np.int64)[:, None]
        self._gpus = np.array([request.count for request, _ in gpu], np.int64)[:, None]
        thresholds = sorted({request.milli for request, _ in gpu})
        self._thresholds = np.array(thresholds, np.int64)[:, None]
        self._threshold = np.array([thresholds.index(request.milli) for request, _ in gpu], np.int64)
        self._access: dict[tuple[str, ...], np.ndarray] = {}

    @classmethod
    def of(cls, requests: Iterable[GPURequest], share: float = 0.95) -> "TypicalPods":
        """Return the typical ones of the pods of a workload: the most frequent until they are `share` of all.

        Of equally frequent requests, those for more CPU, then more of a GPU, then more GPUs come first.
        """
        counts = Counter(requests)
        ordered = sorted(counts.items(), key=lambda item: (item[1], _order(item[0])), reverse=True)
        wanted, reached, taken = share * counts.total(), 0, 0
        while reached < wanted and taken < len(ordered):
            reached += ordered[taken][1]
            taken += 1
        return cls(ordered[:taken])

    def __bool__(self) -> bool:
        return bool(self.frequencies)

    def fragments(self, cpu: Int64, gpus: Int64, model: Int64, models: Sequence[str]) -> np.ndarray:
        """Return (n,) the fragments of nodes with this CPU (n,) and these GPUs (n, GPUs) left, in milli-GPU.

        `gpus` may have negative cells for GPUs that a node does not have. `model` (n,) is the index of the
        nodes' model in `models`. Equal nodes have exactly equal fragments: sums are of whole numbers.
        """
        left = gpus.clip(0)
        suffices = left[None, :, :] >= self._thresholds[:, :, None]
        fitting = suffices.sum(axis=2)[self._threshold] >= self._gpus
        usable = (suffices * left).sum(axis=2)[self._threshold]
        used = usable * (fitting & (cpu >= self._cpu) & self._accessible(tuple(models))[:, model])
        return np.asarray(left.sum(axis=1) - (self._counts @ used.astype(np.float64)) / self._total)

    def _accessible(self, models: tuple[str, ...]) -> np.ndarray:
        """(typical pods, models + 1) whether a pod may use a model; the last column is of unknown models."""
        known = self._access.get(models)
        if known is None:
            known = np.array(
                [[not r.models or name in r.models for name in (*models, "")] for r in self._requests],
                np.bool_,
            ).reshape(len(self._requests), len(models) + 1)
            self._access[models] = known
        return known


TYPICAL_PODS: StateKey[TypicalPods] = StateKey("koordpy.dev/typical-pods")
"""The typical pods of the workload that is being scheduled, where they are known."""


def _order(request: GPURequest) -> tuple[int, int, int, str]:
    return request.cpu, request.milli, request.count, "|".join(sorted(request.models))
