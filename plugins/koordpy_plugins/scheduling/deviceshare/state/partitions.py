"""Partitions of GPUs: the groups of minors that a node's interconnect can give to one pod.

A table comes with the Device, or is known from the GPU model in the labels of the Node. Source: Koordinator,
`apis/extension/device_share.go` (GPUPartitionTable), `pkg/scheduler/plugins/deviceshare/
allocator_gpu_helper.go` (GetGPUPartitionIndexer, GetDesignatedGPUPartitionIndexer).
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from koordpy.api import extension
from koordpy.api.quantity import Quantity, from_wire
from koordpy.lib import go_json, int64

from .minors import bits_of

HONOR: Final = "Honor"
"""The policy by which a node gives GPUs in partitions alone; any other one prefers them."""

MOST_PARTITIONS: Final = 1024
"""Choosing a partition compares all with each other; the largest known table has 15."""


MOST_GPUS: Final = 64
"""GPUs of a partition: as many as sets of minors can have."""


@dataclass(frozen=True, slots=True)
class Partition:
    """GPUs that can be given to one pod; `bandwidth` is that of their ring bus."""

    minors: tuple[int, ...]
    bits: int
    score: int = 0
    bandwidth: Quantity | None = None

    @classmethod
    def of(cls, minors: Iterable[int], score: int = 0, bandwidth: Quantity | None = None) -> "Partition":
        """Return the partition of some minors, in the order in which they are allocated."""
        minors = tuple(minors)
        return cls(minors, bits_of(minors), score, bandwidth)


Group = tuple[Partition, ...]
"""Partitions of one allocation score, in the order of the table."""

PartitionIndex = Mapping[int, tuple[Group, ...]]
"""By the number of GPUs, groups by ascending allocation score."""


def index_of(table: Mapping[int, Iterable[Partition]]) -> PartitionIndex:
    """Return the index of a table; a number of GPUs without partitions is not in it."""
    index = {}
    for count, partitions in table.items():
        groups: dict[int, list[Partition]] = {}
        for partition in partitions:
            groups.setdefault(partition.score, []).append(partition)
        if groups:
            index[count] = tuple(tuple(groups[score]) for score in sorted(groups))
    return index


def of_device(annotations: Mapping[str, str]) -> PartitionIndex | None:
    """Return the index of the table that a Device has, None if it has none. Raises ValueError."""
    text = annotations.get(extension.ANNOTATION_GPU_PARTITIONS)
    if not text:
        return None
    try:
        members = go_json.mapping(go_json.parse(text), "value")
        if members is None:
            raise ValueError("expected an object")
        table = {_count(key): _partitions(value, key) for key, value in members.items()}
        if sum(map(len, table.values())) > MOST_PARTITIONS:
            raise ValueError(f"more than {MOST_PARTITIONS} partitions")
        return index_of(table)
    except ValueError as error:
        raise ValueError(f"annotation {extension.ANNOTATION_GPU_PARTITIONS}: {error}") from None


def _count(key: str) -> int:
    count = int64.parse(key)
    if count is None:
        raise ValueError(f"{key!r}: expected a number of GPUs")
    return count


def _partitions(value: Any, key: str) -> list[Partition]:
    return [_partition(item, f"{key}[{at}]") for at, item in enumerate(go_json.array(value, key) or [])]


def _partition(value: Any, place: str) -> Partition:
    document = go_json.members(value, place)
    minors = go_json.array(document.get("minors"), f"{place}.minors") or []
    if len(minors) > MOST_GPUS:
        raise ValueError(f"{place}.minors: more than {MOST_GPUS} GPUs")
    bandwidth = document.get("ringbusbandwidth")
    return Partition.of(
        [go_json.integer(minor, f"{place}.minors") for minor in minors],
        go_json.integer(document.get("allocationscore"), f"{place}.allocationScore"),
        None if bandwidth is None else from_wire(bandwidth),
    )


def honors(labels: Mapping[str, str]) -> bool:
    """Return whether the policy of a Device or Node is to give GPUs in partitions alone."""
    return labels.get(extension.LABEL_GPU_PARTITION_POLICY) == HONOR


HOPPER: Final[PartitionIndex] = index_of(
    {
        count: [Partition.of(range(first, first + count), 1) for first in range(0, 8, count)]
        for count in (1, 2, 4, 8)
    }
)
"""The partitions of NVIDIA's Hopper GPUs."""

_HOPPER_MODELS: Final = frozenset(("H100", "H800", "H20"))


def of_node(labels: Mapping[str, str]) -> PartitionIndex | None:
    """Return the index of the GPU model in a Node's labels, None if its partitions are not known."""
    if labels.get(extension.LABEL_GPU_VENDOR, "") not in ("", "nvidia"):
        return None
    return HOPPER if labels.get(extension.LABEL_GPU_MODEL) in _HOPPER_MODELS else None
