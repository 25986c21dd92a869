"""Arithmetic of resource lists, in which a missing name is not the amount 0 unless a function says so.

Sums and differences are exact and keep the formats of their operands, since they end up in annotations.
Source: Kubernetes, `k8s.io/apiserver/pkg/quota/v1`; Koordinator, `pkg/util/resource.go` (`smallest`).
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from .quantity import UNSET, Quantity
from .resource_list import Quantities

Amounts = Mapping[str, Quantity]

_ZERO: Final = Quantity.of(0)


def total(lists: Iterable[Amounts]) -> Quantities:
    """Return the sum of resource lists."""
    result: Quantities = {}
    for amounts in lists:
        for name, amount in amounts.items():
            result[name] = result.get(name, UNSET) + amount
    return result


def plus(left: Amounts, right: Amounts) -> Quantities:
    """Return the sum of two resource lists; an amount that only one of them has keeps its text."""
    result = dict(left)
    for name, amount in right.items():
        result[name] = result[name] + amount if name in result else amount
    return result


def minus(left: Amounts, right: Amounts) -> Quantities:
    """Return the difference; a name that only the right list has is negated."""
    if not right:
        return dict(left)
    result = {name: amount - right[name] if name in right else amount for name, amount in left.items()}
    for name, amount in right.items():
        if name not in left:
            result[name] = -amount
    return result


def minus_not_negative(left: Amounts, right: Amounts) -> Quantities:
    """Return the difference with 0 for what would be negative, and for every name of the right list alone."""
    return {
        name: amount if name in left and amount.sign > 0 else _ZERO
        for name, amount in minus(left, right).items()
    }


def largest(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Quantities:
    """Return the larger amount of every name of either list."""
    return {
        name: max(left.get(name, right.get(name, UNSET)), right.get(name, left.get(name, UNSET)))
        for name in sorted(left.keys() | right.keys())
    }


def smallest(left: Amounts, right: Amounts) -> Quantities:
    """Return the smaller amount of the names that both lists have; of equal amounts the right one."""
    return {
        name: amount if amount < right[name] else right[name]
        for name, amount in left.items()
        if name in right
    }


def masked(amounts: Amounts, names: Collection[str]) -> Quantities:
    """Return the amounts of some names."""
    return {name: amount for name, amount in amounts.items() if name in names}


def without_zeros(amounts: Amounts) -> Quantities:
    """Return the amounts that are not 0."""
    return {name: amount for name, amount in amounts.items() if not amount.is_zero}


def is_zero(amounts: Amounts) -> bool:
    """Return whether all amounts are 0, as those of an empty list are."""
    return all(amount.is_zero for amount in amounts.values())


def equal(left: Amounts, right: Amounts) -> bool:
    """Return whether two lists have the same names and amounts: a missing name differs from 0."""
    return left is right or left == right


def within_known(amounts: Amounts, limits: Amounts) -> bool:
    """Return whether no amount exceeds its limit; a name without a limit is not limited."""
    return all(amount <= limits[name] for name, amount in amounts.items() if name in limits)
