"""The resources that reservations withhold, in columns besides the node table.

Pods are in the table, reservations here: unavailable to a pod are the requests of other pods, and the
resources of reservations that do not match it. The usage of a reservation's pods is part of both, so it is
subtracted once. Most pods match no reservation; for them this is one addition of two columns.
"""

import numpy as np

from koordpy.api.core import Node
from koordpy.api.resources import Vector
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.columns import PODS, Bool, Int64
from koordpy.cluster.derived_state import DerivedState, Snapshot

from .cache import ReservationCache
from .matchable import MatchableReservations


class Withheld(DerivedState):
    """Columns by row of the node table, kept up to date with the cache. Read `held` and so on afresh."""

    one_per_cluster = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        table = self._table = cluster.nodes
        cache = self._cache = cluster.shared(ReservationCache)
        width = len(table.resources)
        self._held = table.add_column(width=width)
        self._held_nonzero = table.add_column(width=2)
        self._given = table.add_column(width=width)
        self._given_nonzero = table.add_column(width=2)
        self._used = table.add_column(dtype=np.bool_, fill=False)
        self._allocated = table.add_column(dtype=np.bool_, fill=False)
        self._default = table.add_column(dtype=np.bool_, fill=False)
        self._strict = table.add_column(dtype=np.bool_, fill=False)
        self._reserve_pods: dict[str, set[str]] = {}
        """UIDs of the reserve pods among the table's hidden pods, by node."""
        self.matchable = MatchableReservations(table)
        """The matchable reservations one by one."""
        self._refreshed = 0
        self._in_use: tuple[tuple[int, int], Int64] = ((0, 0), np.zeros(0, np.int64))
        self.follow(Node, lambda node: self.refresh(node.metadata.name))
        cache.on_reservations(lambda _: None, self.matchable.discard)
        cache.on_change(self.refresh)

    def snapshot(self) -> Snapshot:
        """Return what is held and given on each present node, and the arrays of matchable reservations."""
        names, table = self._table.resources, self._table
        nodes = {
            table.name_of(row): {
                "held": names.named(self.held[row]),
                "held_nonzero": self.held_nonzero[row].tolist(),
                "given": names.named(self.given[row]),
                "given_nonzero": self.given_nonzero[row].tolist(),
                "hidden pods": sorted(pod.metadata.uid for pod in table.hidden.on(row)),
                "flags": [bool(flags[row]) for flags in (self.used, self.allocated, self.has_matchable)],
            }
            for row in np.flatnonzero(table.present).tolist()
        }
        return {"nodes": nodes, "matchable": self.matchable.snapshot()}

    @property
    def held(self) -> Int64:
        """(rows, resources) what reservations hold; `pods` counts them."""
        return self._held.values

    @property
    def held_nonzero(self) -> Int64:
        """(rows, 2) milli-CPU and bytes, with kube-scheduler's defaults."""
        return self._held_nonzero.values

    @property
    def given(self) -> Int64:
        """(rows, resources) what pods use of matchable reservations."""
        return self._given.values

    @property
    def given_nonzero(self) -> Int64:
        """(rows, 2) the same as it counts for scores."""
        return self._given_nonzero.values

    @property
    def used(self) -> Bool:
        """(rows,) whether a matchable reservation has pods."""
        return self._used.values

    @property
    def allocated(self) -> Bool:
        """(rows,) whether a reservation that can take more pods has some."""
        return self._allocated.values

    @property
    def has_matchable(self) -> Bool:
        """(rows,) whether there is a matchable reservation."""
        has_matchable: Bool = self._default.values | self._strict.values
        return has_matchable

    @property
    def occupied(self) -> Int64:
        """The rows on which reservations hold anything, ascending."""
        rows: Int64 = np.flatnonzero(self.held[:, PODS])
        return rows

    @property
    def slots_in_use(self) -> Int64:
        """(k,) the slots of matchable reservations with pods, by row, then name; worked out after changes."""
        version = self._refreshed, self.matchable.version
        if self._in_use[0] != version:
            slots = np.flatnonzero(self.matchable.row >= 0)
            slots = slots[self.used[self.matchable.row[slots]]]
            found = [slot for slot in slots.tolist() if self.matchable.info(slot).assigned]
            self._in_use = version, self.matchable.in_order(found)
        return self._in_use[1]

    def conflicting(self, rows: Int64, policy: str) -> Bool:
        """(n,) whether a reservation of this policy cannot be beside the matchable ones of nodes.

        The default policy goes with no other.
        """
        column = self._default if policy else self._strict
        conflicts: Bool = column.values[rows]
        return conflicts

    def refresh(self, node_name: str) -> None:
        """Work out the row of a node anew."""
        self._refreshed += 1
        row = self._table.row_of(node_name)
        infos, matchable = self._cache.on_node.get(node_name, {}), self._cache.matchable.get(node_name, {})
        slots = {uid: self.matchable.put(info, -1 if row is None else row) for uid, info in matchable.items()}
        for uid in infos.keys() - slots.keys():
            self.matchable.discard(uid)
        if row is None:
            self._reserve_pods.pop(node_name, None)  # they have left with the row
            return
        self._hide_pods(node_name, row)
        self._widen(self.matchable.held.shape[1])
        columns = (self._held, self._held_nonzero, self._given, self._given_nonzero)
        for column in (*columns, self._used, self._allocated, self._default, self._strict):
            column.reset(row)
        for uid, info in infos.items():
            if self._cache.occupies(info):
                held = self.matchable.held[slots[uid]] if uid in slots else self.vector(info.held, pods=1)
                self._held.values[row, : len(held)] += held
                self._held_nonzero.values[row] += info.nonzero_held
        for uid, info in matchable.items():
            if info.policy:
                self._strict.values[row] = True
            else:
                self._default.values[row] = True
            if info.assigned:
                given = self.matchable.allocated[slots[uid]]
                self._used.values[row] = True
                self._given.values[row, : len(given)] += given
                self._given_nonzero.values[row] += info.nonzero_allocated
        self._allocated.values[row] = node_name in self._cache.allocated_on
        self._table.touch(row)

    def _hide_pods(self, node_name: str, row: int) -> None:
        """Keep the reserve pods that hold anything of a node among its hidden pods."""
        hidden = self._table.hidden
        infos = self._cache.on_node.get(node_name, {})
        holding = {uid: info.pod for uid, info in infos.items() if self._cache.occupies(info)}
        for uid in self._reserve_pods.pop(node_name, set()) - holding.keys():
            hidden.discard(uid)
        for pod in holding.values():
            hidden.put(row, pod)
        if holding:
            self._reserve_pods[node_name] = set(holding)

    def _widen(self, width: int) -> None:
        for column in (self._held, self._given):
            column.widen(width)

    def vector(self, amounts: Vector, *, pods: int = 0) -> Int64:
        """Return (resources,) amounts in the order of the table's columns; `pods` is counted apart."""
        result = self.matchable.vector(amounts, pods=pods)
        self._widen(len(result))
        return result
