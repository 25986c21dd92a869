"""The amounts of a node's devices of one type, in exact integers: what allocations are computed with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self

from koordpy.api.quantity import Quantity

from .exact import Exact, exact, is_zero, minus_not_negative


@dataclass(frozen=True, slots=True)
class Left:
    """What is left of a device: `free` never exceeds the total, and what was only named by usage is 0."""

    free: Exact
    is_used: bool
    """Whether anything of it is used."""


def left_of(total: Exact, free: Exact) -> Left:
    """Return what is left of a device with an amount offered as free.

    What is offered beyond the total does not count, and nothing is left of what is not offered.
    """
    used = minus_not_negative(total, free)
    if is_zero(used):
        return Left(total, False)
    return Left(minus_not_negative(total, used), True)


@dataclass(frozen=True, slots=True)
class DeviceAmounts:
    """By minor. `used` has the minors with any usage, be it 0.

    `left` is what is left of each device with a total; none has anything left if nothing is free of any.
    """

    total: Mapping[int, Exact]
    free: Mapping[int, Exact]
    used: Mapping[int, Exact]
    left: Mapping[int, Left]

    @classmethod
    def of(
        cls,
        total: Mapping[int, Mapping[str, Quantity]],
        free: Mapping[int, Mapping[str, Quantity]],
        used: Mapping[int, Mapping[str, Quantity]],
    ) -> Self:
        """Return quantities as exact integers. Devices that share their quantities share these too."""
        known: dict[int, Exact] = {}

        def converted(minors: Mapping[int, Mapping[str, Quantity]]) -> dict[int, Exact]:
            found = {}
            for minor, amounts in minors.items():
                same = known.get(id(amounts))
                if same is None:
                    same = known[id(amounts)] = exact(amounts)
                found[minor] = same
            return found

        totals, frees = converted(total), converted(free)
        rests: dict[tuple[int, int], Left] = {}
        if not all(map(is_zero, frees.values())):
            for minor, amounts in frees.items():
                pair = id(totals[minor]), id(amounts)
                if pair not in rests:
                    rests[pair] = left_of(totals[minor], amounts)
        left = (
            {minor: rests[id(totals[minor]), id(amounts)] for minor, amounts in frees.items()}
            if rests
            else {}
        )
        return cls(totals, frees, converted(used), left)
