"""Amounts of cpu and memory in billionths, exact, and how they are rounded and written.

All sums are integers; the rounding to thousandths or whole numbers is Go's, and so is the truncation of
products with doubles. Source: Kubernetes, `k8s.io/apimachinery/pkg/api/resource`; Koordinator,
`pkg/util/resource.go`.
"""

import math
from collections.abc import Mapping
from typing import Final

import msgspec

from koordpy.api.quantity import MILLI, NANO, Format, Quantity, WireQuantity, milli_value, nano_value
from koordpy.api.resource_names import CPU, MEMORY
from koordpy.lib import int64

NANOS_PER_MILLI: Final = 10**6
NANOS_PER_UNIT: Final = 10**9
EXACTLY_DIVIDED: Final = NANOS_PER_MILLI << 47
MOST_EXACT_PARTS: Final = 64
"""Below these, integers divide as doubles do: a quotient that is not whole is further from a whole number
than a double rounds.
"""

_LARGEST_PLAIN: Final = NANOS_PER_MILLI << 62
_GIGA: Final = 10**18


class Amounts(msgspec.Struct, frozen=True, gc=False):
    """Cpu and memory in billionths of cores and bytes."""

    cpu: int = 0
    memory: int = 0

    def plus(self, other: "Amounts") -> "Amounts":
        """Return the sum."""
        return Amounts(self.cpu + other.cpu, self.memory + other.memory)

    def minus(self, other: "Amounts") -> "Amounts":
        """Return the difference, which may be negative."""
        return Amounts(self.cpu - other.cpu, self.memory - other.memory)

    def at_least(self, other: "Amounts") -> "Amounts":
        """Return the larger amount of each."""
        return Amounts(max(self.cpu, other.cpu), max(self.memory, other.memory))

    def divided(self, parts: int) -> "Amounts":
        """Return one of several parts, rounded up to thousandths (of bytes too)."""
        return Amounts(divided(self.cpu, parts), divided(self.memory, parts))


NOTHING: Final = Amounts()


def read(amounts: Mapping[str, WireQuantity]) -> Amounts:
    """Return cpu and memory of a resource list; what is missing is 0. Raises QuantityError."""
    return Amounts(nanos(amounts.get(CPU)), nanos(amounts.get(MEMORY)))


_LONGEST_PLAIN: Final = 15
_UNITS: Final = {"m": NANOS_PER_MILLI, "n": 1, "u": 1000}
_LARGEST_BINARY: Final = int64.MAX * NANOS_PER_UNIT
_BINARY: Final = {
    "Ki": NANOS_PER_UNIT << 10,
    "Mi": NANOS_PER_UNIT << 20,
    "Gi": NANOS_PER_UNIT << 30,
}


def nanos(amount: WireQuantity | None) -> int:
    """Return an amount in billionths, 0 for None. Raises QuantityError.

    Usual texts, most of which occur once, need no general parser.
    """
    if amount is None:
        return 0
    if isinstance(amount, str) and len(amount) <= _LONGEST_PLAIN and amount.isascii():
        if amount.isdigit():
            return int(amount) * NANOS_PER_UNIT
        if (unit := _UNITS.get(amount[-1:])) is not None and (number := amount[:-1]).isdigit():
            return int(number) * unit
        if (unit := _BINARY.get(amount[-2:])) is not None and (number := amount[:-2]).isdigit():
            exact = int(number) * unit
            if exact <= _LARGEST_BINARY:  # more is cut off
                return exact
    return nano_value(amount)


def milli(amount: int) -> int:
    """Return thousandths, rounded away from zero, 64 bits."""
    return int64.wrap(_away_from_zero(amount, NANOS_PER_MILLI))


def whole(amount: int) -> int:
    """Return a whole number, rounded away from zero, 64 bits."""
    return int64.wrap(_away_from_zero(amount, NANOS_PER_UNIT))


def giga(amount: int) -> int:
    """Return billions, rounded away from zero."""
    return int64.wrap(_away_from_zero(amount, _GIGA))


def times_milli(amount: int, factor: float) -> int:
    """Return thousandths times a factor, truncated to thousandths; in billionths."""
    return int64.from_float(float(milli(amount)) * factor) * NANOS_PER_MILLI


def times_whole(amount: int, factor: float) -> int:
    """Return a whole number times a factor, truncated; in billionths."""
    return int64.from_float(float(whole(amount)) * factor) * NANOS_PER_UNIT


def quantity(amount: int, format: Format = Format.DECIMAL_SI) -> Quantity:
    """Return a quantity of an amount in billionths."""
    for scale, divisor in ((0, NANOS_PER_UNIT), (MILLI, NANOS_PER_MILLI)):
        if amount % divisor == 0 and int64.fits(amount // divisor):
            return Quantity.of_scaled(amount // divisor, scale, format)
    return Quantity(amount, NANO, format, big=not int64.fits(amount))


def differs(old: WireQuantity, new: WireQuantity, threshold: float) -> bool:
    """Return whether an amount changed by more than a share of its old value."""
    if old == new and threshold >= 0 and isinstance(old, str) and old[:1].isdigit():
        return False  # not so for negative amounts and thresholds: 0 is more than less than 0
    before, after = _milli_of(old), _milli_of(new)
    return abs(float(int64.wrap(after - before))) > float(before) * threshold


def _milli_of(amount: WireQuantity) -> int:
    """Return thousandths, rounded as quantities are, without a parsed quantity for usual amounts."""
    exact = nanos(amount)
    return -(-exact // NANOS_PER_MILLI) if 0 <= exact < _LARGEST_PLAIN else milli_value(amount)


def _away_from_zero(number: int, divisor: int) -> int:
    return -(-number // divisor) if number >= 0 else -((divisor - 1 - number) // divisor)


def divided(amount: int, parts: int) -> int:
    """Return one of several parts, rounded up to thousandths; in billionths.

    Koordinator divides doubles.
    """
    if 0 <= amount < EXACTLY_DIVIDED and parts <= MOST_EXACT_PARTS:
        return -(-amount // (NANOS_PER_MILLI * parts)) * NANOS_PER_MILLI
    return math.ceil(float(milli(amount)) / float(parts)) * NANOS_PER_MILLI
