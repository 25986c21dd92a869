"""The curves of running pods, and their factors at a time.

A recording has curves of its own for every pod, with a step for every report: only the curves of pods that
run are worked out, and steps are found by bisection.
"""

import math
from bisect import bisect_right

import numpy as np
from numpy.typing import NDArray

from .curves import Curve

Float64 = NDArray[np.float64]


class CurveTable:
    """Curves by number, each as long as it is in use."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}
        self._curves: list[Curve | None] = []
        self._steps: list[tuple[list[float], list[float]]] = []
        self._uses: list[int] = []
        self._free: list[int] = []
        self._moving: dict[int, None] = {}
        self._factors = np.ones(0, np.float64)
        self.noises = np.zeros(0, np.float64)
        """Of each curve, by number."""
        self.own_times: dict[int, None] = {}
        """The numbers of curves whose time counts from the start of each pod."""
        self.varies = False
        """Whether any curve so far changes with time."""

    def take(self, curve: Curve) -> int:
        """Use a curve once more; return its number."""
        number = self._numbers.get(id(curve))
        if number is None:
            number = self._add(curve)
        self._uses[number] += 1
        return number

    def release(self, number: int) -> None:
        """Use a curve once less."""
        self._uses[number] -= 1
        if self._uses[number]:
            return
        curve = self._curves[number]
        self._curves[number], self._steps[number] = None, ([], [])
        del self._numbers[id(curve)]
        self._moving.pop(number, None)
        self.own_times.pop(number, None)
        self._free.append(number)

    def factors(self, now: float) -> Float64:
        """Return the factors of the base by number, without noise; not those of `own_times`."""
        for number in self._moving:
            self._factors[number] = self.factor(number, now)
        return self._factors

    def factor(self, number: int, at: float) -> float:
        """Return the factor of the base at a time, without noise."""
        curve = self._curves[number]
        assert curve is not None
        if curve.shape == "sine":
            return 1.0 + curve.amplitude * math.cos(2 * math.pi * (at - curve.peak_at) / curve.period)
        if curve.shape == "steps":
            times, values = self._steps[number]
            index = bisect_right(times, at)
            return values[index - 1] if index else 1.0
        return 1.0

    def _add(self, curve: Curve) -> int:
        if not self._free:
            more = max(len(self._curves), 16)
            self._free += range(len(self._curves) + more - 1, len(self._curves) - 1, -1)
            self._curves += [None] * more
            self._steps += [([], [])] * more
            self._uses += [0] * more
            self._factors = np.concatenate([self._factors, np.ones(more, np.float64)])
            self.noises = np.concatenate([self.noises, np.zeros(more, np.float64)])
        number = self._free.pop()
        self._numbers[id(curve)], self._curves[number] = number, curve
        self._steps[number] = ([step.at for step in curve.steps], [step.value for step in curve.steps])
        self._factors[number], self.noises[number] = 1.0, curve.noise
        if curve.shape != "constant":
            (self.own_times if curve.since == "running" else self._moving)[number] = None
        self.varies = self.varies or curve.shape != "constant" or curve.noise > 0
        return number
