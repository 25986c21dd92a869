"""Amounts of devices as exact integers: billionths, without any limit.

Comparisons and differences of quantities are the inner loop of allocation; on integers they cost a tenth. The
rules are those of `koordpy.api.resource_amounts`: a missing name is not the amount 0 unless a function says
so. What is written to objects stays a Quantity.
"""

from collections.abc import Mapping
from typing import Final

from koordpy.api.quantity import Quantity
from koordpy.lib import int64

Exact = Mapping[str, int]
"""Billionths by the name of the resource."""

UNIT: Final = 10**9


def exact(amounts: Mapping[str, Quantity]) -> dict[str, int]:
    """Return quantities in billionths."""
    return {name: amount.nano_value() for name, amount in amounts.items()}


def whole(amount: int) -> int:
    """Return an amount as a whole number, rounded up, as a 64-bit integer."""
    return int64.wrap(-(-amount // UNIT))


def is_zero(amounts: Exact) -> bool:
    """Return whether all amounts are 0, as those of an empty list are."""
    return not any(amounts.values())


def within_known(amounts: Exact, limits: Exact) -> bool:
    """Return whether no amount exceeds its limit; a name without a limit is not limited."""
    return all(amount <= limits.get(name, amount) for name, amount in amounts.items())


def minus_not_negative(left: Exact, right: Exact) -> dict[str, int]:
    """Return the difference with 0 for what would be negative; names of either list."""
    result = {}
    for name, amount in left.items():
        rest = amount - right.get(name, 0)
        result[name] = rest if rest > 0 else 0
    for name in right:
        if name not in left:
            result[name] = 0
    return result


def smallest(left: Exact, right: Exact) -> dict[str, int]:
    """Return the smaller amount of the names that both lists have."""
    return {name: min(amount, right[name]) for name, amount in left.items() if name in right}
