"""The devices that an attempt may use, in many states of nodes at once: see `view` for one node."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from koordpy.api.label_selector import Selector
from koordpy.cluster.columns import Column
from koordpy.lib.row_groups import group
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY

from ..state.columns import MINORS, DeviceColumns, TypeColumns
from ..state.exact import UNIT, Exact
from ..state.free_functions import NO_FUNCTIONS
from ..state.layout import near
from .demands import Demand

Bool = NDArray[np.bool_]
Bits = NDArray[np.uint32]
Int64 = NDArray[np.int64]

_SET: Final = np.dtype(f"<u{MINORS // 8}")
"""A set of minors, as packed bits."""

_ALL: Final = (1 << MINORS) - 1


class ViewArrays:
    """Rows of a state (n,) and a mask (n,) of the NUMA nodes whose devices count, `ANY` for all.

    Bit i of a set is minor i.
    """

    def __init__(self, columns: DeviceColumns, states: Int64, masks: Int64 | None = None) -> None:
        self.columns, self.states = columns, states
        self.masks = None if masks is None or (masks == ANY).all() else masks
        self.known: Bool = self.read(columns.known)
        """(n,) whether any device of a node is known."""
        self._near: dict[str, Bits | None] = {}

    def __len__(self) -> int:
        return len(self.states)

    def read(self, column: Column) -> NDArray[Any]:
        """(n,) or (n, width) the cells of a column."""
        return column.values.take(self.states, axis=0)

    def of(self, type_: str) -> TypeColumns:
        """Return the columns of a type."""
        return self.columns.types[type_]

    def unknown(self, demands: Mapping[str, Demand]) -> Bool:
        """(n,) of which rows the columns do not show what counts for demands by type."""
        found = np.zeros(len(self), np.bool_)
        for type_, demand in demands.items():
            found |= ~self.read(self.of(type_).exact)
            if demand.functions is not None:
                found |= self.read(self.of(type_).functions_id) < 0
        if self.masks is not None:
            found |= (self.masks != ANY) & (self.read(self.columns.layout_id) < 0)
        return found & self.known

    def near(self, type_: str) -> Bits | None:
        """(n,) the devices on the NUMA nodes, None if all are."""
        if type_ not in self._near:
            self._near[type_] = self._find_near(type_)
        return self._near[type_]

    def _find_near(self, type_: str) -> Bits | None:
        if self.masks is None:
            return None
        layouts = self.read(self.columns.layout_id)
        groups, first = group((layouts, self.masks), len(self))
        sets = [
            _ALL if mask == ANY or layout < 0 else near(self.columns.layouts.value_of(layout), type_, mask)
            for layout, mask in zip(layouts[first].tolist(), self.masks[first].tolist(), strict=True)
        ]
        return np.array([found & _ALL for found in sets], np.uint32)[groups]

    def devices(self, type_: str, column: Column) -> Bits:
        """(n,) those of a set of devices that are on the NUMA nodes."""
        found: Bits = self.read(column)
        limit = self.near(type_)
        return found if limit is None else found & limit

    def fitting(self, type_: str, request: Exact) -> Bits:
        """(n,) the devices that can give a request."""
        of_type = self.of(type_)
        width = width_of(self.read(of_type.listed))
        fits = np.zeros((len(self), MINORS), np.bool_)
        fits[:, :width] = True
        for name, amount in request.items():
            fits[:, :width] &= of_type.free[name].values[self.states, :width] >= amount // UNIT
        packed: Bits = np.packbits(fits, axis=1, bitorder="little").view(_SET)[:, 0].astype(np.uint32)
        packed &= self.read(of_type.listed)
        return packed

    def with_functions(self, type_: str, selector: Selector) -> tuple[Bits, Bool]:
        """Return the devices that can give a virtual function (n,), and whether any device has some (n,)."""
        numbers, which = np.unique(self.read(self.of(type_).functions_id), return_inverse=True)
        known = [
            NO_FUNCTIONS if number < 0 else self.columns.functions.value_of(number)
            for number in numbers.tolist()
        ]
        sets = np.array([functions.of(selector) & _ALL for functions in known], np.uint32)
        return sets[which], np.array([functions.has_any for functions in known], np.bool_)[which]

    def used(self, type_: str) -> Bits:
        """(n,) the devices in use, see `gpu.used_bits`."""
        of_type = self.of(type_)
        used: Bits = self.read(of_type.used)
        if self.masks is None:
            return used
        there = self.devices(type_, of_type.listed)
        return (used & there) | (self.read(of_type.known_used) & ~there)


def width_of(sets: Bits) -> int:
    """Return how many minors there are, up to the last one in any set."""
    return max(int(np.bitwise_or.reduce(sets, initial=0)).bit_length(), 1)


def lowest(sets: Bits, count: int) -> Bits:
    """(n,) the lowest minors of sets, at most `count`."""
    found, left = np.zeros_like(sets), sets.copy()
    for _ in range(min(count, MINORS)):
        least = left & (~left + np.uint32(1))
        found |= least
        left ^= least
    return found
