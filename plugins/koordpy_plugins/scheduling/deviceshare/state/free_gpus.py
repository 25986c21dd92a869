"""The GPUs of all nodes in milli-GPU, for plugins that score by them (`koordpy.scheduling.interface.gpus`).

Of a GPU's compute and its memory, in percent, the smaller rest counts. What a reservation holds counts as
requested, and what its owners use of it once more. Only rows of which pods, Node, Device or allocations have
changed are written, when the columns are asked for.
"""

from collections.abc import Collection, Mapping
from typing import Any, ClassVar, Final

from koordpy.api import extension
from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.meta import KubeObject
from koordpy.api.quantity import Quantity
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import CPU
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.lib import int64
from koordpy.scheduling.interface.gpus import NO_GPU, WHOLE_GPU, GPUColumns

from .columns import MINORS
from .exact import UNIT, Exact, is_zero
from .interner import Interner
from .ledger import DeviceLedger
from .node_devices import GPU, NodeDevices

PERCENTAGES: Final = (extension.GPU_CORE, extension.GPU_MEMORY_RATIO)
"""What of a GPU is counted in percent."""

PERCENT: Final = WHOLE_GPU // 100
"""Milli-GPU of a percent."""

MIXED: Final = -1
"""The memory of GPUs that have different amounts of it."""


class FreeGPUs(DerivedState):
    """The columns; minors from 32 on are left out, as if nodes did not have them.

    As in the ledger, what stays known of deleted Devices is not part of the snapshot.
    """

    settled_by: ClassVar[tuple[type[KubeObject], ...]] = (Device,)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        table = self._table = cluster.nodes
        self._ledger = cluster.shared(DeviceLedger)
        self._devices = cluster.store(Device)
        self._cpu = table.add_column()
        self._free = table.add_column(1, fill=NO_GPU)
        self._pods = table.add_column(2)
        self._model = table.add_column(fill=-1)
        self._generation = table.add_column()
        self._memory = table.add_column()
        self._clock = 0
        self._memory_clock = 0
        self._common_memory: tuple[tuple[int, int], int | None] = (-1, -1), None
        """As of which generations of Nodes and of `_memory` it is known."""
        self._models: Interner[str] = Interner()
        self._names: list[str] = []
        self._changed: set[int] = set()
        """Rows of which pods may have changed."""
        self._dirty: set[str] = set()
        """Nodes of which anything else has changed."""
        self._columns = GPUColumns(
            self._cpu.values,
            self._free.values,
            self._model.values,
            self._names,
            self._pods.values,
            self._generation.values,
        )
        self.at_close(self._ledger.on_change(self._mark))
        self.follow(
            Node,
            lambda node: self._mark(node.metadata.name),
            lambda _, node: self._mark(node.metadata.name),
            lambda node: self._mark(node.metadata.name),
        )
        self.at_close(table.on_pods(self._pods_changed, self._pods_changed))

    def columns(self) -> GPUColumns:
        """Return the columns, up to date: always the same object."""
        if self._dirty or self._changed:
            self.refresh_some(len(self._dirty))
        columns = self._columns
        columns.cpu_free, columns.free = self._cpu.values, self._free.values
        columns.model, columns.pods = self._model.values, self._pods.values
        columns.generation = self._generation.values
        return columns

    def memory(self) -> int | None:
        """Return the bytes that every GPU of the cluster has; None if they differ, or there are none."""
        self.columns()
        as_of = self._table.latest_generation, self._memory_clock
        if self._common_memory[0] != as_of:
            sizes = self._memory.values[self._table.present]
            known = sizes[sizes != 0]
            is_common = len(known) and known[0] > 0 and bool((known == known[0]).all())
            self._common_memory = as_of, int(known[0]) if is_common else None
        return self._common_memory[1]

    def snapshot(self) -> Snapshot:
        """Return what nodes have left, of GPUs if they have a Device."""
        columns = self.columns()
        nodes = self._table.all()
        return {
            name: {"cpu": int(columns.cpu_free[row])}
            | (self._shown(columns, row) if name in self._devices else {})
            for name, row in zip(nodes.names, nodes.rows.tolist(), strict=True)
        }

    def _shown(self, columns: GPUColumns, row: int) -> dict[str, Any]:
        free, pods = columns.free[row].tolist(), columns.pods[row].tolist()
        model = int(columns.model[row])
        return {
            "free": {minor: left for minor, left in enumerate(free) if left != NO_GPU},
            "pods": {gpus: count for gpus, count in enumerate(pods) if count},
            "model": None if model < 0 else columns.models[model],
            "memory": int(self._memory.values[row]),
        }

    # --- changes ---------------------------------------------------------------------------------

    def _mark(self, name: str) -> None:
        """Something of a node has changed; what has no Node object is not written."""
        row = self._table.row_of(name)
        if row is not None and self._table.present[row]:
            self._dirty.add(name)
        else:
            self._dirty.discard(name)

    def _pods_changed(self, row: int, _: Pod) -> None:
        self._changed.add(row)

    def refresh_some(self, at_most: int) -> bool:
        """Write some of the nodes that have changed, and what CPUs are left of nodes once all are written."""
        for _ in range(min(at_most, len(self._dirty))):
            name = self._dirty.pop()
            row = self._table.row_of(name)
            if row is not None:
                self._write(row, name)
                self._changed.add(row)
        if self._dirty:
            return True
        for row in self._changed:
            if self._table.present[row]:
                self._write_cpu(row)
        self._changed.clear()
        return False

    def _write_cpu(self, row: int) -> None:
        # Requests are not bounded by what a node has: who names the node in a pod's spec can add up any sum.
        left = int64.wrap(int(self._table.allocatable[row, CPU]) - int(self._table.requested[row, CPU]))
        if left != self._cpu.cells[row]:
            self._cpu.cells[row] = left
            self._touch(row)

    def _write(self, row: int, name: str) -> None:
        devices, node = self._ledger.node(name), self._table.node(row)
        devices = devices or _NO_DEVICES
        free, counts = _free(devices), _counts(devices)
        self._free.widen(max(max(free, default=0) + 1, max(counts, default=0)))
        self._pods.widen(self._free.width + 1)
        self._free.reset(row)
        self._pods.reset(row)
        for minor, left in free.items():
            self._free.cells[row, minor] = left
        for gpus, count in counts.items():
            self._pods.cells[row, gpus] = count
        memory = _memory(devices)
        if memory != self._memory.cells[row]:
            self._memory.cells[row] = memory
            self._memory_clock += 1
        model = node.metadata.labels.get(extension.LABEL_GPU_MODEL, "") if node is not None else ""
        self._model.cells[row] = self._model_of(model) if free else -1
        self._touch(row)

    def _model_of(self, model: str) -> int:
        number = self._models.id_of(model) if model else None
        if number is None:
            return -1
        if number == len(self._names):
            self._names.append(model)
        return number

    def _touch(self, row: int) -> None:
        self._clock += 1
        self._generation.cells[row] = self._clock


_NO_DEVICES: Final = NodeDevices()


def _listed(devices: NodeDevices) -> Collection[int]:
    """Return the minors of the GPUs that are listed and healthy."""
    totals = devices.amounts(GPU).total
    minors = (info.minor or 0 for info in devices.infos.get(GPU, ()))
    return {minor for minor in minors if 0 <= minor < MINORS and not is_zero(totals.get(minor, {}))}


def _free(devices: NodeDevices) -> dict[int, int]:
    """Return milli-GPU by minor."""
    free = devices.amounts(GPU).free
    found = {minor: _milli(devices.amounts(GPU).total[minor], free[minor]) for minor in _listed(devices)}
    return {minor: left for minor, left in found.items() if left is not None}


def _milli(total: Exact, free: Exact) -> int | None:
    """Return what is left of a GPU; None if it has nothing that is counted in percent."""
    left = [free.get(name, 0) * PERCENT // UNIT for name in PERCENTAGES if total.get(name)]
    return min(max(min(left), 0), WHOLE_GPU) if left else None


def _counts(devices: NodeDevices) -> dict[int, int]:
    """Return how many pods have so many GPUs of a node, at most 32, and 0 for a part of one."""
    counts: dict[int, int] = {}
    for minors in devices.allocations.get(GPU, {}).values():
        gpus = len(minors)
        if gpus == 1 and any(0 < milli_of(amounts) < WHOLE_GPU for amounts in minors.values()):
            gpus = 0
        gpus = min(gpus, MINORS)
        counts[gpus] = counts.get(gpus, 0) + 1
    return counts


def _memory(devices: NodeDevices) -> int:
    """Return the bytes that each GPU of a node has, 0 without GPUs, MIXED if they differ."""
    totals = devices.amounts(GPU).total
    sizes = {
        min(max(totals[minor].get(extension.GPU_MEMORY, 0) // UNIT, 0), int64.MAX)
        for minor in _listed(devices)
    }
    if len(sizes) > 1:
        return MIXED
    return sizes.pop() if sizes else 0


def milli_of(amounts: Mapping[str, Quantity]) -> int:
    """Return the milli-GPU of what a pod has, or wants, of one GPU: the largest percentage; 0 without any."""
    return max((amounts[name].value() * PERCENT for name in PERCENTAGES if name in amounts), default=0)
