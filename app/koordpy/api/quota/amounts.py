"""Arithmetic of resource lists: a missing name counts as 0.

Source: Kubernetes, `k8s.io/apiserver/pkg/quota/v1`.
"""

from collections.abc import Iterable, Mapping

from koordpy.api.quantity import UNSET, Quantity
from koordpy.api.resource_list import Quantities


def total(lists: Iterable[Mapping[str, Quantity]]) -> Quantities:
    """Return the sum of resource lists."""
    result: Quantities = {}
    for amounts in lists:
        for name, amount in amounts.items():
            result[name] = result.get(name, UNSET) + amount
    return result


def plus(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Quantities:
    """Return the sum of two resource lists; an amount that only one of them has keeps its text."""
    result = dict(left)
    for name, amount in right.items():
        result[name] = result[name] + amount if name in result else amount
    return result


def largest(left: Mapping[str, Quantity], right: Mapping[str, Quantity]) -> Quantities:
    """Return the larger amount of every name of either list."""
    return {
        name: max(left.get(name, right.get(name, UNSET)), right.get(name, left.get(name, UNSET)))
        for name in sorted(left.keys() | right.keys())
    }


def fits(amounts: Mapping[str, Quantity], limits: Mapping[str, Quantity]) -> bool:
    """Return whether no amount exceeds its limit; a name without a limit has the limit 0."""
    return all(amount <= limits.get(name, UNSET) for name, amount in amounts.items())


def negative(amounts: Mapping[str, Quantity]) -> list[str]:
    """Return the names of amounts below 0, sorted."""
    return sorted(name for name, amount in amounts.items() if amount.sign < 0)
