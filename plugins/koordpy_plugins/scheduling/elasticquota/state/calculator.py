"""Distributes the runtime of a quota to its children, resource by resource.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/core/runtime_quota_calculator.go`.
"""

from collections.abc import Iterable

from koordpy.api.resource_list import Quantities

from .amounts import Amounts, amount_of, integer, quantity
from .quota_info import QuotaInfo
from .water_filling import GUARANTEE, MIN, REQUEST, WEIGHT, Pool


class Calculator:
    """The children of a quota, and what there is to distribute.

    The resources are those of the owner's maximum (of the root: of all quotas). A child is in a resource's
    pool from its first change after the resource was added. `version` changes with everything that may change
    a runtime, and the owner is added to `touched`.
    """

    __slots__ = (
        "_given",
        "_guaranteed",
        "_owner",
        "_refreshed",
        "_requested",
        "_touched",
        "pools",
        "scaled",
        "total",
        "version",
    )

    def __init__(self, owner: str, touched: set[str]) -> None:
        self._owner, self._touched = owner, touched
        self.version = 0
        self._touch()
        self.pools: dict[str, Pool] = {}
        self.total: Quantities = {}
        self.scaled: set[str] = set()
        """The children whose minimum is scaled at present."""
        self._refreshed = 0
        self._requested: dict[str, Quantities] = {}
        self._guaranteed: dict[str, Quantities] = {}
        self._given: dict[str, list[int | None]] = {}
        """The runtime of each child as it was told last, in the order of `pools`."""

    def _touch(self) -> None:
        self.version += 1
        self._touched.add(self._owner)

    def set_keys(self, names: Iterable[str]) -> None:
        """Distribute exactly these resources from now on."""
        self.pools = {name: self.pools.get(name) or self._pool(name) for name in names}
        self._given.clear()
        self._touched.add(self._owner)

    def _pool(self, name: str) -> Pool:
        pool = Pool()
        pool.set_total(integer(name, amount_of(self.total, name)))
        return pool

    def set_total(self, total: Quantities) -> None:
        """Set what there is to distribute."""
        self.total = total
        for name, pool in self.pools.items():
            pool.set_total(integer(name, amount_of(total, name)))
        self._touch()

    # --- children --------------------------------------------------------------------------------

    def set_max(self, info: QuotaInfo) -> None:
        """Take a child's new maximum: its resources, and its limited request."""
        for name in info.max:
            if name not in self.pools:
                self.pools[name] = self._pool(name)
                self._given.clear()
        self.set_request(info)

    def set_request(self, info: QuotaInfo) -> None:
        """Take a child's limited request."""
        request = info.limited_request
        known = self._requested.setdefault(info.name, {})
        for name in self.pools:
            known[name] = amount_of(request, name)
        self._set(info, REQUEST, request)

    def differs_in_request(self, info: QuotaInfo) -> bool:
        """Return whether a child's limited request is another one than was taken last."""
        known, request = self._requested.get(info.name, {}), info.limited_request
        return any(amount_of(known, name) != amount_of(request, name) for name in self.pools)

    def set_min(self, info: QuotaInfo) -> None:
        """Take a child's scaled minimum."""
        self._set(info, MIN, info.auto_scale_min)

    def set_shared_weight(self, info: QuotaInfo) -> None:
        """Take a child's weight."""
        self._set(info, WEIGHT, info.shared_weight)

    def set_guaranteed(self, info: QuotaInfo) -> None:
        """Take what is guaranteed to a child."""
        known = self._guaranteed.setdefault(info.name, {})
        for name in self.pools:
            known[name] = amount_of(info.guaranteed, name)
        self._set(info, GUARANTEE, info.guaranteed)

    def differs_in_guaranteed(self, info: QuotaInfo) -> bool:
        """Return whether something else is guaranteed to a child than was taken last."""
        known = self._guaranteed.get(info.name, {})
        return any(amount_of(known, name) != amount_of(info.guaranteed, name) for name in self.pools)

    def _set(self, info: QuotaInfo, column: int, amounts: Amounts) -> None:
        for name, pool in self.pools.items():
            if info.name in pool.rows:
                pool.set(info.name, column, integer(name, amount_of(amounts, name)))
            else:
                pool.insert(
                    info.name,
                    (
                        integer(name, amount_of(info.shared_weight, name)),
                        integer(name, amount_of(info.limited_request, name)),
                        integer(name, amount_of(info.auto_scale_min, name)),
                        integer(name, amount_of(info.guaranteed, name)),
                        int(info.allow_lent_resource),
                    ),
                )
        self._touch()

    def put(self, info: QuotaInfo) -> None:
        """Take all amounts of a child, in all resources."""
        request, least, guaranteed = info.limited_request, info.auto_scale_min, info.guaranteed
        weight, lends = info.shared_weight, int(info.allow_lent_resource)
        self._requested[info.name] = {name: amount_of(request, name) for name in self.pools}
        if guaranteed:
            self._guaranteed[info.name] = {name: amount_of(guaranteed, name) for name in self.pools}
        else:
            self._guaranteed.pop(info.name, None)
        for name, pool in self.pools.items():
            pool.put(
                info.name,
                (
                    integer(name, amount_of(weight, name)),
                    integer(name, amount_of(request, name)),
                    integer(name, amount_of(least, name)),
                    integer(name, amount_of(guaranteed, name)),
                    lends,
                ),
            )
        self._touch()

    def remove(self, child: str) -> None:
        """Forget a child."""
        for pool in self.pools.values():
            pool.remove(child)
        self._requested.pop(child, None)
        self._guaranteed.pop(child, None)
        self._given.pop(child, None)
        self.scaled.discard(child)
        self._touch()

    # --- runtime ---------------------------------------------------------------------------------

    def refresh(self, info: QuotaInfo) -> None:
        """Bring a child's runtime up to date. Resources that are no longer distributed stay in it."""
        if info.runtime_version != self.version:
            for pool in self.pools.values():
                pool.distribute()
            self._give(info)

    def refresh_all(self, children: Iterable[QuotaInfo]) -> None:
        """Bring the runtime of all children up to date."""
        if self._refreshed == self.version:
            return
        self._refreshed = self.version
        for pool in self.pools.values():
            pool.distribute()
        for info in children:
            if info.runtime_version != self.version:
                self._give(info)

    def _give(self, info: QuotaInfo) -> None:
        """Tell a child its runtime; the list stays the same one if the amounts do."""
        child = info.name
        given = [
            None if (row := pool.rows.get(child)) is None else pool.runtime[row]
            for pool in self.pools.values()
        ]
        if not info.runtime_version or self._given.get(child) != given:
            self._given[child] = given
            runtime = dict(info.runtime)
            for name, number in zip(self.pools, given, strict=True):
                if number is not None:
                    runtime[name] = quantity(name, number)
            info.runtime = runtime
        info.runtime_version = self.version
