"""The devices of nodes as columns, for questions about all nodes at once.

Nodes whose devices are in the same state share a row, so that a question is answered once for all of them.
Only the states of nodes whose node, Device or allocations have changed are written, at the next reading. A
state that the columns cannot hold exactly (minors beyond 15, fractions, huge amounts) says so.
"""

from collections.abc import Iterable, Mapping
from typing import Any, ClassVar, Final, NamedTuple

import numpy as np

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.api.device import Device
from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import Column, Int64
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.nodes import NodeSet
from koordpy.lib import row_groups

from . import partitions
from .device_amounts import Left
from .device_labels import DeviceLabels, device_labels
from .exact import UNIT, Exact, is_zero
from .free_functions import FreeFunctions, free_functions
from .gpu_topology import Scope
from .interner import Interner
from .layout import Layout, layout_of
from .ledger import DeviceLedger
from .minors import bits_of
from .node_devices import NodeDevices
from .shared_rows import SharedRows

MINORS: Final = 32
"""Cells of a device in each row."""

SCOPES: Final = 2 * MINORS + 1
"""The most scopes that a tree of so many GPUs has."""

MISSING: Final = 1 << 62
"""In a row of free amounts, a resource that a device does not have, and that no request exceeds."""

_MOST_FUNCTIONS: Final = 1024
"""Which cards have free virtual functions changes with every pod: eight cards make 256 cases."""

_MOST_OF_A_GROUP: Final = 12
"""Which of the best of more partitions comes first depends on how they are sorted."""

_MOST_SCORE: Final = 1 << 32
"""The largest score of a partition: sums of it times a weight fit 64 bits."""

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
)
"""The columns of each type, besides those of each resource."""

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

    `free` has a column for each resource, with a cell for each minor; it is -1 for devices that are not
    listed, or have nothing left. `listed` are the others, and `total` what they have. `known_used` are the
    devices of which a pod is known to use something, be it 0. `capacity` and `available` have a cell for each
    resource: the sums of what devices with anything left have, and of what is left of it. `labels_id` and
    `functions_id` are the numbers of the labels and of the free virtual functions, -1 if they have none.
    """

    def __init__(self, rows: SharedRows, type_: str) -> None:
        self.names = NAMES[type_]
        width = len(self.names)
        self.count = rows.add_column(dtype=np.int32)
        self.exact = rows.add_column(dtype=np.bool_, fill=False)
        self.healthy = rows.add_column(dtype=np.uint32)
        self.free_at_all = rows.add_column(dtype=np.uint32)
        self.used = rows.add_column(dtype=np.uint32)
        self.listed = rows.add_column(dtype=np.uint32)
        self.known_used = rows.add_column(dtype=np.uint32)
        self.capacity = rows.add_column(width)
        self.available = rows.add_column(width)
        self.labels_id = rows.add_column(dtype=np.int32, fill=-1)
        self.functions_id = rows.add_column(dtype=np.int32, fill=-1)
        self.free = {name: rows.add_column(MINORS, fill=-1) for name in self.names}
        self.total = {name: rows.add_column(MINORS) for name in self.names}

    @property
    def columns(self) -> dict[str, Column]:
        """The columns by name."""
        found: dict[str, Column] = {name: getattr(self, name) for name in _COLUMNS}
        for kind, columns in (("free", self.free), ("total", self.total)):
            found |= {f"{kind}.{name}": column for name, column in columns.items()}
        return found

    def write(self, row: int, devices: NodeDevices, type_: str) -> None:
        """Write the cells of a clean row."""
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
        if not all(self._holds(totals[minors[0]], left[minors[0]].free) for minors in alike.values()):
            return False
        for at, name in enumerate(self.names):
            capacity = available = 0
            for minors in alike.values():
                total, its_free = totals[minors[0]], left[minors[0]].free
                amount, there = its_free.get(name, 0) // UNIT, total.get(name, 0) // UNIT
                capacity += there * len(minors)
                available += amount * len(minors)
                self.free[name].values[row, minors] = amount if name in its_free else MISSING
                self.total[name].values[row, minors] = there
            self.capacity.values[row, at] = capacity
            self.available.values[row, at] = available
        return True

    def _holds(self, total: Exact, free: Exact) -> bool:
        """Whether cells can hold the amounts of a device."""
        if not (_fits(total) and _fits(free)):
            return False
        return all(name in self.names or name not in _ALL_NAMES for name in (*total, *free))


class DeviceColumns(DerivedState):
    """Columns that follow the ledger of devices; their rows are states, of which each node has one.

    As in the ledger, what stays known of deleted Devices is not part of the snapshot.
    """

    settled_by: ClassVar[tuple[type[KubeObject], ...]] = (Device,)

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        table = self._table = cluster.nodes
        self._ledger = cluster.shared(DeviceLedger)
        self._devices = cluster.store(Device)
        self._state = table.add_column(dtype=np.int32)
        rows = self._rows = SharedRows()
        self.known = rows.add_column(dtype=np.bool_, fill=False)
        self.types = {type_: TypeColumns(rows, type_) for type_ in NAMES}
        self.functions: Interner[FreeFunctions] = Interner(_MOST_FUNCTIONS)
        self.labels: Interner[DeviceLabels] = Interner()
        self.has_tree = rows.add_column(dtype=np.bool_, fill=False)
        self.scopes = rows.add_column(SCOPES, dtype=np.uint32)
        self.levels = rows.add_column(SCOPES, dtype=np.int8)
        self.most_scopes = 0
        """Of any tree so far: no cells beyond these are used."""
        self.table_id = rows.add_column(dtype=np.int32, fill=-1)
        self.honors = rows.add_column(dtype=np.bool_, fill=False)
        self.model_id = rows.add_column(dtype=np.int32, fill=-1)
        self.sharing_id = rows.add_column(dtype=np.int32, fill=-1)
        self.layout_id = rows.add_column(dtype=np.int32, fill=-1)
        self.is_planned = rows.add_column(dtype=np.bool_, fill=False)
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
        rows = np.flatnonzero(self._table.present)
        states = zip(rows.tolist(), self._state.values[rows].tolist(), strict=True)
        known = {self._table.name_of(row): state for row, state in states if self.known.values[state]}
        return {name: self._shown(state) for name, state in known.items() if name in self._devices}

    def states(self, nodes: NodeSet) -> tuple[Int64, Int64]:
        """Return the different states (s,) of nodes, up to date, and which of them each node has (n,)."""
        self.refresh()
        states = self._state.values.take(nodes.rows)
        which, first = row_groups.group((states,), len(states))
        return states[first].astype(np.int64), which

    def digest(self, state: int) -> bytes:
        """Return what no other state has, now or later."""
        return self._rows.digest(state)

    def refresh(self) -> None:
        """Write the rows of nodes that have changed."""
        self.refresh_some(len(self._dirty))

    def refresh_some(self, at_most: int) -> bool:
        """Write some of them."""
        for _ in range(min(at_most, len(self._dirty))):
            name = self._dirty.pop()
            row = self._table.row_of(name)
            if row is not None:
                self._state.values[row] = self._state_of(row, name)
        self._rows.tidy(self._state.values)
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

    def _state_of(self, row: int, name: str) -> int:
        """Return the state of the node in a row of the table."""
        devices = self._ledger.node(name)
        state = self._rows.spare
        self.known.values[state] = devices is not None
        for type_, columns in self.types.items():
            columns.write(state, devices or _NO_DEVICES, type_)
            self._write_traits(state, devices or _NO_DEVICES, type_)
        node = self._table.node(row)
        labels = node.metadata.labels if node is not None else {}
        devices = devices or _NO_DEVICES
        self._write_scopes(state, devices.gpu_topology)
        index, honors = devices.partitions, devices.honors_partitions
        if index is None:
            index, honors = partitions.of_node(labels), partitions.honors(labels)
        self.honors.values[state] = honors
        sharing = sharing_labels(labels)
        numbers = (
            (self.layout_id, self.layouts.id_of(layout_of(devices.infos))),
            (self.sharing_id, self.sharing.id_of(sharing)),
            (self.model_id, self.models.id_of(f"{sharing.vendor}-{sharing.model}")),
            (self.table_id, -1 if index is None else self._table_number(index)),
        )
        for column, number in numbers:
            column.values[state] = -1 if number is None else number
        self.is_planned.values[state] = devices.is_secondary_well_planned
        if any(number is None for _, number in numbers[2:]):
            self.types["gpu"].exact.values[state] = False
        return self._rows.settle()

    def _write_traits(self, state: int, devices: NodeDevices, type_: str) -> None:
        """Write what selectors select of a type."""
        labels, functions = device_labels(devices, type_), free_functions(devices, type_)
        for column, number in (
            (self.types[type_].labels_id, None if labels is None else self.labels.id_of(labels)),
            (self.types[type_].functions_id, None if functions is None else self.functions.id_of(functions)),
        ):
            column.values[state] = -1 if number is None else number

    def _table_number(self, index: partitions.PartitionIndex) -> int | None:
        return self.tables.id_of(tuple(sorted(index.items()))) if _is_plain(index) else None

    def _write_scopes(self, state: int, root: Scope | None) -> None:
        scopes = list(_all(root)) if root is not None else []
        self.has_tree.values[state] = bool(scopes)
        if len(scopes) > SCOPES or any(scope.bits >> MINORS for scope in scopes):
            self.types["gpu"].exact.values[state] = False
            return
        self.most_scopes = max(self.most_scopes, len(scopes))
        self.scopes.values[state, : len(scopes)] = [scope.bits for scope in scopes]
        self.levels.values[state, : len(scopes)] = [scope.level for scope in scopes]

    def _shown(self, state: int) -> dict[str, Any]:
        shown = {
            f"{type_}.{name}": column.values[state].tolist()
            for type_, columns in self.types.items()
            for name, column in columns.columns.items()
        }
        for name in ("has_tree", "scopes", "levels", "honors", "is_planned"):
            shown[name] = getattr(self, name).values[state].tolist()
        for type_, columns in self.types.items():
            labels = int(columns.labels_id.values[state])
            functions = int(columns.functions_id.values[state])
            shown[f"{type_}.labels"] = None if labels < 0 else self.labels.value_of(labels)
            shown[f"{type_}.functions"] = None if functions < 0 else self.functions.value_of(functions)
        table, model = int(self.table_id.values[state]), int(self.model_id.values[state])
        shown["table"] = None if table < 0 else self.tables.value_of(table)
        shown["model"] = None if model < 0 else self.models.value_of(model)
        layout = int(self.layout_id.values[state])
        shown["layout"] = None if layout < 0 else self.layouts.value_of(layout)
        sharing = int(self.sharing_id.values[state])
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
    """Whether every partition has minors, each with a bit of its own, and arrays find the best of a group."""
    groups = [group for groups in index.values() for group in groups]
    return all(len(group) <= _MOST_OF_A_GROUP for group in groups) and all(
        partition.minors
        and partition.bits.bit_count() == len(set(partition.minors))
        and abs(partition.score) <= _MOST_SCORE
        for group in groups
        for partition in group
    )
