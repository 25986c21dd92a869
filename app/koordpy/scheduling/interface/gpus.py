"""GPUs of nodes as columns, one by one in milli-GPU, for plugins that score nodes by them.

Whoever accounts for the GPUs of a cluster (DeviceShare does) writes `GPUS` and `GPU_REQUEST` into the state
of an attempt before Score; plugins that score by GPUs read them there and never ask who that was. Rows are
those of the node table (`NodeSet.rows`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64

from .cycle_state import CycleState, StateKey

WHOLE_GPU = 1000
"""Milli-GPU of a whole GPU."""

NO_GPU = -1
"""In `GPUColumns.free`: the node has no such GPU."""


@dataclass(frozen=True, slots=True)
class GPURequest:
    """What a pod requests: milli-CPU, and a number of GPUs with so many milli-GPU of each.

    Where compute and memory of a GPU are requested apart, the larger share counts.
    """

    cpu: int
    count: int = 0
    milli: int = 0
    """Of each GPU, 0 to 1000."""
    models: frozenset[str] = frozenset()
    """The models that the GPUs may be of; empty: any."""

    @property
    def total(self) -> int:
        """The requested milli-GPU of all GPUs."""
        return self.count * self.milli

    @property
    def is_shared(self) -> bool:
        """Whether a part of one GPU is requested."""
        return self.count == 1 and self.milli < WHOLE_GPU


@dataclass(slots=True)
class GPUColumns:
    """What nodes have left, with a row per node. Read only."""

    cpu_free: Int64
    """(rows,) milli-CPU that no pod requests; less than 0 where pods request more than there is."""
    free: Int64
    """(rows, GPUs) milli-GPU of each GPU that no pod requests, by minor; `NO_GPU` for those that the node
    does not have, or that are not healthy. Of compute and memory the smaller share counts."""
    model: Int64
    """(rows,) index into `models`, -1 for nodes without GPUs or of unknown model."""
    models: Sequence[str]
    pods: Int64
    """(rows, 1 + GPUs) how many pods share a GPU (0), or have so many whole ones (1 and more)."""
    generation: Int64
    """(rows,) another number whenever any of the row's other cells changes."""

    def free_total(self, rows: Int64) -> Int64:
        """(n,) milli-GPU left on all GPUs of each node together."""
        total: Int64 = self.free[rows].clip(0).sum(axis=1)
        return total


class ChooseGPU:
    """May be implemented by a plugin with Score: on which GPU of the chosen node a pod goes that shares one.

    Of several such plugins that are enabled at Score the one with the largest weight chooses, of equal ones
    the first that does. What a reservation holds for the pod, a recorded allocation and the pod's own hints
    come before the choice, and a GPU that turns out not to suffice is replaced. For pods with whole GPUs no
    plugin is asked: they get the first free ones, unless places or partitions say otherwise. Without a
    choice, a pod that shares a GPU gets what whoever accounts for GPUs prefers: DeviceShare by its scoring
    strategy, `koordpy simulate` the one with the least left that suffices, of equal ones the first.
    """

    def choose_gpu(self, state: CycleState, pod: Pod, row: int) -> int | None:
        """Return the minor of a GPU with at least the request left; None to leave the choice to others."""
        raise NotImplementedError


GPUS: StateKey[GPUColumns] = StateKey("koordpy.dev/gpus")
"""The columns of all nodes, as they are now: what-ifs do not change them."""

GPU_REQUEST: StateKey[GPURequest] = StateKey("koordpy.dev/gpu-request")
"""What the pod of the attempt requests; also of pods without GPUs. Absent where that depends on the node."""
