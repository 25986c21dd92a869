"""CPUs and NUMA resources as columns of the node table, for Filter and Score of all nodes at once.

A row is computed anew at the first reading after its node, its NodeResourceTopology or an allocation on it
changed. NUMA nodes are numbered 0 to `NUMA_NODES` - 1; a row that cannot be expressed so, or whose amounts
are no whole numbers of 64 bits, is not `exact`, and its node must be evaluated by itself.
"""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from koordpy.api import extension
from koordpy.api.amplification import amplify, node_ratios
from koordpy.api.core import Node
from koordpy.api.quantity import Quantity
from koordpy.api.resource_amounts import Amounts
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import Bool, Column, Int64
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.toolkit.topology_manager.policy import NumaNodeStatus

from ..cpus import policies
from ..topology.options import TopologyOptions, amplified
from .ledger import CPULedger
from .node_allocation import NodeAllocation
from .offered import Int32, OfferedAmounts, OfferedCPUs

NUMA_NODES: Final = 8
"""How many NUMA nodes a row has cells for."""

MOST_RESOURCES: Final = 16
"""How many resources of zones have cells; nodes whose zones have further ones are not exact."""

BIND_POLICIES: Final = (policies.NODE_NONE, policies.NODE_FULL_PCPUS_ONLY, policies.NODE_SPREAD_BY_PCPUS)
NUMA_POLICIES: Final = ("", "BestEffort", "Restricted", "SingleNUMANode")
"""Columns of policies have positions in these."""

LARGEST: Final = 1 << 52
"""Amounts beyond this might overflow in scores of NUMA nodes."""

_MOST_AMPLIFIED: Final = 1024.0
"""Amounts times larger ratios might overflow."""

Float = NDArray[np.float64]


class CPUColumns(DerivedState):
    """The columns; `of` returns those of some nodes.

    What depends on traces of former allocations on NUMA nodes is not part of the snapshot (see `CPULedger`).
    """

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        table = self._table = cluster.nodes
        self._ledger = cluster.shared(CPULedger)
        self._changed: set[int] = set()
        self.at_close(table.on_release(self._changed.discard))
        self.resources: list[str] = []
        """Names by their position in the columns of amounts. Names are only ever added."""
        self.flags = {name: table.add_column(dtype=np.bool_, fill=False) for name in _FLAGS}
        self.numbers = {name: table.add_column(dtype=np.int32) for name in _NUMBERS}
        self.ratios = {name: table.add_column(dtype=np.float64) for name in _RATIOS}
        self.counts = {name: table.add_column(NUMA_NODES, np.int32) for name in _COUNTS}
        self.countable = table.add_column(dtype=np.bool_, fill=False)
        self.amplification = table.add_column(NUMA_NODES)
        self.offered = table.add_column(NUMA_NODES, np.bool_, fill=False)
        self.amounts = {name: table.add_column(NUMA_NODES) for name in _AMOUNTS}
        self._resource(extension.CPU)
        self.at_close(self._ledger.on_change(self._touch))
        self._nodes = self.follow(Node, lambda node: self._touch(node.metadata.name), self._node_updated)

    def snapshot(self) -> Snapshot:
        """Return every present node's cells, amounts by resource."""
        self.refresh()
        present = np.flatnonzero(self._table.present).tolist()
        return {self._table.name_of(row): self._shown(row) for row in present}

    def _shown(self, row: int) -> dict[str, object]:
        plain = {**self.flags, **self.numbers, **self.ratios, **self.counts}
        shown = {name: column.values[row].tolist() for name, column in plain.items()}
        for name, column in {"offered": self.offered, **self.amounts}.items():
            cells = column.values[row].reshape(-1, NUMA_NODES).tolist()
            shown[name] = {
                resource: cells[at] for at, resource in enumerate(self.resources) if any(cells[at])
            }
        return shown

    def of(self, nodes: NodeSet) -> "CPURows":
        """Return the columns of some nodes, up to date."""
        self.refresh()
        return CPURows(self, nodes.rows)

    def position(self, resource: str) -> int | None:
        """Return the position of a resource in columns of amounts; None if no zone ever had it."""
        return self.resources.index(resource) if resource in self.resources else None

    # --- writing ---------------------------------------------------------------------------------

    def _touch(self, node_name: str) -> None:
        row = self._table.row_of(node_name)
        if row is not None:
            self._changed.add(row)

    def _node_updated(self, old: Node, node: Node) -> None:
        before, after = old.metadata, node.metadata
        if before.labels != after.labels or before.annotations != after.annotations:
            self._touch(after.name)

    def refresh(self) -> None:
        """Compute the rows of nodes that changed."""
        self.refresh_some(len(self._changed))

    def refresh_some(self, at_most: int) -> bool:
        """Compute some of them."""
        for _ in range(min(at_most, len(self._changed))):
            row = self._changed.pop()
            self._write(row, self._table.name_of(row))
        return bool(self._changed)

    def _write(self, row: int, name: str) -> None:
        node = self._nodes.by_key(name)
        labels = node.metadata.labels if node is not None else {}
        options, allocation = self._ledger.options(name), self._ledger.node(name)
        for column in self._all():
            column.reset(row)
        annotations: Mapping[str, str] = node.metadata.annotations if node is not None else {}
        readable = True
        try:
            options = amplified(options, annotations)
            of_node = (node_ratios(annotations) or {}).get(extension.CPU, 0.0)
        except ValueError:
            readable, of_node = False, 0.0
        ratio = (options.amplification_ratios or {}).get(extension.CPU, 0.0)
        for key, value in (("node_ratio", of_node), ("ratio", ratio)):
            self._set(self.ratios, row, key, value if 0 <= value <= _MOST_AMPLIFIED else 0.0)
        topology, kubelet = options.cpu_topology, options.kubelet_policy
        self.countable.values[row] = topology is None or (topology.is_valid and topology.is_regular)
        exact = self._write_amounts(row, options, allocation) and options.max_ref_count == 1
        bind = policies.node_bind_policy(
            labels.get(extension.LABEL_NODE_CPU_BIND_POLICY, ""),
            is_kubelet_full_pcpus_only=kubelet is not None and kubelet.is_full_pcpus_only,
        )
        policy = labels.get(extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY, "") or options.policy
        if policy not in NUMA_POLICIES:
            exact, policy = False, ""
        if topology is not None and topology.is_valid:
            exact = exact and set(topology.nodes) <= _NUMBERED
            self._write_cpus(row, options, allocation or _NOTHING)
        exact = exact and max(of_node, ratio) <= _MOST_AMPLIFIED
        self._set(self.flags, row, "exact", exact)
        self._set(self.flags, row, "has_topology", topology is not None)
        self._set(self.flags, row, "is_valid", options.is_valid)
        self._set(self.flags, row, "has_readable_ratios", readable)
        self._set(self.numbers, row, "bind_policy", BIND_POLICIES.index(bind))
        self._set(self.numbers, row, "numa_policy", NUMA_POLICIES.index(policy))
        self._set(self.numbers, row, "cpus_per_core", topology.cpus_per_core if topology is not None else 0)
        imposes = bind != policies.NODE_NONE or policy or of_node > 1 or ratio > 1
        self._set(self.flags, row, "is_plain", exact and readable and not imposes)

    @staticmethod
    def _set(columns: Mapping[str, Column], row: int, name: str, value: float) -> None:
        columns[name].values[row] = value

    def _all(self) -> list[Column]:
        groups = (self.flags, self.numbers, self.ratios, self.counts, self.amounts)
        return [column for group in groups for column in group.values()] + [
            self.countable,
            self.amplification,
            self.offered,
        ]

    def _write_cpus(self, row: int, options: TopologyOptions, allocation: NodeAllocation) -> None:
        """Write counts of CPUs; the ratios are written already."""
        topology = options.cpu_topology
        assert topology is not None
        available, _ = allocation.available_cpus(options)
        free = {
            "free_cpus": available,
            "free_whole": policies.filter_by_required(topology, available, policies.FULL_PCPUS),
            "free_cores": policies.filter_by_required(topology, available, policies.SPREAD_BY_PCPUS),
        }
        for name, cpus in free.items():
            self.numbers[f"all_{name}"].values[row] = len(cpus)
            for numa_node, count in topology.count_by_node(cpus).items():
                if numa_node in _NUMBERED:
                    self.counts[name].values[row, numa_node] = count
        for numa_node, status in allocation.statuses().items():
            if numa_node in _NUMBERED:
                users = "shared" if status is NumaNodeStatus.SHARED else "single"
                self.numbers[users].values[row] |= 1 << numa_node
        self._set(self.numbers, row, "allocated", allocation.allocated_count())
        ratio = self.ratios["ratio"].values[row]
        for numa_node in _NUMBERED & allocation.allocated_resources.keys() & options.numa_resources.keys():
            held = 1000 * allocation.allocated_count(numa_node)
            self.amplification.values[row, numa_node] = amplify(held, ratio) - held

    def _write_amounts(self, row: int, options: TopologyOptions, allocation: NodeAllocation | None) -> bool:
        """Write the amounts of zones and what is allocated of them; return whether all fit in."""
        exact = True
        for numa_node, amounts in options.numa_resources.items():
            if numa_node not in _NUMBERED:
                exact = False
                continue
            self.numbers["zones"].values[row] |= 1 << numa_node
            held: Amounts = {}
            if allocation is not None and numa_node in allocation.allocated_resources:
                held = allocation.allocated_resources[numa_node]
                self.countable.values[row] &= held.keys() <= amounts.keys()
            for resource, amount in amounts.items():
                cell = self._cell(resource, numa_node)
                if cell is None:
                    exact = False
                    continue
                self.offered.values[row, cell] = True
                for column, quantity in (("capacity", amount), ("held", held.get(resource))):
                    number = 0 if quantity is None else whole_amount(resource, quantity)
                    exact = exact and number is not None
                    if column == "capacity" and (number or 0) < 0:
                        self.countable.values[row] = False
                    self.amounts[column].values[row, cell] = number or 0
        return exact

    def _cell(self, resource: str, numa_node: int) -> int | None:
        at = self._resource(resource)
        return None if at is None else at * NUMA_NODES + numa_node

    def _resource(self, resource: str) -> int | None:
        """Return the position of a resource, making cells for a new one while there may be more."""
        if resource not in self.resources:
            if len(self.resources) == MOST_RESOURCES:
                return None
            self.resources.append(resource)
            for column in (self.offered, *self.amounts.values()):
                column.widen(len(self.resources) * NUMA_NODES)
        return self.resources.index(resource)


class CPURows:
    """The columns of n nodes. K is `NUMA_NODES`, R the number of `resources`; cpu is in thousandths."""

    def __init__(
        self,
        columns: CPUColumns,
        rows: Int64,
        lent: Int64 | None = None,
        cpus: OfferedCPUs | None = None,
        amounts: OfferedAmounts | None = None,
    ) -> None:
        self._columns, self._rows, self._lent = columns, rows, lent
        self.cpus, self.amounts = cpus, amounts
        """The CPUs that count as free instead of those that are, and amounts instead of what is left."""
        self.resources = tuple(columns.resources)

    def pick(self, at: Int64) -> "CPURows":
        """Return the columns of some of the nodes, by position."""
        return CPURows(
            self._columns,
            self._rows[at],
            None if self._lent is None else self._lent[at],
            None if self.cpus is None else self.cpus.pick(at),
            None if self.amounts is None else self.amounts.pick(at),
        )

    def lending(
        self, lent: Int64, cpus: OfferedCPUs | None = None, amounts: OfferedAmounts | None = None
    ) -> "CPURows":
        """Return the columns with amounts (n, R, K) that do not count as allocated, and with what is offered.

        The CPUs are those for the bind policy that is required on each node: counts for others mean nothing.
        """
        return CPURows(self._columns, self._rows, lent, cpus, amounts)

    def flag(self, name: str) -> Bool:
        """(n,) `exact`, `has_topology` (there is a NodeResourceTopology), `is_valid` (with CPUs),
        `has_readable_ratios` (the node's annotation can be read), or `is_plain` (exact, without a policy for
        CPUs or NUMA nodes, and without amplified CPUs).
        """
        flags: Bool = self._columns.flags[name].values.take(self._rows)
        return flags

    def number(self, name: str) -> Int32:
        """(n,) `bind_policy`, `numa_policy`, `cpus_per_core`, `allocated` (CPUs that pods have), `zones` (a
        bit for each NUMA node with resources), `single` and `shared` (a bit for each NUMA node with pods
        whose CPUs are on one, or on several), or what a `count` is of all NUMA nodes: `all_free_cpus`,
        `all_free_whole`, `all_free_cores`.
        """
        if self.cpus is not None and name in _TOTALS:
            return self.cpus.totals
        numbers: Int32 = self._columns.numbers[name].values.take(self._rows)
        return numbers

    def ratio(self, name: str) -> Float:
        """(n,) of cpu: `node_ratio` in the node's annotation, or `ratio`, by which its zones are amplified.

        0 where there is none, or a negative one; also for ratios that no exact row has.
        """
        ratios: Float = self._columns.ratios[name].values.take(self._rows)
        return ratios

    def count(self, name: str) -> Int32:
        """(n, K) `free_cpus`, `free_whole` (those of wholly free cores), or `free_cores`."""
        if self.cpus is not None:
            return self.cpus.counts
        counts: Int32 = self._columns.counts[name].values.take(self._rows, axis=0)
        return counts

    @property
    def is_countable(self) -> Bool:
        """(n,) whether counts of CPUs and amounts are all that matters.

        The machine is regular (see `CPUTopology`), no zone has less than nothing of a resource, and nothing
        is or was allocated on a zone that does not have it.
        """
        countable: Bool = self._columns.countable.values.take(self._rows)
        return countable

    @property
    def offered(self) -> Bool:
        """(n, R, K) whether a zone has a resource, of offers that are all there is: whether these have it."""
        offered: Bool = self._by_resource(self._columns.offered)
        if self.amounts is not None:
            offered = np.where(self.amounts.is_all[:, None, None], self.amounts.named, offered)
        return offered

    @property
    def capacity(self) -> Int64:
        """(n, R, K) the amplified amounts of zones, without reserved CPUs; cpu may be negative."""
        return self._by_resource(self._columns.amounts["capacity"])

    @property
    def held(self) -> Int64:
        """(n, R, K) what is allocated; CPUs that pods have count amplified where amounts ever were allocated.

        This is what `NodeAllocation.available_numa_resources` returns; reusable amounts are those lent.
        """
        held: Int64 = self._by_resource(self._columns.amounts["held"])
        held[:, 0] += self._columns.amplification.values.take(self._rows, axis=0)
        return held if self._lent is None else held - self._lent

    @property
    def available(self) -> Int64:
        """(n, R, K) what is left of zones, or what is offered instead."""
        left: Int64 = np.maximum(self.capacity - np.maximum(self.held, 0), 0)
        if self.amounts is not None:
            left = np.where(self.amounts.is_all[:, None, None], self.amounts.amounts, left)
        return left

    def _by_resource(self, column: Column) -> NDArray[Any]:
        return column.values.take(self._rows, axis=0).reshape(
            len(self._rows), len(self.resources), NUMA_NODES
        )


_FLAGS: Final = ("exact", "has_topology", "is_valid", "has_readable_ratios", "is_plain")
_COUNTS: Final = ("free_cpus", "free_whole", "free_cores")
_TOTALS: Final = tuple(f"all_{name}" for name in _COUNTS)
_NUMBERS: Final = (
    *("bind_policy", "numa_policy", "cpus_per_core", "allocated", "zones", "single", "shared"),
    *_TOTALS,
)
_RATIOS: Final = ("node_ratio", "ratio")
_AMOUNTS: Final = ("capacity", "held")
_NUMBERED: Final = frozenset(range(NUMA_NODES))
_NOTHING: Final = NodeAllocation()


def whole_amount(resource: str, amount: Quantity) -> int | None:
    """Return an amount as it is compared; None if that is not exact, or may overflow in scores."""
    if resource == extension.CPU:
        number = amount.milli_value()
        exact = Quantity.of_milli(number)
    else:
        number = amount.value()
        exact = Quantity.of(number)
    return number if exact == amount and abs(number) <= LARGEST else None
