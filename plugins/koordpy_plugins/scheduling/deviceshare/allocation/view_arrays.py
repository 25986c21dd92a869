"""The devices that an attempt may use, in many states of nodes at once: see `view` for one node."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from koordpy.cluster.columns import Column
from koordpy.lib.row_groups import group
from koordpy.scheduling.toolkit.topology_manager.affinities import ANY

from ..state.columns import MINORS, DeviceColumns, TypeColumns
from ..state.device_labels import NO_LABELS
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

    Of the types in `demands` only devices that its selector selects count. Bit i of a set is minor i.
    """

    def __init__(
        self,
        columns: DeviceColumns,
        states: Int64,
        demands: Mapping[str, Demand],
        masks: Int64 | None = None,
    ) -> None:
        self.columns, self.states, self.demands = columns, states, demands
        self.masks = None if masks is None or (masks == ANY).all() else masks
        self.known: Bool = self.read(columns.known)
        """(n,) whether any device of a node is known."""
        self._candidates: dict[str, Bits | None] = {}
        self._selected: dict[str, tuple[Bits, Int64]] = {}
        self._functions: dict[str, tuple[Bits, Bool]] = {}

    def __len__(self) -> int:
        return len(self.states)

    def read(self, column: Column) -> NDArray[Any]:
        """(n,) or (n, width) the cells of a column."""
        return column.values.take(self.states, axis=0)

    def of(self, type_: str) -> TypeColumns:
        """Return the columns of a type."""
        return self.columns.types[type_]

    def unknown(self) -> Bool:
        """(n,) of which rows the columns do not show what counts."""
        found = np.zeros(len(self), np.bool_)
        for type_, demand in self.demands.items():
            found |= ~self.read(self.of(type_).exact)
            if demand.selector is not None:
                found |= self.read(self.of(type_).labels_id) < 0
            if demand.functions is not None:
                found |= self.read(self.of(type_).functions_id) < 0
        if self.masks is not None:
            found |= (self.masks != ANY) & (self.read(self.columns.layout_id) < 0)
        return found & self.known

    def candidates(self, type_: str) -> Bits | None:
        """(n,) the devices that count, None if all do."""
        if type_ not in self._candidates:
            near, demand = self._near(type_), self.demands.get(type_)
            if demand is not None and demand.selector is not None:
                selected, _ = self.selected(type_)
                near = selected if near is None else near & selected
            self._candidates[type_] = near
        return self._candidates[type_]

    def selected(self, type_: str) -> tuple[Bits, Int64]:
        """Return the devices that the selector of a demand selects (n,), and how many are listed (n,)."""
        if type_ not in self._selected:
            selector = self.demands[type_].selector
            assert selector is not None
            numbers, which = np.unique(self.read(self.of(type_).labels_id), return_inverse=True)
            known = self.columns.labels
            found = [(known.value_of(at) if at >= 0 else NO_LABELS).of(selector) for at in numbers.tolist()]
            sets = np.array([each.bits & _ALL for each in found], np.uint32)
            listed = np.array([each.listed for each in found], np.int64)
            self._selected[type_] = sets[which], listed[which]
        return self._selected[type_]

    def with_functions(self, type_: str) -> tuple[Bits, Bool]:
        """Return the devices that can give a function of a demand (n,), and whether any have some (n,)."""
        if type_ not in self._functions:
            selector = self.demands[type_].functions
            assert selector is not None
            numbers, which = np.unique(self.read(self.of(type_).functions_id), return_inverse=True)
            known = self.columns.functions
            found = [known.value_of(at) if at >= 0 else NO_FUNCTIONS for at in numbers.tolist()]
            sets = np.array([each.of(selector) & _ALL for each in found], np.uint32)
            self._functions[type_] = sets[which], np.array([each.has_any for each in found], np.bool_)[which]
        return self._functions[type_]

    def least(self, type_: str, demand: Demand) -> Int64 | int:
        """(n,) how many devices are wanted."""
        if demand.count is not None:
            return demand.count
        if demand.selector is not None:
            return self.selected(type_)[1]
        return self.read(self.of(type_).count).astype(np.int64)

    def _near(self, type_: str) -> Bits | None:
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
        """(n,) those of a set of devices that count."""
        found: Bits = self.read(column)
        limit = self.candidates(type_)
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

    def used(self, type_: str) -> Bits:
        """(n,) the devices in use, see `gpu.used_bits`."""
        of_type = self.of(type_)
        used: Bits = self.read(of_type.used)
        if self.candidates(type_) is None:
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
