"""A quota tree that follows its objects exactly: what it says depends on its quotas and pods alone.

Koordinator's own methods of a tree (`manager.py`) leave traces of the order of events: a new minimum of a
quota that does not lend reaches the calculator of the parent with the next pod, for example. After the
changes made here the tree is as if it had been built from all of its quotas and pods; a change costs what it
touches: the quota, its ancestors, and pods that change their quota.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import DEFAULT, ROOT, SYSTEM
from koordpy.api.resource_list import Quantities

from .accounts import SPECIAL
from .amounts import Amounts, at_least, is_zero, masked, minus, not_negative, plus
from .calculator import Calculator
from .own_sums import OwnSums
from .pod_accounts import PodAccounts, has_node, is_non_preemptible
from .quota_info import PodInfo, QuotaInfo

IsReserved = Callable[[Pod], bool]
"""Returns whether a pod counts as one that has a node though its object shows none."""

_NOTHING: Final[Quantities] = {}
_NO_PODS: Final = OwnSums()


@dataclass(frozen=True, slots=True)
class _Share:
    """What the ancestors of a quota count for it."""

    request: Quantities
    non_preemptible_request: Quantities
    used: Quantities
    non_preemptible_used: Quantities
    guaranteed: Quantities

    @classmethod
    def of(cls, info: QuotaInfo) -> "_Share":
        return cls(
            info.limited_request,
            info.non_preemptible_request,
            info.used,
            info.non_preemptible_used,
            info.guaranteed,
        )

    def minus(self, other: "_Share") -> "_Share":
        return _Share(
            minus(self.request, other.request),
            minus(self.non_preemptible_request, other.non_preemptible_request),
            minus(self.used, other.used),
            minus(self.non_preemptible_used, other.non_preemptible_used),
            minus(self.guaranteed, other.guaranteed),
        )


_NO_SHARE: Final = _Share({}, {}, {}, {}, {})


class QuotaTree(PodAccounts):
    """A tree with its pods, and the changes of it that do not depend on their order."""

    @property
    def is_empty(self) -> bool:
        """Whether the tree has no quota other than its root."""
        return self.quotas.keys() <= {ROOT}

    # --- one quota -------------------------------------------------------------------------------

    def can_insert(self, new: QuotaInfo) -> bool:
        """Return whether `insert` can add a quota: it is new, no quota waits for it, its ancestors exist."""
        return not self.knows(new.name) and self.is_below_root(new.parent_name)

    def can_change(self, new: QuotaInfo) -> bool:
        """Return whether `change` can apply a version: the quota and its old and new ancestors exist."""
        if not self.is_below_root(new.name):
            return False
        names = [info.name for info in self.chain(new.parent_name)]
        return names[-1:] == [ROOT] and new.name not in names

    def can_remove(self, name: str) -> bool:
        """Return whether `remove` can take a quota away: it has no children, and its ancestors exist."""
        return self.is_below_root(name) and not self._children.get(name)

    def insert(self, new: QuotaInfo, quota: ElasticQuota) -> None:
        """Add a quota that has no pods and no children."""
        state = self._begin(None, new, quota)
        self._count_keys(new.max, 1)
        self.quotas[new.name] = new
        self._children[new.name] = {}
        calculator = self.calculators[new.name] = Calculator(new.name, self.touched)
        calculator.set_keys(new.max)
        self._follow_keys()
        self._settle(new)
        self._enter(new)
        self._pass_on(new, _Share.of(new))
        self._end(None, new, quota, state)

    def change(self, new: QuotaInfo, quota: ElasticQuota) -> None:
        """Apply a version of a quota: other amounts, other labels, another parent."""
        info = self.quotas[new.name]
        is_same = not info.is_changed(new) and info.has_min == new.has_min
        if is_same and not self.is_updated_for_hooks(info, new, quota):
            return
        moves = info.parent_name != new.parent_name
        state = self._begin(info, None if moves else new, quota)
        before = _Share.of(info)
        if moves:
            self._pass_on(info, _NO_SHARE.minus(before))
            before = _NO_SHARE
            self._leave(info)
            self._end(info, None, quota, state)
            state = self._begin(None, new, quota)
        self._take(info, new)
        self._settle(info)
        self._enter(info)
        self._pass_on(info, _Share.of(info).minus(before))
        self._end(None if moves else info, info if moves else new, quota, state)

    def remove(self, name: str, quota: ElasticQuota) -> None:
        """Take away a quota that has no pods and no children."""
        info = self.quotas[name]
        state = self._begin(info, None, quota)
        self._pass_on(info, _NO_SHARE.minus(_Share.of(info)))
        self._leave(info)
        del self.quotas[name], self.calculators[name], self._children[name]
        self.scaling.forget_parent(name)
        self.forget_keys(info)
        self._follow_keys()
        self._end(info, None, quota, state)

    def change_special(self, name: str, new: QuotaInfo | None) -> None:
        """Apply a version of the root, system or default quota; None is what it is without an object."""
        info = self.quotas[name]
        before = _Share.of(info)
        self._take(info, new or self.built_in(name))
        if name == ROOT:
            return
        self._settle(info)
        info.auto_scale_min = {}
        self.calculators[ROOT].remove(name)
        self._tell_of_special(info)
        self._pass_on(info, _Share.of(info).minus(before))
        self.add_total(_NOTHING)

    def _take(self, info: QuotaInfo, new: QuotaInfo) -> None:
        """Take what a version says, and count the pods again if other resources are limited by it."""
        has_other_keys = info.max.keys() != new.max.keys()
        self._set_max(info, new.max)
        info.take_over(new)
        info.shared_weight = new.shared_weight
        if not has_other_keys:
            return
        self._count_own_again(info)
        calculator = self.calculators.get(info.name)
        if calculator is not None and info.name not in SPECIAL:
            calculator.set_keys(info.max)
            self._fill(calculator, info.name)
        self._follow_keys()

    def _count_own_again(self, info: QuotaInfo) -> None:
        own = self._sums(info, info.pods.values())
        if info.name == ROOT:
            info.request = _exchanged(info.request, info.self_request, own.request)
        else:
            info.child_request = _exchanged(info.child_request, info.self_request, own.request)
        info.non_preemptible_request = _exchanged(
            info.non_preemptible_request, info.self_non_preemptible_request, own.non_preemptible_request
        )
        info.used = _exchanged(info.used, info.self_used, own.used)
        info.non_preemptible_used = _exchanged(
            info.non_preemptible_used, info.self_non_preemptible_used, own.non_preemptible_used
        )
        if self.settings.guarantees_usage:
            # The maximums of the root, default and system quotas do not decide what is distributed.
            before, after = info.self_used, own.used
            if info.name in SPECIAL:
                before, after = masked(before, self.resource_keys), masked(after, self.resource_keys)
            info.allocated = _exchanged(info.allocated, before, after)
        info.self_request, info.self_non_preemptible_request = own.request, own.non_preemptible_request
        info.self_used, info.self_non_preemptible_used = own.used, own.non_preemptible_used

    def _settle(self, info: QuotaInfo) -> None:
        """Compute what follows from the quota's own sums and amounts."""
        info.request = info.with_min(info.child_request)
        info.auto_scale_min = info.min
        if self.settings.guarantees_usage:
            info.guaranteed = at_least(info.allocated, info.min)

    def _enter(self, info: QuotaInfo) -> None:
        """Let the parent distribute to a quota, by its present amounts."""
        self._children[info.parent_name][info.name] = None
        self.record_min(info)
        calculator = self.calculators[info.parent_name]
        calculator.scaled.discard(info.name)
        calculator.put(info)
        _drop_others(info, calculator)

    def _leave(self, info: QuotaInfo) -> None:
        self.calculators[info.parent_name].remove(info.name)
        self.scaling.remove(info.parent_name, info.name)
        self._children[info.parent_name].pop(info.name, None)

    def _pass_on(self, info: QuotaInfo, delta: _Share) -> None:
        """Add to what all ancestors count."""
        ancestors = self.chain(info.name)[1:]
        if not is_zero(delta.request) or not is_zero(delta.non_preemptible_request):
            self.propagate_request(ancestors, delta.request, delta.non_preemptible_request)
        if not is_zero(delta.used) or not is_zero(delta.non_preemptible_used):
            for ancestor in ancestors:
                ancestor.used = not_negative(plus(ancestor.used, delta.used))
                ancestor.non_preemptible_used = not_negative(
                    plus(ancestor.non_preemptible_used, delta.non_preemptible_used)
                )
        if self.settings.guarantees_usage and not is_zero(delta.guaranteed):
            self._propagate_allocated(ancestors, delta.guaranteed)

    def forget_zeros(self) -> None:
        """Drop resources from what is distributed that there is nothing of any more.

        Minimums are scaled in the resources that there are, even if the default and system quotas use all of
        one: 0 is not the same as nothing, and what there was before must not matter.
        """
        left = dict(self.total)
        for name in (DEFAULT, SYSTEM):
            if (info := self.quotas.get(name)) is not None:
                left = minus(left, info.used)
        kept = {name for name, each in self.total.items() if not each.is_zero}
        left = {name: each for name, each in left.items() if name in kept or not each.is_zero}
        if left != self.distributable:
            self.distributable = left
            self.calculators[ROOT].set_total(left)

    # --- resources -------------------------------------------------------------------------------

    def _follow_keys(self) -> None:
        """Let the root distribute the resources of all quotas, which may have changed."""
        if self._key_counts.keys() == self.resource_keys:
            return
        before, self.resource_keys = self.resource_keys, frozenset(self._key_counts)
        root, info = self.calculators[ROOT], self.quotas[ROOT]
        root.set_keys(self.resource_keys)
        self._fill(root, ROOT)
        if self.settings.guarantees_usage:
            own = info.self_used
            info.allocated = _exchanged(info.allocated, masked(own, before), masked(own, self.resource_keys))
        for name in (DEFAULT, SYSTEM):
            special = self.quotas.get(name)
            if special is None:
                continue
            if self.settings.guarantees_usage:
                guaranteed, special.allocated = special.guaranteed, masked(special.used, self.resource_keys)
                special.guaranteed = at_least(special.allocated, special.min)
                self._propagate_allocated(self.chain(name)[1:], minus(special.guaranteed, guaranteed))
            self._tell_of_special(special)

    def _fill(self, calculator: Calculator, owner: str) -> None:
        """Let a calculator whose resources changed distribute them to all children of its owner."""
        for child in self._children.get(owner, ()):
            info = self.quotas[child]
            calculator.put(info)
            _drop_others(info, calculator)

    def _tell_of_special(self, info: QuotaInfo) -> None:
        """Let the root count the system or default quota among its children once it requests something."""
        root = self.calculators[ROOT]
        if root.differs_in_request(info):
            root.set_request(info)
        if self.settings.guarantees_usage and root.differs_in_guaranteed(info):
            root.set_guaranteed(info)

    # --- pods ------------------------------------------------------------------------------------

    def add_pods(self, name: str, pods: Iterable[Pod], is_reserved: IsReserved) -> None:
        """Count pods in a quota that may be many; the ancestors hear of their sum."""
        info = self.quotas.get(name)
        if info is None:
            return
        added = [record for pod in pods if (record := self._record(info, pod, is_reserved)) is not None]
        self._add_own(info, self._sums(info, added))
        for record in added:
            if record.is_assigned:
                self.tell_hooks(name, None, record.pod)

    def remove_pods(self, name: str, pods: Iterable[Pod]) -> None:
        """Stop counting pods of a quota."""
        info = self.quotas[name]
        removed = [info.pods.pop(pod.metadata.key) for pod in pods if info.has(pod)]
        self._add_own(info, self._sums(info, removed).negated())
        for record in removed:
            if record.is_assigned:
                self.tell_hooks(name, record.pod, None)

    def _add_own(self, info: QuotaInfo, sums: OwnSums) -> None:
        if not is_zero(sums.request) or not is_zero(sums.non_preemptible_request):
            self.add_request(info.name, sums.request, sums.non_preemptible_request, is_own=True)
        if not is_zero(sums.used) or not is_zero(sums.non_preemptible_used):
            self.add_used(info.name, sums.used, sums.non_preemptible_used, is_own=True)

    def _record(self, info: QuotaInfo, pod: Pod, is_reserved: IsReserved) -> PodInfo | None:
        """Record a pod in a quota; None if it counts there already or does not count."""
        key = pod.metadata.key
        if key in info.pods or self._is_ignored(pod):
            return None
        record = PodInfo(pod, pod, self.requests(pod), has_node(pod) or is_reserved(pod))
        info.pods[key] = record
        return record

    def _sums(self, info: QuotaInfo, records: Iterable[PodInfo]) -> OwnSums:
        sums = OwnSums()
        for record in records:
            pod = record.pod
            amounts = record.resource if pod is record.added else self.requests(pod)
            sums.add(
                masked(amounts, info.max),
                is_assigned=record.is_assigned,
                is_non_preemptible=is_non_preemptible(pod),
            )
        return sums

    # --- the whole tree --------------------------------------------------------------------------

    def take(self, name: str, pod: Pod, is_reserved: IsReserved) -> None:
        """Record a pod of a quota for `build`, which counts it."""
        info = self.quotas.get(name)
        if info is not None:
            self._record(info, pod, is_reserved)

    def build(self) -> None:
        """Compute everything from the quotas that were `put` and the pods that were taken, each once."""
        self._relink()
        self.resource_keys = frozenset(self._key_counts)
        self.calculators = {ROOT: Calculator(ROOT, self.touched)}
        self.calculators[ROOT].set_total(self.distributable)
        below = self._parents_first()
        own = {name: self._sums(info, info.pods.values()) for name, info in self.quotas.items() if info.pods}
        for name in reversed(below):
            self._sum_up(self.quotas[name], own.get(name, _NO_PODS))
        self._make_calculators(below)
        rest = [*sorted(self.quotas.keys() - self.calculators.keys()), ROOT]
        for name in rest:
            sums = own.get(name, _NO_PODS)
            self.add_request(name, sums.request, sums.non_preemptible_request, is_own=True)
            self.add_used(name, sums.used, sums.non_preemptible_used, is_own=True)

    def _parents_first(self) -> list[str]:
        """Return the quotas below the root, each after its parent."""
        found = [ROOT]
        for name in found:
            found += self._children.get(name, ())
        return found[1:]

    def _sum_up(self, info: QuotaInfo, own: OwnSums) -> None:
        """Add a quota's own sums to those of its children, which are known by now, and pass them on."""
        info.self_request, info.self_non_preemptible_request = own.request, own.non_preemptible_request
        info.self_used, info.self_non_preemptible_used = own.used, own.non_preemptible_used
        info.child_request = _sum(info.child_request, own.request)
        info.non_preemptible_request = _sum(info.non_preemptible_request, own.non_preemptible_request)
        info.used = _sum(info.used, own.used)
        info.non_preemptible_used = _sum(info.non_preemptible_used, own.non_preemptible_used)
        parent = self.quotas[info.parent_name]
        if self.settings.guarantees_usage:
            info.allocated = _sum(info.allocated, masked(own.used, self.resource_keys))
            self._settle(info)
            parent.allocated = _sum(parent.allocated, info.guaranteed)
        else:
            self._settle(info)
        if parent.name == ROOT:
            parent.request = _sum(parent.request, info.limited_request)
        else:
            parent.child_request = _sum(parent.child_request, info.limited_request)
        parent.non_preemptible_request = _sum(parent.non_preemptible_request, info.non_preemptible_request)
        parent.used = _sum(parent.used, info.used)
        parent.non_preemptible_used = _sum(parent.non_preemptible_used, info.non_preemptible_used)

    def _make_calculators(self, below: Iterable[str]) -> None:
        for name in below:
            self.calculators[name] = Calculator(name, self.touched)
            self.record_min(self.quotas[name])
        for name, calculator in self.calculators.items():
            calculator.set_keys(self.resource_keys if name == ROOT else self.quotas[name].max)
            for child in self._children.get(name, ()):
                calculator.put(self.quotas[child])


def _drop_others(info: QuotaInfo, calculator: Calculator) -> None:
    """Forget the runtime of resources that are no longer distributed, and let the rest be refreshed."""
    info.runtime, info.runtime_version = masked(info.runtime, calculator.pools), 0


def _sum(left: Quantities, right: Quantities) -> Quantities:
    """Return the sum of two lists; a list itself if the other one is empty."""
    return plus(left, right) if left and right else left or right


def _exchanged(total: Amounts, old: Amounts, new: Amounts) -> Quantities:
    """Return a sum in which one part is replaced; names that only the old part has are dropped at 0."""
    changed = plus(minus(total, old), new)
    return {name: amount for name, amount in changed.items() if name in new or not amount.is_zero}
