"""Topology domains: nodes with the same value of a label, such as a zone.

The values of a label are numbered, and a node's number is kept until the node changes. Counting over domains
is then counting numbers in an array. A node without the label has the number 0.
"""

from collections.abc import Iterable

import numpy as np

from koordpy.api.core import Node
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.lib.bounded_lru import BoundedLru

from .node_memo import NodeMemo

MAX_BYTES = 8 << 20
"""The budget of the numbers of labels' values."""


_NODE_BYTES = 50
"""Of a label, by estimate: two numbers, and now and then a new value."""


class Domains:
    """The values of one node label, numbered from 1."""

    def __init__(self, table: NodeTable, key: str) -> None:
        self.key = key
        self._table = table
        self._numbers: dict[str, int] = {}
        self._memo = NodeMemo(table, self.of_node)

    @property
    def size(self) -> int:
        """One more than the largest number given so far."""
        return len(self._numbers) + 1

    def of(self, nodes: NodeSet) -> Int64:
        """(n,) the numbers of the nodes' domains."""
        return self._memo.of(nodes)

    def by_row(self, nodes: NodeSet) -> Int64:
        """(rows of the table,) the same by row; 0 for rows that are not in the set."""
        numbers = np.zeros(self._table.capacity, np.int64)
        numbers[nodes.rows] = self.of(nodes)
        return numbers

    def of_node(self, node: Node) -> int:
        """Return the number of a node's domain."""
        value = node.metadata.labels.get(self.key)
        return 0 if value is None else self.number(value)

    def number(self, value: str) -> int:
        """Return the number of a value, giving one to a new value."""
        return self._numbers.setdefault(value, len(self._numbers) + 1)


class Topology(DerivedState):
    """The domains of the labels that plugins use; all plugins and profiles share the numbers."""

    one_per_cluster = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._table = cluster.nodes
        self._by_key: BoundedLru[str, Domains] = BoundedLru("topology_domains", MAX_BYTES)

    def snapshot(self) -> Snapshot:
        """Return nothing: no event changes this state, numbers are looked up by a node's generation."""
        return {}

    def domains(self, key: str) -> Domains:
        """Return the domains of a label.

        Numbers are not reused when a value is gone. After many such values, numbering restarts in another
        object; holders of the old one can continue to use it.
        """
        known = self._by_key.get(key)
        if known is not None and known.size <= 2 * self._table.capacity:
            return known
        domains = Domains(self._table, key)
        self._by_key.put(key, domains, 1000 + len(key) + _NODE_BYTES * self._table.capacity)
        return domains

    def having_all(self, keys: Iterable[str], nodes: NodeSet) -> Bool:
        """(n,) whether nodes have the labels of all keys."""
        has = np.ones(len(nodes), np.bool_)
        for key in keys:
            has &= self.domains(key).of(nodes) > 0
        return has


class DomainCounts:
    """A count for every domain of one label; 0 if there is nothing to count."""

    __slots__ = ("_counts", "domains")

    def __init__(self, domains: Domains) -> None:
        self.domains = domains
        self._counts = np.zeros(domains.size, np.int64)

    def clone(self) -> "DomainCounts":
        """Return a mutable copy."""
        copy = DomainCounts.__new__(DomainCounts)
        copy.domains, copy._counts = self.domains, self._counts.copy()
        return copy

    @property
    def values(self) -> Int64:
        """(domains.size,) the counts by the domains' numbers."""
        missing = self.domains.size - len(self._counts)
        if missing > 0:
            self._counts = np.concatenate([self._counts, np.zeros(missing, np.int64)])
        return self._counts

    def add(self, number: int, amount: int) -> None:
        """Add to one domain; to 0, that is none, nothing is added."""
        if number:
            self.values[number] += amount

    def add_all(self, numbers: Int64, amounts: Int64) -> None:
        """Add amounts (k,) to domains (k,)."""
        values = self.values
        values += np.bincount(numbers, weights=amounts, minlength=len(values)).astype(np.int64)
        values[0] = 0

    def at(self, numbers: Int64) -> Int64:
        """(n,) the counts of domains (n,)."""
        return self.values[numbers]
