"""The node table: the scheduling data of every node, in columns.

A row is a node name. A filter or a score over 5,000 nodes is a handful of array operations on columns instead
of 5,000 function calls. The objects in the stores are authoritative: every column can be rebuilt from them,
and equals the rebuild after any sequence of events.

Rows outlive Node objects: pods may be seen before their node or after it is gone, and are still counted
(kube-scheduler keeps such nodes too). A row is reused for another name only if it has neither.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import DTypeLike

from koordpy.api import resources
from koordpy.api.core import Node, Pod
from koordpy.lib.int64 import wrap

from .columns import Bool, Column, Int64, ResourceAxis
from .derived_state import DerivedState, Snapshot
from .hidden_pods import HiddenPods
from .node_set import NodeSet
from .rows import Rows
from .shares import Share, Shares

if TYPE_CHECKING:
    from .cluster import Cluster

__all__ = ["NodeSet", "NodeTable"]


class _Placement(msgspec.Struct, gc=False):
    """A pod on its row, and its share, kept so that it can be subtracted exactly."""

    pod: Pod
    row: int
    share: Share
    assumed: bool


class NodeTable(DerivedState):
    """All nodes and what is placed on them; use `Cluster.nodes`."""

    one_per_cluster = True

    def __init__(self, cluster: "Cluster", capacity: int = 64) -> None:
        super().__init__(cluster)
        self.resources = ResourceAxis()
        self._rows = Rows(capacity)
        self._nodes: list[Node | None] = [None] * capacity
        self._pods: list[dict[str, Pod]] = [{} for _ in range(capacity)]
        self._placements: dict[str, _Placement] = {}
        self._shares = Shares(self.resources, self._widen)
        self._all: tuple[int, NodeSet] | None = None
        self._columns: list[Column] = []
        self._on_release: list[Callable[[int], None]] = []
        self._on_place: list[Callable[[int, Pod], None]] = []
        self._on_displace: list[Callable[[int, Pod], None]] = []
        self.hidden = HiddenPods()
        """Pods that kube-scheduler does not know; they are in no column of the table."""
        self.on_release(self.hidden.release)
        width = len(self.resources)
        self._allocatable = self.add_column(width=width)
        self._requested = self.add_column(width=width)
        self._nonzero = self.add_column(width=2)
        self._present = self.add_column(dtype=np.bool_, fill=False)
        self._generation = self.add_column(fill=0)
        self._pods_generation = self.add_column(fill=0)
        self._clock = 0
        self._pods_clock = 0
        self.follow(Node, self.set_node, lambda _, node: self.set_node(node), self._lose_node)
        self.follow(Pod, self.observe_pod, lambda _, pod: self.observe_pod(pod), self._lose_pod)

    def snapshot(self) -> Snapshot:
        """Return by name whether there is a Node object, the sums, and the UIDs of the pods."""
        found = {}
        for row in range(self.capacity):
            if self.present[row] or self._pods[row]:
                found[self.name_of(row)] = {
                    "present": bool(self.present[row]),
                    "allocatable": self.resources.named(self.allocatable[row]),
                    "requested": self.resources.named(self.requested[row]),
                    "nonzero": self.nonzero_requested[row].tolist(),
                    "pods": sorted(self._pods[row]),
                }
        return found

    def unconfirmed(self) -> Collection[str]:
        """Return the UIDs of assumed pods."""
        return [uid for uid, placement in self._placements.items() if placement.assumed]

    # --- columns ---------------------------------------------------------------------------------

    @property
    def allocatable(self) -> Int64:
        """(rows, resources) what pods may request in total; milli-CPU, bytes, counts."""
        return self._allocatable.values

    @property
    def requested(self) -> Int64:
        """(rows, resources) what placed and assumed pods request; the `pods` column counts them."""
        return self._requested.values

    @property
    def nonzero_requested(self) -> Int64:
        """(rows, 2) milli-CPU and bytes, with kube-scheduler's defaults for containers without requests."""
        return self._nonzero.values

    @property
    def present(self) -> Bool:
        """(rows,) whether a Node object exists."""
        return self._present.values

    @property
    def generation(self) -> Int64:
        """(rows,) set to a new unique number whenever the row's Node object changes."""
        return self._generation.values

    @property
    def pods_generation(self) -> Int64:
        """(rows,) set to a new unique number whenever a pod comes, leaves or changes."""
        return self._pods_generation.values

    @property
    def moment(self) -> tuple[int, int]:
        """The highest generations of nodes and of pods given so far, for `changed_since`."""
        return self._clock, self._pods_clock

    def changed_since(self, row: int, moment: tuple[int, int]) -> bool:
        """Return whether a row's node or the pods on it changed after a `moment`."""
        return bool(self.generation[row] > moment[0] or self.pods_generation[row] > moment[1])

    @property
    def latest_generation(self) -> int:
        """The highest generation so far: while it is unchanged, no Node object has changed."""
        return self._clock

    @property
    def capacity(self) -> int:
        """The length of every column."""
        return self._rows.capacity

    def add_column(self, width: int = 0, dtype: DTypeLike = np.int64, fill: Any = 0) -> Column:
        """Add a column of scalars, or of `width` cells a row, that follows the table's growth.

        A row is reset to `fill` when its node and its last pod are gone.
        """
        column = Column(self.capacity, width, dtype, fill)
        self._columns.append(column)
        return column

    def on_release(self, handler: Callable[[int], None]) -> Callable[[], None]:
        """Call a handler with each row before it is released; return a function that removes it."""
        self._on_release.append(handler)
        return lambda: self._on_release.remove(handler)

    def on_pods(
        self, place: Callable[[int, Pod], None], displace: Callable[[int, Pod], None]
    ) -> Callable[[], None]:
        """Call handlers with row and pod when a pod comes to a row (bound or assumed) and when it leaves.

        A pod that changes in place leaves in its old state and comes again. Known pods are replayed. Return a
        function that removes the handlers.
        """
        self._on_place.append(place)
        self._on_displace.append(displace)
        for placement in self._placements.values():
            place(placement.row, placement.pod)

        def end() -> None:
            self._on_place.remove(place)
            self._on_displace.remove(displace)

        return end

    # --- reading ---------------------------------------------------------------------------------

    def __len__(self) -> int:
        return int(np.count_nonzero(self.present))

    def row_of(self, name: str) -> int | None:
        """Return the row of a node name, or None if neither node nor pods of that name are known."""
        return self._rows.get(name)

    def name_of(self, row: int) -> str:
        """Return the node name of a row in use."""
        return self._rows.name_of(row)

    def node(self, row: int) -> Node | None:
        """Return the Node object of a row, None where `present` is false."""
        return self._nodes[row]

    def pods_on(self, row: int) -> Iterable[Pod]:
        """Return the pods placed on or assumed to be on a row, in order of arrival."""
        return self._pods[row].values()

    def share_of(self, pod: Pod) -> Share:
        """Return a pod's share of a node; for a placed pod the share that the table counts."""
        placement = self._placements.get(pod.metadata.uid)
        return self._shares.of_passing(pod) if placement is None else placement.share

    def placed_on(self, uid: str) -> str | None:
        """Return the name of the node that a pod occupies."""
        placement = self._placements.get(uid)
        return None if placement is None else self.name_of(placement.row)

    def all(self) -> NodeSet:
        """Return every node that exists, ordered by row; the same set until a Node object changes."""
        known = self._all
        if known is None or known[0] != self._clock:
            rows = np.flatnonzero(self.present)
            known = self._all = self._clock, NodeSet(self, [self.name_of(r) for r in rows.tolist()], rows)
        return known[1]

    def select(self, names: Sequence[str]) -> tuple[NodeSet, list[str]]:
        """Return the named nodes that exist, in the given order, and the names that do not."""
        rows = self._rows.find(names)
        known = (rows >= 0) & self.present[rows]
        if np.count_nonzero(known) == len(known):
            return NodeSet(self, names, rows), []
        missing = [names[i] for i in np.flatnonzero(~known).tolist()]
        return NodeSet(self, names, rows).subset(known), missing

    # --- nodes -----------------------------------------------------------------------------------

    def set_node(self, node: Node) -> None:
        """Store a new or changed node."""
        row = self._claim(node.metadata.name)
        amounts = resources.node_allocatable(node)
        width = len(self.resources)
        columns = [self.resource_column(name) for name in amounts]
        if len(self.resources) > width and self._shares.is_incomplete:
            self._count_anew()
        self._allocatable.reset(row)
        self.allocatable[row, columns] = list(amounts.values())
        self._nodes[row] = node
        self.present[row] = True
        self._clock += 1
        self.generation[row] = self._clock

    def remove_node(self, name: str) -> None:
        """Forget a Node object; the row stays while pods are on it."""
        row = self._rows.get(name)
        if row is None or self._nodes[row] is None:
            return
        self._allocatable.reset(row)
        self._nodes[row] = None
        self.present[row] = False
        self._clock += 1
        self.generation[row] = self._clock
        self._release_if_empty(row)

    def _lose_node(self, node: Node) -> None:
        self.remove_node(node.metadata.name)

    # --- pods ------------------------------------------------------------------------------------

    def observe_pod(self, pod: Pod) -> None:
        """Apply a pod from the API server.

        A bound pod that has not terminated occupies its node. An unbound one occupies nothing, unless it is
        assumed: then it stays so until `forget`.
        """
        uid = pod.metadata.uid
        if pod.spec.node_name and not pod.is_terminal:
            self._place(pod, pod.spec.node_name, assumed=False)
            return
        placement = self._placements.get(uid)
        if placement is not None and (pod.is_terminal or not placement.assumed):
            self._displace(uid)

    def remove_pod(self, uid: str) -> None:
        """Forget a pod that was deleted, assumed or not."""
        self._displace(uid)

    def _lose_pod(self, pod: Pod) -> None:
        self.remove_pod(pod.metadata.uid)

    def assume(self, pod: Pod, node_name: str) -> None:
        """Count a pod on a node before the API server shows it there.

        Raises ValueError if the pod already occupies a node: it would be counted twice.
        """
        known = self.placed_on(pod.metadata.uid)
        if known is not None:
            raise ValueError(f"pod {pod.metadata.key} cannot be assumed on {node_name}: it is on {known}")
        self._place(pod, node_name, assumed=True)

    def forget(self, uid: str) -> bool:
        """Forget an assumed pod; return whether it was assumed. A bound pod stays on its node."""
        placement = self._placements.get(uid)
        if placement is None or not placement.assumed:
            return False
        self._displace(uid)
        return True

    def is_assumed(self, uid: str) -> bool:
        """Return whether a pod is counted only because it was assumed."""
        placement = self._placements.get(uid)
        return placement is not None and placement.assumed

    def _place(self, pod: Pod, node_name: str, *, assumed: bool) -> None:
        uid = pod.metadata.uid
        row = self._claim(node_name)
        old = self._placements.get(uid)
        share = old.share if old is not None and resources.surely_same(old.pod, pod) else self._shares.of(pod)
        placement = _Placement(pod, row, share, assumed)
        self._placements[uid] = placement
        self._pods[row][uid] = pod
        if old is not None and old.row == row and old.share is placement.share:
            self._touch_pods(row)  # most updates of a pod do not change its share
        else:
            if old is not None:
                self._count(old, -1)
                if old.row != row:
                    del self._pods[old.row][uid]
            self._count(placement, 1)
        if old is not None:
            for leaves in self._on_displace:
                leaves(old.row, old.pod)
        for comes in self._on_place:
            comes(row, pod)
        if old is not None and old.row != row:
            self._release_if_empty(old.row)

    def _displace(self, uid: str) -> None:
        placement = self._placements.pop(uid, None)
        if placement is None:
            return
        self._count(placement, -1)
        del self._pods[placement.row][uid]
        for leaves in self._on_displace:
            leaves(placement.row, placement.pod)
        self._release_if_empty(placement.row)

    def touch(self, row: int) -> None:
        """Record that something else that pods of a row depend on has changed, so that binds filter again."""
        self._touch_pods(row)

    def _touch_pods(self, row: int) -> None:
        self._pods_clock += 1
        self._pods_generation.cells[row] = self._pods_clock

    def _count(self, placement: _Placement, sign: int) -> None:
        row = placement.row
        self._touch_pods(row)
        columns, amounts, (cpu, memory) = placement.share
        cells = self._requested.cells
        for column, amount in zip(columns, amounts, strict=True):
            cells[row, column] = wrap(cells[row, column] + sign * amount)
        cells = self._nonzero.cells
        cells[row, 0] = wrap(cells[row, 0] + sign * cpu)
        cells[row, 1] = wrap(cells[row, 1] + sign * memory)

    # --- rows ------------------------------------------------------------------------------------

    def resource_column(self, name: str) -> int:
        """Return a resource's column in `allocatable` and `requested`, making one for a new name."""
        column = self.resources.add(name)
        self._widen()
        return column

    def _widen(self) -> None:
        self._allocatable.widen(len(self.resources))
        self._requested.widen(len(self.resources))

    def _count_anew(self) -> None:
        """Count resources of pods that no node had so far."""
        self._shares.forget()
        for placement in self._placements.values():
            self._count(placement, -1)
            placement.share = self._shares.of(placement.pod)
            self._count(placement, 1)

    def _claim(self, name: str) -> int:
        row = self._rows.get(name)
        if row is None:
            if self._rows.are_used_up:
                self._grow()
            row = self._rows.claim(name)
        return row

    def _grow(self) -> None:
        old = self.capacity
        self._rows.grow(old)
        self._nodes.extend([None] * old)
        self._pods.extend({} for _ in range(old))
        for column in self._columns:
            column.grow(self.capacity)

    def _release_if_empty(self, row: int) -> None:
        if self._nodes[row] is not None or self._pods[row]:
            return
        for handler in self._on_release:
            handler(row)
        for column in self._columns:
            column.reset(row)
        self._rows.release(row)
