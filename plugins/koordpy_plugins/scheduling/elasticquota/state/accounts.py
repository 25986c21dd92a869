"""The accounts of one quota tree: how a change of one quota's request or usage reaches its ancestors.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/core/group_quota_manager.go`.
"""

from collections.abc import Callable, Iterable

from koordpy.api.quota.info import DEFAULT, ROOT, SYSTEM
from koordpy.api.resource_list import Quantities

from .amounts import Amounts, at_least, equal, is_zero, masked, minus, not_negative, plus
from .calculator import Calculator
from .latency import measured
from .min_scaling import MinScaling, Scale
from .quota_info import QuotaInfo
from .settings import QuotaSettings

SPECIAL = frozenset((ROOT, SYSTEM, DEFAULT))

_NOTHING: Quantities = {}


class Accounts:
    """The quotas of a tree with their calculators, and what the tree has in total.

    The tree `""` has the default and the system quota: what these use is not distributed.
    """

    def __init__(self, tree: str, settings: QuotaSettings) -> None:
        self.tree, self.settings = tree, settings
        self.total: Quantities = {}
        self.distributable: Quantities = {}
        """The total without what the system and default quotas use."""
        self.quotas: dict[str, QuotaInfo] = {}
        self.touched: set[str] = set()
        """The quotas with children whose runtime may be another one since all were refreshed."""
        self.calculators: dict[str, Calculator] = {ROOT: Calculator(ROOT, self.touched)}
        self.scaling = MinScaling()
        self.scaled_anew = 0
        """How often a scaled minimum became another one: siblings may have more or less then."""
        self.resource_keys: frozenset[str] = frozenset()
        """The resources of all quotas' maximums."""
        self._key_counts: dict[str, int] = {}

    def get(self, name: str) -> QuotaInfo | None:
        """Return a quota by name."""
        return self.quotas.get(name)

    def chain(self, name: str) -> list[QuotaInfo]:
        """Return a quota and its ancestors, up to the root or the last one that exists."""
        found: list[QuotaInfo] = []
        seen: set[str] = set()
        info = self.quotas.get(name)
        while info is not None and info.name not in seen:
            found.append(info)
            if info.name == ROOT:
                break
            seen.add(info.name)
            info = self.quotas.get(info.parent_name)
        return found

    def is_below_root(self, name: str) -> bool:
        """Return whether a quota exists, and all of its ancestors."""
        chain = self.chain(name)
        return bool(chain) and chain[-1].name == ROOT

    # --- the total -------------------------------------------------------------------------------

    def add_total(self, delta: Amounts) -> None:
        """Change the tree's total, and what there is to distribute."""
        self.total = plus(self.total, delta)
        used: Quantities = {}
        for name in (DEFAULT, SYSTEM):
            info = self.quotas.get(name)
            if info is not None:
                used = plus(used, info.used)
        distributable = minus(self.total, used)
        if not is_zero(minus(distributable, self.distributable)):
            self.distributable = distributable
            self.calculators[ROOT].set_total(distributable)

    def set_total(self, total: Amounts) -> Quantities:
        """Set the tree's total; return what was added to it."""
        delta = minus(total, self.total)
        if not is_zero(delta):
            self.add_total(delta)
        return delta

    # --- requests and usage ----------------------------------------------------------------------

    @measured("UpdateGroupDeltaRequestNoLock")
    def add_request(self, name: str, delta: Amounts, non_preemptible: Amounts, *, is_own: bool) -> None:
        """Add to a quota's request, and to its ancestors' as far as maximums let it through.

        `is_own` means that the request is of the quota's own pods.
        """
        self.propagate_request(self.chain(name), delta, non_preemptible, is_own=is_own)

    def propagate_request(
        self, chain: Iterable[QuotaInfo], delta: Amounts, non_preemptible: Amounts, *, is_own: bool = False
    ) -> None:
        """Add to the requests of a chain of quotas, from the bottom up."""
        for info in chain:
            before = info.limited_request
            info.request = not_negative(plus(info.request, delta))
            info.non_preemptible_request = not_negative(plus(info.non_preemptible_request, non_preemptible))
            if is_own:
                info.self_request = not_negative(plus(info.self_request, delta))
                info.self_non_preemptible_request = not_negative(
                    plus(info.self_non_preemptible_request, non_preemptible)
                )
                is_own = False
            if info.name == ROOT:
                return
            info.child_request = not_negative(plus(info.child_request, delta))
            info.request = info.with_min(info.child_request)
            delta = minus(info.limited_request, before)
            calculator = self.calculators.get(info.parent_name)
            if calculator is None:
                return
            if calculator.differs_in_request(info):
                calculator.set_request(info)

    @measured("UpdateGroupDeltaUsedNoLock")
    def add_used(self, name: str, delta: Amounts, non_preemptible: Amounts, *, is_own: bool) -> None:
        """Add to what a quota and its ancestors use. `is_own` as in `add_request`."""
        chain = self.chain(name)
        own = is_own
        for info in chain:
            info.used = not_negative(plus(info.used, delta))
            if own:
                info.self_used = not_negative(plus(info.self_used, delta))
            if non_preemptible:  # that of most pods is nothing
                info.non_preemptible_used = not_negative(plus(info.non_preemptible_used, non_preemptible))
                if own:
                    info.self_non_preemptible_used = not_negative(
                        plus(info.self_non_preemptible_used, non_preemptible)
                    )
            own = False
        if self.settings.guarantees_usage and chain:
            self._propagate_allocated(chain, masked(delta, self.resource_keys))
        if chain and name in (SYSTEM, DEFAULT):
            self.add_total(_NOTHING)

    def _propagate_allocated(self, chain: Iterable[QuotaInfo], delta: Amounts) -> None:
        """Add to what is allocated in a chain of quotas, and guarantee it."""
        for info in chain:
            before = info.guaranteed
            info.allocated = not_negative(plus(info.allocated, delta))
            if info.name == ROOT:
                return
            info.guaranteed = at_least(info.allocated, info.min)
            calculator = self.calculators.get(info.parent_name)
            if calculator is None:
                return
            if calculator.differs_in_guaranteed(info):
                calculator.set_guaranteed(info)
            delta = minus(info.guaranteed, before)

    # --- changes of one quota --------------------------------------------------------------------

    def change_max(self, info: QuotaInfo, most: Quantities) -> None:
        """Change a quota's maximum, and with it what its ancestors request."""
        before = info.limited_request
        self._set_max(info, most)
        self._changed(info, before, lambda calculator: calculator.set_max(info))

    def change_min(self, info: QuotaInfo, least: Quantities, *, has_min: bool) -> None:
        """Change a quota's minimum; one that does not lend requests it."""
        info.min, info.has_min, info.auto_scale_min = least, has_min, least
        self.record_min(info)
        before = info.limited_request
        info.request = info.with_min(info.child_request)
        exists = self._changed(info, before, lambda calculator: calculator.set_min(info))
        if exists and self.settings.guarantees_usage:
            self._guarantee_min(info)

    def record_min(self, info: QuotaInfo) -> None:
        """Let the minimum of a quota count when minimums are scaled."""
        self.scaling.set(info.parent_name, info.name, info.min if info.has_min else None)

    def _changed(self, info: QuotaInfo, before: Quantities, tell: Callable[[Calculator], None]) -> bool:
        """Pass a change of a quota's limited request on; return False if its parent has no calculator."""
        chain = self.chain(info.name)
        if len(chain) > 1:
            calculator = self.calculators.get(info.parent_name)
            if calculator is None:
                return False
            tell(calculator)
            self.propagate_request(chain[1:], minus(info.limited_request, before), _NOTHING)
        return True

    def _guarantee_min(self, info: QuotaInfo) -> None:
        before = info.guaranteed
        info.guaranteed = at_least(info.allocated, info.min)
        chain = self.chain(info.name)
        calculator = self.calculators.get(info.parent_name)
        if len(chain) < 2 or calculator is None:
            return
        if calculator.differs_in_guaranteed(info):
            calculator.set_guaranteed(info)
        self._propagate_allocated(chain[1:], minus(info.guaranteed, before))

    def change_shared_weight(self, info: QuotaInfo, weight: Quantities) -> None:
        """Change a quota's weight."""
        info.shared_weight = weight
        calculator = self.calculators.get(info.parent_name)
        if calculator is not None:
            calculator.set_shared_weight(info)

    # --- resources -------------------------------------------------------------------------------

    def _set_max(self, info: QuotaInfo, most: Quantities) -> None:
        if info.name not in SPECIAL:
            self._count_keys(info.max, -1)
            self._count_keys(most, 1)
        info.max = most

    def forget_keys(self, info: QuotaInfo) -> None:
        """Stop counting the resources of a quota that is removed."""
        if info.name not in SPECIAL:
            self._count_keys(info.max, -1)

    def _count_keys(self, names: Iterable[str], sign: int) -> None:
        for name in names:
            count = self._key_counts.get(name, 0) + sign
            if count:
                self._key_counts[name] = count
            else:
                del self._key_counts[name]

    def update_keys(self, names: Iterable[str]) -> None:
        """Let calculators distribute the resources of their owners' maximums, the root's those of all.

        `names` are the quotas whose calculators may have others.
        """
        for name in names:
            info, calculator = self.quotas.get(name), self.calculators.get(name)
            if info is None or calculator is None or name in SPECIAL:
                continue
            if info.max.keys() != calculator.pools.keys():
                calculator.set_keys(info.max)
        if self._key_counts.keys() != self.resource_keys:
            self.resource_keys = frozenset(self._key_counts)
            self.calculators[ROOT].set_keys(self.resource_keys)

    # --- runtime ---------------------------------------------------------------------------------

    @measured("RefreshRuntime")
    def refresh_runtime(self, name: str) -> Quantities | None:
        """Bring the runtime of a quota and its ancestors up to date; return it, None if it has none.

        Minimums are scaled along this path alone, so siblings see the result at their own refresh.
        """
        info = self.quotas.get(name)
        if info is None:
            return None
        if name == ROOT:
            return self.distributable
        if name in SPECIAL:
            return info.max
        total = self.distributable
        chain = self.chain(name)
        for step in reversed(chain):
            if step.name == ROOT:
                continue
            calculator, own = self.calculators.get(step.parent_name), self.calculators.get(step.name)
            if calculator is None or own is None:
                return None
            if self.settings.scales_min:
                self._scale_min(step, calculator, self.scaling.scale(step.parent_name, total))
            calculator.refresh(step)
            total = step.runtime
            if own.total is total or equal(own.total, total):
                continue
            if step is not info:
                own.set_total(total)
            elif own.pools:
                self.touched.add(name)
        return masked(info.runtime, info.max)

    def _scale_min(self, info: QuotaInfo, calculator: Calculator, scale: Scale) -> None:
        scaled = self.scaling.scaled(info.parent_name, info.name, scale)
        if scaled is not None and not equal(info.auto_scale_min, scaled):
            info.auto_scale_min = scaled
            self.scaled_anew += 1
            calculator.set_min(info)
            calculator.scaled.discard(info.name)
            if not equal(scaled, info.min):
                calculator.scaled.add(info.name)

    def refresh_children(self, name: str, children: list[QuotaInfo], total: Quantities) -> None:
        """Bring the runtime of all children of a quota up to date, given what the quota has itself.

        This is what repeated refreshes of every child come to.
        """
        calculator = self.calculators.get(name)
        if calculator is None:
            return
        if name != ROOT and calculator.total is not total:
            if equal(calculator.total, total):
                calculator.total = total
            else:
                calculator.set_total(total)
        if self.settings.scales_min:
            scale = self.scaling.scale(name, total)
            if scale or calculator.scaled:
                for info in children:
                    self._scale_min(info, calculator, scale)
        calculator.refresh_all(children)
