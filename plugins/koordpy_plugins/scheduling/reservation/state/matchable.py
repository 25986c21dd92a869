"""Reservations as rows of arrays: whether a pod fits into hundreds of them takes a handful of operations.

A *slot* is the place of one matchable reservation in these arrays. It is written anew whenever the
reservation, its pods or its node change; the objects in the cache remain the truth. Where amounts cannot be
plain integers the slot says so (`exact` is false), and its object has to be compared instead.
"""

from collections.abc import Iterable
from typing import Any

import numpy as np

from koordpy.api.quantity import MILLI, ZERO, Quantity
from koordpy.api.reservation import RESTRICTED
from koordpy.api.resource_names import CPU, PODS, is_counted
from koordpy.api.resources import Vector
from koordpy.cluster.columns import PODS as PODS_COLUMN
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeTable
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from ..fit.rules import left_in_reservation

NO_ORDER = np.iinfo(np.int64).max
"""The order of a reservation that has none."""

UNBOUNDED = np.int64(1) << 60
"""What is left of a resource where the reservation sets no limit."""

_LARGEST = 1 << 45
"""Amounts up to this can be multiplied by 100,000 in 64 bits."""

_DECISIONS = 32
"""Affinities whose decisions a slot keeps."""


def plain(name: str, amount: Quantity) -> int | None:
    """Return an amount as the integer in which nodes count it, None if that would not be exact."""
    number = amount.milli_value() if name == CPU else amount.value()
    exact = Quantity.of_scaled(number, MILLI if name == CPU else 0) == amount
    return number if exact and 0 <= number <= _LARGEST else None


class MatchableReservations:
    """The matchable reservations of a cluster, by slot.

    Arrays are (slots,), (slots, 2) for milli-CPU and bytes with kube-scheduler's defaults, or
    (slots, resources) with the node table's columns, in milli-CPU and base units. They are replaced as they
    grow: read them afresh.
    """

    def __init__(self, table: NodeTable, capacity: int = 64) -> None:
        self._table = table
        self._slots: dict[str, int] = {}
        self._free = list(range(capacity - 1, -1, -1))
        self.infos: list[ReservationInfo | None] = [None] * capacity
        width = len(table.resources)
        self.row: Int64 = np.full(capacity, -1, np.int64)
        """The row of the node, -1 if it is not known."""
        self.keys: list[tuple[int, str]] = [(-1, "")] * capacity
        """What orders slots: the row, then the name."""
        self.held: Int64 = np.zeros((capacity, width), np.int64)
        """(slots, resources) what it takes of its node while no pod uses it; `pods` is 1."""
        self.held_nonzero: Int64 = np.zeros((capacity, 2), np.int64)
        self.allocated: Int64 = np.zeros((capacity, width), np.int64)
        """(slots, resources) what pods use of it."""
        self.allocated_nonzero: Int64 = np.zeros((capacity, 2), np.int64)
        self.available: Int64 = np.zeros((capacity, width), np.int64)
        """(slots, resources) what a pod that uses it finds on the node beyond what is free there."""
        self.left: Int64 = np.zeros((capacity, width), np.int64)
        """(slots, resources) what a pod may request inside; UNBOUNDED where nothing is restricted. `pods` is
        how many more may use it."""
        self.allocatable: Int64 = np.zeros((capacity, width), np.int64)
        """(slots, resources) what it holds, used or not."""
        self.names: Bool = np.zeros((capacity, width), np.bool_)
        """(slots, resources) its resources, `resource_names`."""
        self.order: Int64 = np.full(capacity, NO_ORDER, np.int64)
        self.exact: Bool = np.zeros(capacity, np.bool_)
        """Whether the arrays say all there is to say about what fits inside."""
        self.schedulable: Bool = np.zeros(capacity, np.bool_)
        """Whether pods may use it without tolerating that it is unschedulable."""
        self.used_up: Bool = np.zeros(capacity, np.bool_)
        self.operating: Bool = np.zeros(capacity, np.bool_)
        """Whether it is a pod that acts as a reservation."""
        self.pre_allocation: Bool = np.zeros(capacity, np.bool_)
        """Whether it is a Reservation that took over running pods."""
        self.version = 0
        """Raised when a slot is given to another reservation."""
        self.decisions: list[dict[int, tuple[object, int, bool]]] = [{} for _ in range(capacity)]
        """Whether pods with an affinity may use it, by the affinity's id: the affinity itself, the generation
        of the node, the answer."""
        self._revisions: list[int] = [0] * capacity
        table.on_release(self._lose_row)

    _WIDE = ("held", "allocated", "available", "left", "allocatable", "names")
    _NARROW = (
        "row", "held_nonzero", "allocated_nonzero", "order", "exact", "schedulable", "used_up", "operating",
        "pre_allocation",
    )  # fmt: skip

    def info(self, slot: int) -> ReservationInfo:
        """Return the reservation in a slot that is in use."""
        info = self.infos[slot]
        assert info is not None
        return info

    def slot_of(self, uid: str) -> int | None:
        """Return the slot of a reservation, None if it is not matchable."""
        return self._slots.get(uid)

    def in_order(self, slots: Iterable[int]) -> Int64:
        """(k,) slots in use, by row, then name."""
        return np.array(sorted(slots, key=self.keys.__getitem__), np.int64)

    def snapshot(self) -> dict[str, Any]:
        """Return what the arrays say of each reservation, by UID."""
        names = self._table.resources
        found = {}
        for uid, slot in self._slots.items():
            row = int(self.row[slot])
            wide = ("held", "allocated", "available", "allocatable")
            amounts = {name: getattr(self, name)[slot] for name in wide}
            amounts["left"] = np.where(self.names[slot], self.left[slot], 0)
            found[uid] = {
                "node": self._table.name_of(row) if row >= 0 else "",
                **{name: names.named(cells) for name, cells in amounts.items()},
                "flags": [bool(each[slot]) for each in (self.schedulable, self.used_up, self.exact)],
            }
        return found

    def discard(self, uid: str) -> None:
        """Take a reservation out, if it is there."""
        slot = self._slots.pop(uid, None)
        if slot is not None:
            self.infos[slot], self.keys[slot] = None, (-1, "")
            self.version += 1
            self.row[slot] = -1
            self._free.append(slot)

    def put(self, info: ReservationInfo, row: int) -> int:
        """Write a reservation on a row of the node table; return its slot."""
        slot = self._slots.get(info.uid)
        if slot is None:
            if not self._free:
                self._grow()
            slot = self._slots[info.uid] = self._free.pop()
            self.version += 1
        self.row[slot], self.keys[slot] = row, (row, info.name)
        if self.infos[slot] is info and self._revisions[slot] == info.revision:
            return slot
        self.decisions[slot] = {}
        self.infos[slot] = info
        self._revisions[slot] = info.revision
        self.held_nonzero[slot] = info.nonzero_held
        self.allocated_nonzero[slot] = info.nonzero_allocated
        self.order[slot] = NO_ORDER if info.order is None else info.order
        self.schedulable[slot] = not info.is_unschedulable
        self.used_up[slot] = info.is_used_up
        self.operating[slot] = info.reservation is None
        self.pre_allocation[slot] = info.is_pre_allocation
        for array, amounts, pods in (
            ("held", info.held, 1),
            ("allocated", info.allocated_vector, 0),
            ("available", info.available, 0),
        ):
            vector = self.vector(amounts, pods=pods)  # may widen the arrays, so that they are new ones
            getattr(self, array)[slot] = vector
        self._write_inside(slot, info)
        return slot

    def _write_inside(self, slot: int, info: ReservationInfo) -> None:
        """Write what decides whether pods fit inside, and whether integers are enough for it."""
        exact = True
        allocatable: Vector = {}
        for name, amount in info.allocatable.items():
            number = plain(name, amount)
            exact &= number is not None and is_counted(name)
            allocatable[name] = number or 0
        allocated: Vector = {}
        for name, amount in (info.allocated or {}).items():
            number = plain(name, amount)
            exact &= number is not None and name != PODS
            allocated[name] = number or 0
        reserved: Vector = {}
        for name in info.resource_names:
            number = plain(name, info.reserved.get(name, ZERO))
            exact &= number is not None
            reserved[name] = number or 0
        self.exact[slot] = exact
        counted = list(filter(is_counted, allocatable))  # `resource_names` are among them
        columns = [self._table.resource_column(name) for name in counted]
        self._widen()
        self.allocatable[slot], self.names[slot], self.left[slot] = 0, False, UNBOUNDED
        for name, column in zip(counted, columns, strict=True):
            self.allocatable[slot, column] = allocatable[name]
            if name in reserved:
                self.names[slot, column] = True
                if info.policy == RESTRICTED:
                    self.left[slot, column] = left_in_reservation(
                        allocatable[name], reserved[name], allocated.get(name, 0)
                    )
        if info.policy == RESTRICTED:
            pods = info.allocatable.get(PODS)
            self.left[slot, PODS_COLUMN] = (
                UNBOUNDED if pods is None else left_in_reservation(pods.value(), 0, len(info.assigned))
            )

    def remember(self, slot: int, key: int, decision: tuple[object, int, bool]) -> None:
        """Keep whether pods with an affinity may use a reservation; not for too many affinities."""
        known = self.decisions[slot]
        if len(known) >= _DECISIONS:
            known.clear()
        known[key] = decision

    def vector(self, amounts: Vector, *, pods: int = 0) -> Int64:
        """Return (resources,) amounts in the order of the table's columns; `pods` is counted apart."""
        columns = [self._table.resource_column(name) for name in amounts]
        self._widen()
        result = np.zeros(self.held.shape[1], np.int64)
        result[columns] = list(amounts.values())
        result[PODS_COLUMN] = pods
        return result

    def _lose_row(self, row: int) -> None:
        for slot in np.flatnonzero(self.row == row).tolist():
            self.row[slot], self.keys[slot] = -1, (-1, self.keys[slot][1])

    def _widen(self) -> None:
        missing = len(self._table.resources) - self.held.shape[1]
        if missing > 0:
            for name in self._WIDE:
                array = getattr(self, name)
                fill = UNBOUNDED if name == "left" else 0
                setattr(self, name, np.pad(array, ((0, 0), (0, missing)), constant_values=fill))

    def _grow(self) -> None:
        old = len(self.infos)
        self.infos.extend([None] * old)
        self.keys.extend([(-1, "")] * old)
        self.decisions.extend({} for _ in range(old))
        self._revisions.extend([0] * old)
        self._free = list(range(2 * old - 1, old - 1, -1))
        for name in (*self._WIDE, *self._NARROW):
            array = getattr(self, name)
            setattr(self, name, np.concatenate([array, array]))
        self.row[old:] = -1
