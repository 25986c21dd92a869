"""The devices of nodes as columns of the node table, for questions about all nodes at once.

Only rows whose node, Device or allocations have changed are written, at the next reading. A row that the
columns cannot hold exactly (minors beyond 15, fractions, huge amounts) says so.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.api.device import Device
from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import Column
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.nodes import NodeTable

from . import partitions
from .device_amounts import Left
from .exact import UNIT, Exact, is_zero
from .gpu_topology import Scope
from .interner import Interner
from .layout import Layout, layout_of
from .ledger import DeviceLedger
from .minors import bits_of
from .node_devices import NodeDevices

MINORS: Final = 16
"""Cells of a device in each row."""

SCOPES: Final = 2 * MINORS + 1
"""The most scopes that a tree of so many GPUs has."""

MISSING: Final = 1 << 62
"""In a row of free amounts, a resource that a device does not have, and that no request exceeds."""

_MOST: Final = 1 << 50
"""The largest exact amount: sums of it times a score fit 64 bits."""

GPU_NAMES: Final = (
    extension.GPU_CORE,
    extension.GPU_MEMORY,
    extension.GPU_MEMORY_RATIO,
    extension.HUAWEI_NPU_CORE,
    extension.HUAWEI_NPU_CPU,
    extension.HUAWEI_NPU_DVPP,
)
NAMES: Final = {"gpu": GPU_NAMES, "rdma": (extension.RDMA,), "fpga": (extension.FPGA,)}
"""The resources of each type, in the order of their cells."""

_COLUMNS: Final = (
    "count",
    "exact",
    "healthy",
    "free_at_all",
    "used",
    "listed",
    "known_used",
    "capacity",
    "available",
    "free",
    "total",
)
"""The columns of each type."""

_ALL_NAMES: Final = frozenset(name for names in NAMES.values() for name in names)


class SharingLabels(NamedTuple):
    """What the labels of a Node say about sharing its GPUs; "" without a label."""

    provider: str
    """Of the isolation between the pods of a GPU."""
    vendor: str
    model: str


def sharing_labels(labels: Mapping[str, str]) -> SharingLabels:
    """Return what the labels of a Node say."""
    return SharingLabels(
        labels.get(extension.LABEL_GPU_ISOLATION_PROVIDER, ""),
        labels.get(extension.LABEL_GPU_VENDOR, ""),
        labels.get(extension.LABEL_GPU_MODEL, ""),
    )


class TypeColumns:
    """The devices of one type: bit i of a set is minor i.

    `free` has a cell for each minor of each resource, minors innermost; it is -1 for devices that are not
    listed, or have nothing left. `listed` are the others, and `total` what they have. `known_used` are the
    devices of which a pod is known to use something, be it 0. `capacity` and `available` have a cell for each
    resource: the sums of what devices with anything left have, and of what is left of it.
    """

    def __init__(self, table: NodeTable, type_: str) -> None:
        self.names = NAMES[type_]
        width = len(self.names)
        self.count = table.add_column(dtype=np.int32)
        self.exact = table.add_column(dtype=np.bool_, fill=False)
        self.healthy = table.add_column(dtype=np.uint32)
        self.free_at_all = table.add_column(dtype=np.uint32)
        self.used = table.add_column(dtype=np.uint32)
        self.listed = table.add_column(dtype=np.uint32)
        self.known_used = table.add_column(dtype=np.uint32)
        self.capacity = table.add_column(width)
        self.available = table.add_column(width)
        self.free = table.add_column(MINORS * width, fill=-1)
        self.total = table.add_column(MINORS * width)

    @property
    def columns(self) -> dict[str, Column]:
        """The columns by name."""
        return {name: getattr(self, name) for name in _COLUMNS}

    def free_of(self, rows: NDArray[np.intp], name: str, width: int = MINORS) -> NDArray[np.int64]:
        """Return what is left of a resource, by row and minor (n, width)."""
        return self._cells(self.free, rows, name, width)

    def total_of(self, rows: NDArray[np.intp], name: str, width: int = MINORS) -> NDArray[np.int64]:
        """Return what listed devices have of a resource, by row and minor (n, width)."""
        return self._cells(self.total, rows, name, width)

    def _cells(self, column: Column, rows: NDArray[np.intp], name: str, width: int) -> NDArray[np.int64]:
        first = self.names.index(name) * MINORS
        found: NDArray[np.int64] = column.values[:, first : first + width][rows]
        return found

    def write(self, row: int, devices: NodeDevices, type_: str) -> None:
        """Write the cells of a node."""
        if self.count.values[row]:  # what a row without devices has was never written
            for column in self.columns.values():
                column.reset(row)
        self.exact.values[row] = False
        if not devices.total.get(type_):
            self.exact.values[row] = True
            return
        amounts = devices.amounts(type_)
        self.count.values[row] = len(amounts.total)
        listed = {info.minor or 0 for info in devices.infos.get(type_, ())}
        left = {minor: each for minor, each in amounts.left.items() if minor in listed}
        if not all(0 <= minor < MINORS for minor in amounts.total.keys() | listed):
            return
        self.exact.values[row] = self._write_amounts(row, amounts.total, left)
        self.healthy.values[row] = bits_of(minor for minor in left if not is_zero(amounts.total[minor]))
        self.free_at_all.values[row] = bits_of(m for m, each in left.items() if not is_zero(each.free))
        used = {minor for minor, each in left.items() if each.is_used} | (amounts.used.keys() - left.keys())
        self.used.values[row] = bits_of(used)
        self.listed.values[row] = bits_of(left)
        self.known_used.values[row] = bits_of(amounts.used)

    def _write_amounts(self, row: int, totals: Mapping[int, Exact], left: Mapping[int, Left]) -> bool:
        """Write what is left, and the sums; return whether they are exact."""
        alike: dict[tuple[int, int], list[int]] = {}  # devices that share their amounts are read once
        for minor, each in left.items():
            alike.setdefault((id(totals[minor]), id(each.free)), []).append(minor)
        width = len(self.names)
        free, whole = [-1] * (MINORS * width), [0] * (MINORS * width)
        capacity, available = [0] * width, [0] * width
        for minors in alike.values():
            total, its_free = totals[minors[0]], left[minors[0]].free
            if not self._holds(total, its_free):
                return False
            for at, name in enumerate(self.names):
                amount, there = its_free.get(name, 0) // UNIT, total.get(name, 0) // UNIT
                capacity[at] += there * len(minors)
                available[at] += amount * len(minors)
                cell = amount if name in its_free else MISSING
                for minor in minors:
                    free[at * MINORS + minor] = cell
                    whole[at * MINORS + minor] = there
        self.capacity.values[row] = capacity
        self.available.values[row] = available
        self.free.values[row] = free
        self.total.values[row] = whole
        return True

    def _holds(self, total: Exact, free: Exact) -> bool:
        """Whether cells can hold the amounts of a device."""
        if not (_fits(total) and _fits(free)):
            return False
        return all(name in self.names or name not in _ALL_NAMES for name in (*total, *free))


class DeviceColumns(DerivedState):
    """Columns that follow the ledger of devices.

    As in the ledger, what stays known of deleted Devices is not part of the snapshot.
    """

    settled_by: ClassVar[tuple[type[KubeObject], ...]] = (Device,)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        table = self._table = cluster.nodes
        self._ledger = cluster.shared(DeviceLedger)
        self._devices = cluster.store(Device)
        self.known = table.add_column(dtype=np.bool_, fill=False)
        self.types = {type_: TypeColumns(table, type_) for type_ in NAMES}
        self.has_tree = table.add_column(dtype=np.bool_, fill=False)
        self.scopes = table.add_column(SCOPES, dtype=np.uint32)
        self.levels = table.add_column(SCOPES, dtype=np.int8)
        self.table_id = table.add_column(dtype=np.int32, fill=-1)
        self.honors = table.add_column(dtype=np.bool_, fill=False)
        self.model_id = table.add_column(dtype=np.int32, fill=-1)
        self.sharing_id = table.add_column(dtype=np.int32, fill=-1)
        self.layout_id = table.add_column(dtype=np.int32, fill=-1)
        self.is_planned = table.add_column(dtype=np.bool_, fill=False)
        self.tables: Interner[Any] = Interner()
        self.models: Interner[str] = Interner()
        self.sharing: Interner[SharingLabels] = Interner()
        self.layouts: Interner[Layout] = Interner()
        self._dirty: set[str] = set()
        self.at_close(self._ledger.on_change(self._mark))
        self.follow(
            Node,
            lambda node: self._mark(node.metadata.name),
            self._node_updated,
            lambda node: self._mark(node.metadata.name),
        )

    def snapshot(self) -> Snapshot:
        """Return the cells of the nodes that have a Device."""
        self.refresh()
        rows = [row for row in np.flatnonzero(self._table.present).tolist() if self.known.values[row]]
        return {
            self._table.name_of(row): self._shown(row)
            for row in rows
            if self._table.name_of(row) in self._devices
        }

    def refresh(self) -> None:
        """Write the rows of nodes that have changed."""
        self.refresh_some(len(self._dirty))

    def refresh_some(self, at_most: int) -> bool:
        """Write some of them."""
        for _ in range(min(at_most, len(self._dirty))):
            name = self._dirty.pop()
            row = self._table.row_of(name)
            if row is not None:
                self._write(row, name)
        return bool(self._dirty)

    def _node_updated(self, old: Node, node: Node) -> None:
        if old.metadata.labels != node.metadata.labels:
            self._mark(node.metadata.name)

    def _mark(self, name: str) -> None:
        """Something of a node has changed; what has no Node object is not written."""
        row = self._table.row_of(name)
        if row is not None and self._table.present[row]:
            self._dirty.add(name)
        else:
            self._dirty.discard(name)

    def _write(self, row: int, name: str) -> None:
        devices = self._ledger.node(name)
        self.known.values[row] = devices is not None
        for type_, columns in self.types.items():
            columns.write(row, devices or _NO_DEVICES, type_)
        node = self._table.node(row)
        labels = node.metadata.labels if node is not None else {}
        devices = devices or _NO_DEVICES
        self._write_scopes(row, devices.gpu_topology)
        index, honors = devices.partitions, devices.honors_partitions
        if index is None:
            index, honors = partitions.of_node(labels), partitions.honors(labels)
        self.honors.values[row] = honors
        sharing = sharing_labels(labels)
        sharing_id = self.sharing.id_of(sharing)
        model_id = self.models.id_of(f"{sharing.vendor}-{sharing.model}")
        table_id = -1 if index is None else self.tables.id_of(tuple(sorted(index.items())))
        layout_id = self.layouts.id_of(layout_of(devices.infos))
        self.layout_id.values[row] = -1 if layout_id is None else layout_id
        self.is_planned.values[row] = devices.is_secondary_well_planned
        self.sharing_id.values[row] = -1 if sharing_id is None else sharing_id
        self.model_id.values[row] = -1 if model_id is None else model_id
        self.table_id.values[row] = -1 if table_id is None else table_id
        if model_id is None or table_id is None or not (index is None or _is_plain(index)):
            self.types["gpu"].exact.values[row] = False

    def _write_scopes(self, row: int, root: Scope | None) -> None:
        scopes = list(_all(root)) if root is not None else []
        self.has_tree.values[row] = bool(scopes)
        self.scopes.reset(row)
        self.levels.reset(row)
        if len(scopes) > SCOPES or any(scope.bits >> MINORS for scope in scopes):
            self.types["gpu"].exact.values[row] = False
            return
        self.scopes.values[row, : len(scopes)] = [scope.bits for scope in scopes]
        self.levels.values[row, : len(scopes)] = [scope.level for scope in scopes]

    def _shown(self, row: int) -> dict[str, Any]:
        shown = {
            f"{type_}.{name}": column.values[row].tolist()
            for type_, columns in self.types.items()
            for name, column in columns.columns.items()
        }
        for name in ("has_tree", "scopes", "levels", "honors", "is_planned"):
            shown[name] = getattr(self, name).values[row].tolist()
        table, model = int(self.table_id.values[row]), int(self.model_id.values[row])
        shown["table"] = None if table < 0 else self.tables.value_of(table)
        shown["model"] = None if model < 0 else self.models.value_of(model)
        layout = int(self.layout_id.values[row])
        shown["layout"] = None if layout < 0 else self.layouts.value_of(layout)
        sharing = int(self.sharing_id.values[row])
        shown["sharing"] = None if sharing < 0 else self.sharing.value_of(sharing)
        return shown


_NO_DEVICES: Final = NodeDevices()


def _fits(amounts: Exact) -> bool:
    return all(0 <= amount <= _MOST * UNIT and amount % UNIT == 0 for amount in amounts.values())


def _all(scope: Scope) -> Iterable[Scope]:
    yield scope
    for child in scope.children:
        yield from _all(child)


def _is_plain(index: partitions.PartitionIndex) -> bool:
    """Whether every partition has minors, each with a bit of its own."""
    return all(
        partition.minors and partition.bits.bit_count() == len(set(partition.minors))
        for groups in index.values()
        for group in groups
        for partition in group
    )
