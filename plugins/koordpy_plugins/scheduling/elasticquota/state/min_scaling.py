"""Scales the minimums of quotas down when their parent has less than the sum of them.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/core/scale_minquota_when_over_root_res.go`.
"""

from math import inf

from koordpy.api.quantity import ZERO
from koordpy.api.resource_amounts import plus
from koordpy.api.resource_list import Quantities
from koordpy.lib import int64

from .amounts import Amounts, amount_of, integer, minus_not_negative, quantity


class MinScaling:
    """The minimums of all quotas of a tree, and the sum of the children's for each parent."""

    def __init__(self) -> None:
        self._sums: dict[str, Quantities] = {}
        self._minimums: dict[str, Quantities | None] = {}

    def set(self, parent: str, name: str, least: Quantities | None) -> None:
        """Record the minimum of a quota; None if it has none, which is never scaled."""
        total = self._sums.get(parent, {})
        if name in self._minimums:
            total = minus_not_negative(total, self._minimums[name] or {})
        self._sums[parent] = plus(total, least or {})
        self._minimums[name] = least

    def remove(self, parent: str, name: str) -> None:
        """Forget a quota. The sum of its own children is kept for them."""
        if name in self._minimums and parent in self._sums:
            self._sums[parent] = minus_not_negative(self._sums[parent], self._minimums[name] or {})
        self._minimums.pop(name, None)

    def forget_parent(self, parent: str) -> None:
        """Forget the sum of a quota that has no children."""
        self._sums.pop(parent, None)

    def sum_of(self, parent: str) -> Quantities | None:
        """Return the sum of the minimums of a quota's children, None if it never had any."""
        return self._sums.get(parent)

    def restore_sum(self, parent: str, total: Quantities | None) -> None:
        """Set the sum of a quota that was removed with its children left in place."""
        if total is not None:
            self._sums[parent] = total

    def scale(self, parent: str, total: Amounts) -> "Scale":
        """Return by how much the minimums of a quota's children are scaled, given what the quota has."""
        sums = self._sums.get(parent, {})
        found: Scale = []
        for name, amount in total.items():
            known = sums.get(name)
            if amount.sign >= 0 if known is None else amount >= known:
                continue
            if amount.value() <= 0:
                found.append((name, None, 0.0))
            elif known is None or known.value() <= 0:
                found.append((name, 0.0, 1.0))
            else:
                found.append((name, float(integer(name, amount)), float(integer(name, known))))
        return found

    def scaled(self, parent: str, name: str, scale: "Scale") -> Quantities | None:
        """Return the scaled minimum of a quota; None if it is not scaled at all.

        A resource that is not in the total of the parent is never scaled.
        """
        least = self._minimums.get(name)
        if least is None or parent not in self._sums or not scale:
            return least if parent in self._sums else None
        result = dict(least)
        for resource, total, divisor in scale:
            if total is None:
                result[resource] = ZERO
                continue
            own = float(integer(resource, amount_of(least, resource)))
            share = total * own / divisor if divisor else inf
            result[resource] = quantity(resource, int64.from_float(share))
        return result


Scale = list[tuple[str, float | None, float]]
"""The resources that are short: what there is of each (None for nothing) and the sum of the minimums."""
