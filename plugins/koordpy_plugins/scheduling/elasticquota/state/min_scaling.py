"""Scales the minimums of quotas down when their parent has less than the sum of them.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/core/scale_minquota_when_over_root_res.go`.
"""

from math import inf

from koordpy.api.quantity import ZERO
from koordpy.api.quota.amounts import plus
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

    def short(self, parent: str, total: Amounts) -> list[str]:
        """Return the resources of a total that do not cover the minimums of a quota's children."""
        sums = self._sums.get(parent, {})
        return [name for name, amount in total.items() if amount < amount_of(sums, name)]

    def scaled(
        self, parent: str, name: str, total: Amounts, short: list[str] | None = None
    ) -> Quantities | None:
        """Return the minimum of a quota whose parent has `total` to give; None if it is not scaled.

        A resource that is not in `total` is never scaled. `short` is what `short` returns, if it is known.
        """
        least = self._minimums.get(name)
        if least is None or parent not in self._sums:
            return None
        if short is None:
            short = self.short(parent, total)
        if not short:
            return least
        result = dict(least)
        for resource in short:
            if total[resource].value() <= 0:
                result[resource] = ZERO
                continue
            sums = amount_of(self._sums[parent], resource)
            scaled = 0
            if sums.value() > 0:
                own = float(integer(resource, amount_of(least, resource)))
                divisor = float(integer(resource, sums))
                share = float(integer(resource, total[resource])) * own / divisor if divisor else inf
                scaled = int64.from_float(share)
            result[resource] = quantity(resource, scaled)
        return result
