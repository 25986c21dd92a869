"""Counts, per node, of the pods that labels select.

Topology spread and pod affinity repeat a few queries: how many pods of this namespace and with these labels
are on each node? The counts of a query are kept and updated with every pod event, so that repeating it for
5,000 nodes only reads an array.

Pods are matched by kind: pods with equal labels in one namespace have the same answer.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

import msgspec
import numpy as np

from koordpy.api.core import Pod
from koordpy.api.label_selector import Selector
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.lib.deep_size import deep_size

from .columns import Int64
from .derived_state import DerivedState, Snapshot
from .nodes import NodeSet, NodeTable

if TYPE_CHECKING:
    from .cluster import Cluster

QUERY_BYTES = 12 << 20
"""The budget of kept counts; beyond it those of the least recently used queries are dropped."""

KIND_BYTES = 1 << 20
"""The budget of kinds without pods; beyond it those that have had none for longest are dropped."""

_encode = msgspec.msgpack.Encoder().encode


@dataclass(frozen=True, slots=True)
class PodMatch:
    """Which pods are counted: those that satisfy every condition."""

    conditions: tuple[tuple[frozenset[str] | None, Selector], ...]
    """Namespaces (None: all of them), and the labels."""
    terminating: bool = True
    """Whether pods that are being deleted count."""

    def matches(self, pod: Pod) -> bool:
        """Return whether a pod is counted."""
        meta = pod.metadata
        return self.matches_kind(meta.namespace, meta.labels, meta.deletion_timestamp is not None)

    def matches_kind(self, namespace: str, labels: Mapping[str, str], terminating: bool) -> bool:
        """Return whether pods with these labels are counted."""
        if terminating and not self.terminating:
            return False
        return all(
            (namespaces is None or namespace in namespaces) and selector.matches(labels)
            for namespaces, selector in self.conditions
        )

    @property
    def namespaces(self) -> frozenset[str] | None:
        """The namespaces of such pods; None means all."""
        limits = [namespaces for namespaces, _ in self.conditions if namespaces is not None]
        return frozenset.intersection(*limits) if limits else None


class _Kind:
    """Pods with equal labels: their number on each row, and the counters that include them."""

    __slots__ = ("counters", "labels", "namespace", "rows", "terminating")

    def __init__(self, namespace: str, labels: Mapping[str, str], terminating: bool) -> None:
        self.namespace, self.labels, self.terminating = namespace, labels, terminating
        self.rows: dict[int, int] = {}
        self.counters: list[_Counter] = []

    def matches(self, match: PodMatch) -> bool:
        return match.matches_kind(self.namespace, self.labels, self.terminating)


class _Counter:
    """The counts of one query by row, and their sum."""

    __slots__ = ("match", "query_bytes", "total", "values")

    def __init__(self, match: PodMatch, query_bytes: int) -> None:
        self.match, self.query_bytes = match, query_bytes
        self.values: Int64 = np.zeros(0, np.int64)
        self.total = 0

    def add(self, row: int, number: int, rows: int) -> None:
        """Add or subtract pods of a row, of a table of the given length."""
        self.grow(rows)
        self.values[row] += number
        self.total += number

    @property
    def size(self) -> int:
        """Bytes, estimated."""
        return 600 + self.query_bytes + self.values.nbytes

    def grow(self, rows: int) -> None:
        if len(self.values) < rows:
            self.values = np.concatenate([self.values, np.zeros(rows - len(self.values), np.int64)])


class _Counters:
    """Counts of pods, kept current for the queries seen so far."""

    def __init__(self, table: NodeTable, max_bytes: int, kind_bytes: int) -> None:
        self._table = table
        self._kinds: dict[bytes, _Kind] = {}
        self._without_pods: BoundedLru[bytes, _Kind]
        self._without_pods = BoundedLru("pod_kinds", kind_bytes, dropped=self._drop_kind)
        """Kinds that may soon have pods again: many pods get another label when they are bound."""
        self._by_namespace: dict[str, dict[bytes, _Kind]] = {}
        self._counters: BoundedLru[PodMatch, _Counter]
        self._counters = BoundedLru("pod_counts", max_bytes, dropped=self._drop)

    def __bool__(self) -> bool:
        """Return whether there is any pod."""
        return len(self._kinds) > len(self._without_pods)

    def snapshot(self) -> Snapshot:
        """Return the numbers of pods by kind and node."""
        found: Snapshot = {}
        for kind in self._kinds.values():
            if not kind.rows:
                continue
            rows = {self._table.name_of(row): number for row, number in kind.rows.items()}
            named = f"{kind.namespace} {sorted(kind.labels.items())} {kind.terminating}"
            at = found.setdefault(named, {})
            for name, number in rows.items():
                at[name] = at.get(name, 0) + number
        return found

    def of(self, match: PodMatch) -> _Counter:
        """Return the counter of a query, as long as the table."""
        counter = self._counters.get(match)
        if counter is None:
            counter = self._count(match)
        if len(counter.values) < self._table.capacity:
            counter.grow(self._table.capacity)
            self._counters.resize(match, counter.size)
        return counter

    def _count(self, match: PodMatch) -> _Counter:
        """Count the pods of a query, and keep the counts unless the query is too large."""
        counter = _Counter(match, deep_size(match, self._counters.largest))
        counter.grow(self._table.capacity)
        is_kept = self._counters.put(match, counter, counter.size)
        for kind in self._kinds_in(match.namespaces):
            if kind.matches(match):
                if is_kept:
                    kind.counters.append(counter)
                for row, number in kind.rows.items():
                    counter.add(row, number, self._table.capacity)
        return counter

    def _drop(self, match: PodMatch, counter: _Counter) -> None:
        for kind in self._kinds_in(match.namespaces):
            if counter in kind.counters:
                kind.counters.remove(counter)

    def _kinds_in(self, namespaces: frozenset[str] | None) -> Iterator[_Kind]:
        if namespaces is None:
            return iter(self._kinds.values())
        return chain.from_iterable(self._by_namespace.get(name, {}).values() for name in namespaces)

    # --- following pods --------------------------------------------------------------------------

    def place(self, row: int, pod: Pod) -> None:
        """Count a pod that comes to a row."""
        meta = pod.metadata
        key = _key(pod)
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _Kind(meta.namespace, meta.labels, meta.deletion_timestamp is not None)
            self._by_namespace.setdefault(meta.namespace, {})[key] = kind
            kind.counters = [counter for counter in self._counters if kind.matches(counter.match)]
        elif not kind.rows:
            self._without_pods.pop(key)
        kind.rows[row] = kind.rows.get(row, 0) + 1
        for counter in kind.counters:
            counter.add(row, 1, self._table.capacity)

    def displace(self, row: int, pod: Pod) -> None:
        """Stop counting a pod that leaves a row."""
        key = _key(pod)
        kind = self._kinds[key]
        kind.rows[row] -= 1
        if not kind.rows[row]:
            del kind.rows[row]
        for counter in kind.counters:
            counter.add(row, -1, self._table.capacity)
        if not kind.rows and not self._without_pods.put(key, kind, _kind_size(key)):
            self._drop_kind(key, kind)

    def _drop_kind(self, key: bytes, kind: _Kind) -> None:
        del self._kinds[key]
        others = self._by_namespace[kind.namespace]
        del others[key]
        if not others:
            del self._by_namespace[kind.namespace]


class PodCounts(DerivedState):
    """Counts of the pods placed in the node table, assumed ones included, and of its hidden pods."""

    one_per_cluster = True

    def __init__(
        self, cluster: "Cluster", max_bytes: int = QUERY_BYTES, kind_bytes: int = KIND_BYTES
    ) -> None:
        super().__init__(cluster)
        table = cluster.nodes
        self._placed, self._hidden = (_Counters(table, max_bytes, kind_bytes) for _ in range(2))
        self.at_close(table.on_pods(self._placed.place, self._placed.displace))
        self.at_close(table.hidden.on_pods(self._hidden.place, self._hidden.displace))

    def snapshot(self) -> Snapshot:
        """Return the numbers of pods by kind and node."""
        return {"placed": self._placed.snapshot(), "hidden": self._hidden.snapshot()}

    def by_row(self, match: PodMatch, nodes: NodeSet) -> Int64:
        """(rows of the table,) the matching pods on each row, hidden ones too, as the overlay shows them.

        The array changes with the next pod event: copy what you need at once, and do not write to it.
        """
        counts = self._placed.of(match).values
        if self._hidden:
            counts = counts + self._hidden.of(match).values
        if nodes.overlay is None:
            return counts
        moved = [move for move in nodes.overlay.pods.moves() if match.matches(move.pod)]
        if moved:
            counts = counts.copy()
            for move in moved:
                counts[move.row] += move.sign
        return counts

    def hides(self, match: PodMatch) -> bool:
        """Return whether any hidden pod matches."""
        return bool(self._hidden) and self._hidden.of(match).total > 0


def _kind_size(key: bytes) -> int:
    """Estimate the bytes of a kind."""
    return 1_000 + 20 * len(key)


def _key(pod: Pod) -> bytes:
    """Return a pod's kind. Equal labels in another order are another kind, which is harmless."""
    meta = pod.metadata
    return _encode((meta.namespace, meta.labels, meta.deletion_timestamp is not None))
