"""Which GPUs a pod gets, in many states of nodes at once: see `gpu` for one node."""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

import numpy as np
from numpy.typing import NDArray

from koordpy.scheduling.interface.status import Status

from ..state.columns import MINORS
from ..state.gpu_topology import LEVELS
from ..state.partitions import Group, Partition, PartitionIndex
from . import reasons
from .partitioning import WEIGHTS
from .requests import GPU, GPURequirements
from .view_arrays import Bits, Bool, Int64, ViewArrays, lowest

Levels = NDArray[np.int8]

Refusal = tuple[Bool, Status]
"""The rows (n,) that are refused for a reason; the first one counts."""

_DEEPEST: Final = 3
"""The level of a PCIe switch."""


class GPUArrays:
    """The choice for n rows. Its answers are those of `gpu.allocate` without a scorer."""

    def __init__(self, views: ViewArrays, wanted: GPURequirements) -> None:
        self._views, self._wanted = views, wanted
        columns, of_type = views.columns, views.of(GPU)
        fitting = views.fitting(GPU, wanted.exact)
        self._healthy = views.devices(GPU, of_type.healthy)
        self._fitting = fitting & self._healthy
        self._free = fitting & views.devices(GPU, of_type.free_at_all)
        self._used = views.used(GPU)
        self._has_tree: Bool = views.read(columns.has_tree)
        is_searched = not (wanted.shared and wanted.count > 1)
        self._by_place = self._has_tree if is_searched else np.zeros_like(self._has_tree)
        self._tables: Int64 = views.read(columns.table_id)

    def refusals(self) -> list[Refusal]:
        """Return which rows are refused."""
        missing = self._templates == 0
        by_partition = [
            (of_table & (self._partitions == 0) & self._honors, status)
            for of_table, _, status in self._by_table()
        ]
        general = self._is_general & ~self._honors
        refused = [(general & each, status) for each, status in self._general_refusals()]
        return [(missing, reasons.NO_TEMPLATE), *by_partition, *refused]

    def minors(self) -> Bits:
        """(n,) the GPUs that rows give which are not refused."""
        candidates = np.where(self._by_place, self._scopes & self._fitting, self._free)
        return np.where(self._is_general, lowest(candidates, self._wanted.count), self._partitions)

    # --- strategies ------------------------------------------------------------------------------

    @cached_property
    def _templates(self) -> Int64:
        """(n,) how many templates are suitable; 2 if none needs to be."""
        wanted, columns = self._wanted, self._views.columns
        if not wanted.enforces_templates:
            return np.full(len(self._views), 2)
        candidates = np.array([len(wanted.templates.get(key, ())) for key in columns.models] or [0])
        models: Int64 = self._views.read(columns.model_id)
        return np.where(models >= 0, candidates.take(models, mode="clip"), 0)

    @cached_property
    def _may_be_partition(self) -> Bool:
        """(n,) where a partition is looked for."""
        found: Bool = (self._templates > 1) & (not self._wanted.shared)
        return found

    @cached_property
    def _honors(self) -> Bool:
        """(n,) where nothing but a partition will do."""
        honors: Bool = self._views.read(self._views.columns.honors)
        honored: Bool = self._may_be_partition & (honors | self._wanted.honors_partitions)
        return honored

    @property
    def _is_general(self) -> Bool:
        """(n,) where no partition is found."""
        return np.asarray(self._partitions == 0, np.bool_)

    # --- partitions ------------------------------------------------------------------------------

    def _by_table(self) -> Iterator[tuple[Bool, Sequence[Group], Status]]:
        """Yield for each table its rows, the partitions that are considered, and why there might be none."""
        wanted = self._wanted
        for number in np.unique(self._tables[self._may_be_partition]).tolist():
            groups = None if number < 0 else self._index(number).get(wanted.count)
            if number < 0:
                status = reasons.MISSING_PARTITION_TABLE
            else:
                status = reasons.UNSUPPORTED_COUNT if groups is None else reasons.NO_PARTITION
            here = self._may_be_partition & (self._tables == number)
            yield here, (groups or ())[: 1 if wanted.restricted else None], status

    def _index(self, number: int) -> PartitionIndex:
        return dict(self._views.columns.tables.value_of(number))

    @cached_property
    def _partitions(self) -> Bits:
        """(n,) the GPUs of the chosen partition, none where there is none."""
        found = np.zeros(len(self._views), np.uint32)
        for of_table, groups, _ in self._by_table():
            here = np.flatnonzero(of_table)
            for partitions in groups:
                offered = [each for each in partitions if _is_offered(each, self._wanted)]
                here = here[found[here] == 0]
                if offered and len(here):
                    index = self._index(int(self._tables[here[0]]))
                    found[here] = self._packed(here, offered, index)
        return found

    def _packed(self, here: Int64, offered: Sequence[Partition], index: PartitionIndex) -> Bits:
        """(here,) the partition that leaves most free, weighed by size; see `partitioning.choose`."""
        bits = np.array([each.bits for each in offered], np.uint32)
        used, healthy = self._used[here, None], self._healthy[here, None]
        feasible = ((used & bits) == 0) & ((healthy & bits) == bits)
        left = np.zeros(feasible.shape, np.int64)
        for size, weight in WEIGHTS.items():
            if size >= self._wanted.count and size in index:
                for other in index[size][0]:
                    overlaps = (used | bits) & np.uint32(other.bits & (1 << MINORS) - 1)
                    left += np.where(overlaps == 0, weight * other.score, 0)
        best = np.where(feasible, left, np.iinfo(np.int64).min).argmax(axis=1)
        return np.where(feasible.any(axis=1), bits[best], np.uint32(0))

    # --- places ----------------------------------------------------------------------------------

    def _general_refusals(self) -> list[Refusal]:
        wanted = self._wanted
        if wanted.required_scope:
            missing = (~self._has_tree, reasons.MISSING_TOPOLOGY)
            if wanted.shared and wanted.count > 1:
                return [missing, (self._has_tree, reasons.SHARED_GPUS)]
            return [missing, (self._scopes == 0, reasons.NO_TOPOLOGY_SCOPE)]
        few = np.bitwise_count(self._fitting) < wanted.count
        none = np.bitwise_count(self._free) < wanted.count
        return [
            (self._by_place & few, reasons.NO_GPUS),
            (~self._by_place & none, reasons.too_few_devices(GPU)),
        ]

    @cached_property
    def _scopes(self) -> Bits:
        """(n,) the scope in the tree of places that gives the GPUs: the deepest, then the one most in use.

        Of equal ones the first in the tree; no GPUs where no scope can. Scopes are in the order of the tree,
        each before those within it. See `gpu_topology.TopologySearch`.
        """
        columns, wanted = self._views.columns, self._wanted
        states, most = self._views.states, columns.most_scopes
        scopes: Bits = columns.scopes.values[:, :most].T.take(states, axis=1)
        levels: Levels = columns.levels.values[:, :most].T.take(states, axis=1)
        least, count = max(LEVELS.get(wanted.required_scope, 0), 1), len(states)
        best, ranks = np.zeros(count, np.uint32), np.zeros(count, np.int8)
        in_use = np.zeros((LEVELS["Device"] + 1, count), np.int8)
        rows = np.arange(count)
        for scope, level in zip(scopes, levels, strict=True):
            least_level, deepest = int(level.min(initial=0)), int(level.max(initial=0))
            if not deepest:
                break
            # The trees of most machines are alike: a row of the array, rather than a cell for each.
            at = (deepest,) if least_level == deepest else (level, rows)
            above = (deepest - 1,) if least_level == deepest else (level - 1, rows)
            in_use[at] = in_use[above] + ((scope & self._used) != 0)
            if deepest < least:
                continue
            rank = (_DEEPEST + 1) * level + in_use[at]
            wins = (np.bitwise_count(scope & self._fitting) >= wanted.count) & (rank > ranks)
            if least_level < least:
                wins &= level >= least
            best[wins], ranks[wins] = scope[wins], rank[wins]
        return best


def _is_offered(partition: Partition, wanted: GPURequirements) -> bool:
    """Whether a partition is in the columns, and has the bandwidth."""
    if partition.bits >> MINORS:
        return False
    bandwidth = wanted.bandwidth
    return bandwidth is None or (partition.bandwidth is not None and bandwidth <= partition.bandwidth)
