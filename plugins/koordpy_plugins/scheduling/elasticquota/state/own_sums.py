"""What pods of one quota request and use, summed up before any ancestor hears of it."""

from koordpy.api.resource_list import Quantities

from .amounts import Amounts, is_zero, minus

_NOTHING: Quantities = {}


class OwnSums:
    """The sums over some pods of a quota, of the resources that the quota limits."""

    __slots__ = ("non_preemptible_request", "non_preemptible_used", "request", "used")

    def __init__(self) -> None:
        self.request: Quantities = {}
        self.non_preemptible_request: Quantities = {}
        self.used: Quantities = {}
        self.non_preemptible_used: Quantities = {}

    def add(self, amounts: Amounts, *, is_assigned: bool, is_non_preemptible: bool) -> None:
        """Add what a pod requests, of the resources that its quota limits."""
        if is_zero(amounts):
            return
        _add(self.request, amounts)
        if is_assigned:
            _add(self.used, amounts)
        if is_non_preemptible:
            _add(self.non_preemptible_request, amounts)
            if is_assigned:
                _add(self.non_preemptible_used, amounts)

    def negated(self) -> "OwnSums":
        """Return the sums with the opposite sign."""
        result = OwnSums()
        for name in self.__slots__:
            setattr(result, name, minus(_NOTHING, getattr(self, name)))
        return result


def _add(total: Quantities, amounts: Amounts) -> None:
    for name, amount in amounts.items():
        known = total.get(name)
        total[name] = amount if known is None else known + amount
