"""Arithmetic of resource lists as the quota plugin needs it, where a missing name differs from 0.

`koordpy.api.resource_amounts` has the arithmetic that others use, too. Sums and comparisons
are exact; only the runtime of quotas is computed with 64-bit integers (`integer`, `quantity`). Source:
Kubernetes, `k8s.io/apiserver/pkg/quota/v1`; Koordinator, `runtime_quota_calculator.go`.
"""

from typing import Final

from koordpy.api.quantity import MILLI, UNSET, Format, Quantity
from koordpy.api.resource_amounts import Amounts, equal, is_zero, masked, minus, minus_not_negative, plus
from koordpy.api.resource_list import Quantities
from koordpy.api.resource_names import CPU, MEMORY

__all__ = [
    "Amounts",
    "at_least",
    "equal",
    "exceeded",
    "integer",
    "is_zero",
    "masked",
    "minus",
    "minus_not_negative",
    "not_negative",
    "plus",
    "quantity",
    "text",
]

_ZERO_MILLI: Final = Quantity.of_milli(0)
_ZERO_BYTES: Final = Quantity.of(0, Format.BINARY_SI)
_ZERO: Final = Quantity.of(0)


def integer(name: str, amount: Quantity) -> int:
    """Return the 64-bit integer of an amount, rounded up: cpu in thousandths, others whole."""
    return amount.milli_value() if name == CPU else amount.value()


def quantity(name: str, number: int) -> Quantity:
    """Return the amount of a 64-bit integer, in the format that its resource is written in."""
    if name == CPU:
        return Quantity(number, MILLI, Format.DECIMAL_SI)
    return Quantity(number, 0, Format.BINARY_SI if name == MEMORY else Format.DECIMAL_SI)


def _zero(name: str) -> Quantity:
    if name == CPU:
        return _ZERO_MILLI
    return _ZERO_BYTES if name == MEMORY else _ZERO


def not_negative(amounts: Amounts) -> Quantities:
    """Return the list with 0 for each negative amount."""
    return {name: amount if amount.sign >= 0 else _zero(name) for name, amount in amounts.items()}


def at_least(amounts: Amounts, least: Amounts) -> Quantities:
    """Return the larger amount of every name of either list."""
    result = dict(amounts)
    for name, amount in least.items():
        known = result.get(name)
        if known is None or amount > known:
            result[name] = amount
    return result


def exceeded(amounts: Amounts, limits: Amounts) -> list[str]:
    """Return the names, sorted, whose amount exceeds its limit; a name without a limit is not limited."""
    return sorted(name for name, limit in limits.items() if name in amounts and amounts[name] > limit)


def amount_of(amounts: Amounts, name: str) -> Quantity:
    """Return the amount of a name, 0 if it has none."""
    return amounts.get(name, UNSET)


def text(amounts: Amounts) -> str:
    """Write a list as Koordinator's messages do: `cpu:1,memory:2Gi`."""
    if not amounts:
        return "<empty>"
    return ",".join(sorted(f"{name}:{amount}" for name, amount in amounts.items()))
