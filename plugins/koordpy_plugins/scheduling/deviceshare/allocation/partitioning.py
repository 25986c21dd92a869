"""Which partition of GPUs a pod gets: the one that leaves the largest partitions free.

Source: Koordinator, `pkg/scheduler/plugins/deviceshare/allocator_gpu.go` (allocateByPartition,
selectPartitionByBinPack).
"""

from collections.abc import Mapping, Sequence
from typing import Final

from koordpy.lib import go_sort
from koordpy.scheduling.interface.status import Status

from ..state.minors import overlap
from ..state.partitions import Partition, PartitionIndex
from . import reasons
from .requests import GPURequirements

WEIGHTS: Final[Mapping[int, int]] = {8: 10000, 4: 100, 2: 1}
"""What a free partition of so many GPUs counts."""


def choose(
    index: PartitionIndex | None, wanted: GPURequirements, used: int, healthy: int
) -> Partition | Status:
    """Return the partition to allocate, or why there is none. `used` and `healthy` are sets of minors."""
    if index is None:
        return reasons.MISSING_PARTITION_TABLE
    groups = index.get(wanted.count)
    if groups is None:
        return reasons.UNSUPPORTED_COUNT
    for group in groups[:1] if wanted.restricted else groups:
        feasible = [partition for partition in group if _is_feasible(partition, wanted, used, healthy)]
        if feasible:
            return _packed(feasible, index, wanted.count, used)
    return reasons.NO_PARTITION


def _is_feasible(partition: Partition, wanted: GPURequirements, used: int, healthy: int) -> bool:
    if overlap(partition.bits, used) or healthy & partition.bits != partition.bits:
        return False
    if wanted.bandwidth is None:
        return True
    return partition.bandwidth is not None and wanted.bandwidth <= partition.bandwidth


def _packed(feasible: Sequence[Partition], index: PartitionIndex, count: int, used: int) -> Partition:
    """Return the partition that leaves most free, weighed by size."""
    if len(feasible) == 1:
        return feasible[0]
    larger = [(weight, index[size][0]) for size, weight in WEIGHTS.items() if size >= count and size in index]
    scored = [
        (
            sum(
                weight * other.score
                for weight, group in larger
                for other in group
                if not overlap(other.bits, used | partition.bits)
            ),
            partition,
        )
        for partition in feasible
    ]
    go_sort.sort(scored, lambda left, right: left[0] > right[0])
    return scored[0][1]
