"""Running pods and their usage: arrays with a row per pod, summed by node.

Noise is a function of only the pod's number and the time, so that all schedulers see the same pods.
"""

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from .curve_table import CurveTable
from .curves import Curve

Float64 = NDArray[np.float64]
Int64 = NDArray[np.int64]

MEASURED = ("cpu", "memory")
"""The resources whose usage is simulated: milli-CPU and bytes."""

_FIRST_SLOTS = 256


class PodUsage(Protocol):
    """What a pod uses: curves, the amounts that scale them, and the number that its noise depends on."""

    @property
    def curves(self) -> tuple[Curve, Curve]:
        """One each for `MEASURED`."""
        ...

    @property
    def base(self) -> tuple[float, float]:
        """The amounts, as `MEASURED`."""
        ...

    @property
    def number(self) -> int:
        """The number."""
        ...


class Limits(Protocol):
    """Limits what pods get of what they want."""

    def apply(self, usage: "Usage", wanted: Float64) -> Float64:
        """Return (slots, 2) what each pod uses, given (slots, 2) what it wants."""
        ...


class Usage:
    """The known nodes (whether they have joined or not) and the pods that run on them.

    Arrays of nodes have their rows in the order in which the nodes were added; columns are `MEASURED`.
    """

    def __init__(self) -> None:
        self.names: list[str] = []
        self.row_of: dict[str, int] = {}
        self.capacity = np.zeros((0, len(MEASURED)), np.float64)
        self._system = np.zeros((0, len(MEASURED)), np.float64)
        self.joined = np.zeros(0, np.bool_)
        self._free_rows: list[int] = []
        self._curves = CurveTable()
        self._pods: list[PodUsage | None] = []
        self._keys: list[tuple[str, str]] = []
        self._free: list[int] = []
        self._node = np.zeros(0, np.int64)
        self._number = np.zeros(0, np.int64)
        self._began = np.zeros(0, np.float64)
        self._base = np.zeros((0, len(MEASURED)), np.float64)
        self._curve = np.zeros((0, len(MEASURED)), np.int64)
        self._best_effort = np.zeros(0, np.bool_)
        self._on: list[set[int]] = []
        self.changes = 0
        """Counts changes of usage other than by time."""
        self.limits: Limits | None = None
        """What pods get of what they want; None: all of it."""
        self._wanted: tuple[float, int, Float64] | None = None

    @property
    def varies(self) -> bool:
        """Whether any curve so far changes with time."""
        return self._curves.varies

    @property
    def system(self) -> Float64:
        """The usage of nodes themselves."""
        return self._system

    @property
    def node_of(self) -> Int64:
        """The row of each pod's node, by slot; of no meaning for free slots, which want nothing."""
        return self._node

    @property
    def best_effort(self) -> NDArray[np.bool_]:
        """Which slots hold best-effort pods."""
        return self._best_effort

    def add(self, name: str, capacity: tuple[float, float], system: tuple[float, float]) -> int:
        """Make a node known, or change what is known of it; return its row."""
        row = self.row_of.get(name)
        if row is None:
            if self._free_rows:
                row = self._free_rows.pop()
                self.names[row] = name
            else:
                row = len(self.names)
                self.names.append(name)
                self._on.append(set())
                self.capacity = np.vstack([self.capacity, np.zeros((1, len(MEASURED)))])
                self._system = np.vstack([self._system, np.zeros((1, len(MEASURED)))])
                self.joined = np.append(self.joined, False)
            self.row_of[name] = row
        self.capacity[row], self._system[row] = capacity, system
        self.changes += 1
        return row

    def drop(self, name: str) -> None:
        """Forget a node; its pods must have ended."""
        self.leave(name)
        self._free_rows.append(self.row_of.pop(name))

    def join(self, name: str) -> None:
        """Add a node."""
        self.joined[self.row_of[name]] = True
        self.changes += 1

    def leave(self, name: str) -> None:
        """Remove a node."""
        self.joined[self.row_of[name]] = False
        self.changes += 1

    def begin(
        self, pod: PodUsage, key: tuple[str, str], node: str, now: float, *, best_effort: bool = False
    ) -> int:
        """Add a running pod and return its slot. `key` is namespace and name of this incarnation of it."""
        if not self._free:
            self._grow()
        slot = self._free.pop()
        row = self.row_of[node]
        self._pods[slot], self._keys[slot] = pod, key
        self._node[slot], self._number[slot], self._began[slot] = row, pod.number, now
        self._base[slot], self._best_effort[slot] = pod.base, best_effort
        self._curve[slot] = [self._curves.take(curve) for curve in pod.curves]
        self._on[row].add(slot)
        self.changes += 1
        return slot

    def end(self, slot: int) -> None:
        """Remove a pod."""
        self._on[int(self._node[slot])].discard(slot)
        for number in self._curve[slot].tolist():
            self._curves.release(number)
        self._pods[slot] = None
        self._base[slot] = 0.0
        self._free.append(slot)
        self.changes += 1

    def of_pods(self, now: float) -> Float64:
        """Return (slots, 2) the current usage of each pod; 0 for free slots."""
        wanted = self.wanted(now)
        return wanted if self.limits is None else self.limits.apply(self, wanted)

    def wanted(self, now: float) -> Float64:
        """Return (slots, 2) what each pod would use without limits, read-only; 0 for free slots."""
        if self._wanted is None or self._wanted[:2] != (now, self.changes):
            self._wanted = (now, self.changes, self._worked_out(now))
        return self._wanted[2]

    def _worked_out(self, now: float) -> Float64:
        result = np.zeros_like(self._base)
        if self._pods:
            factors, noises = self._curves.factors(now), self._curves.noises
            for column in range(len(MEASURED)):
                curve, base = self._curve[:, column], self._base[:, column]
                factor = factors[curve]
                for number in self._curves.own_times:
                    for slot in np.flatnonzero((curve == number) & (base > 0)).tolist():
                        factor[slot] = self._curves.factor(number, now - float(self._began[slot]))
                noise = noises[curve]
                if noise.any():
                    factor = factor * (1.0 + noise * _noise(self._number, now, column))
                result[:, column] = base * factor
        result.setflags(write=False)
        return result

    def of_nodes(self, pods: Float64) -> Float64:
        """Return (nodes, 2) the usage of each node with its pods, at most its capacity."""
        total = self._system + self.summed(pods)
        total[~self.joined] = 0.0
        return np.minimum(total, self.capacity)

    def summed(self, pods: Float64) -> Float64:
        """Return (nodes, 2) the sums of amounts of pods by node."""
        count = len(self.names)
        return np.column_stack(
            [np.bincount(self._node, pods[:, column], count)[:count] for column in range(len(MEASURED))]
        )

    def on(self, row: int) -> list[tuple[int, PodUsage, tuple[str, str]]]:
        """Return the pods of a node: slot, pod, and its key."""
        found = []
        for slot in sorted(self._on[row]):
            pod = self._pods[slot]
            assert pod is not None
            found.append((slot, pod, self._keys[slot]))
        return found

    def _grow(self) -> None:
        old = len(self._pods)
        more = max(old, _FIRST_SLOTS)
        self._pods += [None] * more
        self._keys += [("", "")] * more
        self._free += range(old + more - 1, old - 1, -1)
        self._node = np.concatenate([self._node, np.zeros(more, np.int64)])
        self._number = np.concatenate([self._number, np.zeros(more, np.int64)])
        self._began = np.concatenate([self._began, np.zeros(more, np.float64)])
        self._base = np.concatenate([self._base, np.zeros((more, len(MEASURED)), np.float64)])
        self._curve = np.concatenate([self._curve, np.zeros((more, len(MEASURED)), np.int64)])
        self._best_effort = np.concatenate([self._best_effort, np.zeros(more, np.bool_)])


def _noise(numbers: Int64, now: float, column: int) -> Float64:
    """Return a number between -1 and 1 for every pod: a hash of its number, the time and the resource."""
    with np.errstate(over="ignore"):
        mixed = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        mixed += np.uint64(int(now * 1000) * 2 + column) * np.uint64(0xD1B54A32D192ED03)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            mixed = (mixed ^ (mixed >> np.uint64(shift))) * np.uint64(factor)
        mixed ^= mixed >> np.uint64(31)
    return mixed.astype(np.float64) / float(1 << 63) - 1.0
