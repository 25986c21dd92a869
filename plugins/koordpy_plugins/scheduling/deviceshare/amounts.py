"""Arithmetic of amounts by type of device, minor and resource.

Nothing here changes its operands. A minor without any amount left is dropped by a difference, and a type
without minors too. Source: Koordinator, `pkg/scheduler/plugins/deviceshare/device_resources.go`.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Final

from koordpy.api.resource_amounts import Amounts, is_zero, minus, minus_not_negative, plus

NodeAmounts = Mapping[str, Mapping[int, Amounts]]
"""Amounts by type of device and minor."""

Minors = Mapping[str, Collection[int]]
"""Minors by type of device."""

NONE: Final[NodeAmounts] = {}


def total(*lists: NodeAmounts) -> NodeAmounts:
    """Return the sum."""
    given = [amounts for amounts in lists if amounts]
    if len(given) <= 1:
        return given[0] if given else NONE
    result: dict[str, dict[int, Amounts]] = {}
    for amounts in given:
        for type_, minors in amounts.items():
            _add(result.setdefault(type_, {}), minors.items())
    return result


def total_of_minors(kept: Minors, *lists: NodeAmounts) -> NodeAmounts:
    """Return the sum for some types and their minors; a type that any list has stays, even without minors."""
    result: dict[str, dict[int, Amounts]] = {}
    for type_, minors in kept.items():
        for amounts in lists:
            if type_ in amounts:
                found = amounts[type_].items()
                _add(result.setdefault(type_, {}), (item for item in found if item[0] in minors))
    return result


def _add(to: dict[int, Amounts], minors: Iterable[tuple[int, Amounts]]) -> None:
    for minor, amounts in minors:
        to[minor] = plus(to[minor], amounts) if minor in to else amounts


def difference(left: NodeAmounts, right: NodeAmounts, *, negative: bool = True) -> NodeAmounts:
    """Return the difference; without `negative`, 0 for what would be less."""
    if not right:
        return left
    subtract = minus if negative else minus_not_negative
    result = dict(left)
    for type_, minors in right.items():
        of_type = dict(result.get(type_, {}))
        for minor, amounts in minors.items():
            rest = subtract(of_type.get(minor, {}), amounts)
            if is_zero(rest):
                of_type.pop(minor, None)
            else:
                of_type[minor] = rest
        if of_type:
            result[type_] = of_type
        else:
            result.pop(type_, None)
    return result


def minors_of(amounts: NodeAmounts) -> Minors:
    """Return the minors of each type."""
    return {type_: frozenset(minors) for type_, minors in amounts.items()}
