"""One quota tree: its quotas as they are created, changed, moved and deleted, and rebuilt from all of them.

What depends on the order of events here does so in Koordinator too. Source: Koordinator,
`pkg/scheduler/plugins/elasticquota/core/group_quota_manager.go`.
"""

from collections.abc import Mapping

from koordpy.api.core import Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import DEFAULT, ROOT, SYSTEM
from koordpy.api.resource_list import Quantities, from_wire
from koordpy.scheduling.interface.quota_hooks import QuotaUpdateState

from .accounts import SPECIAL, Accounts
from .amounts import equal, is_zero, minus, plus
from .calculator import Calculator
from .hooks import NamedHook, create
from .latency import measured
from .quota_info import QuotaInfo
from .settings import QuotaSettings


class UnknownQuota(LookupError):
    """A quota that the tree does not have; the message is Koordinator's."""


class QuotaManager(Accounts):
    """The quotas of a tree. Raises HookError if its hook plugins cannot be created and it must have them."""

    def __init__(self, tree: str, settings: QuotaSettings) -> None:
        super().__init__(tree, settings)
        self.hooks: tuple[NamedHook, ...] = ()
        self._children: dict[str, dict[str, None]] = {ROOT: {}}
        for name in (ROOT,) if tree else (SYSTEM, DEFAULT, ROOT):
            self.quotas[name] = self.built_in(name)

    def built_in(self, name: str) -> QuotaInfo:
        """Return the root, system or default quota as it is without an object."""
        if name == ROOT:
            return QuotaInfo(ROOT, "", is_parent=True, allow_lent_resource=False, tree=self.tree)
        most = self.settings.system_max if name == SYSTEM else self.settings.default_max
        info = QuotaInfo(name, ROOT, is_parent=False, allow_lent_resource=True)
        info.max = from_wire(dict(most))
        return info

    def create_hooks(self) -> None:
        """Create the tree's hook plugins. Raises HookError."""
        self.hooks = create(self.tree, self, self.settings.hook_plugins)

    def children_of(self, name: str) -> list[QuotaInfo]:
        """Return the children of a quota, by name."""
        return [self.quotas[child] for child in sorted(self._children.get(name, ())) if child in self.quotas]

    def knows(self, name: str) -> bool:
        """Return whether there is a quota of a name, or one that names it as its parent."""
        return name in self.quotas or name in self._children

    def read(self, quota: ElasticQuota) -> QuotaInfo:
        """Read an ElasticQuota as this tree's gates say. Raises QuantityError."""
        info = QuotaInfo.of(quota, never_lends=self.settings.guarantees_usage)
        info.tree = self.tree
        return info

    # --- events ----------------------------------------------------------------------------------

    @measured("UpdateQuota")
    def update(self, quota: ElasticQuota) -> None:
        """Create or change a quota. Raises QuantityError."""
        new, info = self.read(quota), self.quotas.get(quota.metadata.name)
        if info is None:
            state = self._begin(None, new, quota)
            self._apply(new, self._create(new))
            self._end(None, new, quota, state)
        elif not info.is_changed(new) and not self.is_updated_for_hooks(info, new, quota):
            return
        elif not info.is_meta_changed(new):
            state = self._begin(info, new, quota)
            self._link(new, info.parent_name)
            self._apply(new, info)
            self._end(info, new, quota, state)
        elif info.parent_name != new.parent_name:
            self._move(info, new, quota)
        else:
            self._set_max(info, new.max)
            info.take_over(new)
            self.reset()

    @measured("DeleteQuota")
    def delete(self, quota: ElasticQuota) -> None:
        """Delete a quota; its pods no longer count anywhere. Raises UnknownQuota."""
        info = self.quotas.get(quota.metadata.name)
        state = self._begin(info, None, quota)
        if info is None:
            raise UnknownQuota(f"get quota info failed, quotaName:{quota.metadata.name}")
        self._remove(info)
        self._end(info, None, quota, state)

    def _create(self, new: QuotaInfo) -> QuotaInfo:
        self._link(new, None)
        self.calculators[new.name] = Calculator(new.name, self.touched)
        self._ensure_calculator(new.parent_name)
        info = self.quotas[new.name] = QuotaInfo(
            new.name, new.parent_name, new.is_parent, new.allow_lent_resource, tree=self.tree
        )
        return info

    def _ensure_calculator(self, name: str) -> None:
        if name not in self.calculators:
            self.calculators[name] = Calculator(name, self.touched)

    def _link(self, new: QuotaInfo, old_parent: str | None) -> None:
        if old_parent is not None:
            self._children.get(old_parent, {}).pop(new.name, None)
        self._children.setdefault(new.name, {})
        self._children.setdefault(new.parent_name, {})[new.name] = None

    def _apply(self, new: QuotaInfo, info: QuotaInfo) -> None:
        """Apply the amounts that differ."""
        if not equal(new.max, info.max):
            self.change_max(info, new.max)
        self.update_keys((info.name, info.parent_name))
        if not equal(new.min, info.min):
            self.change_min(info, new.min, has_min=new.has_min)
        if not equal(new.shared_weight, info.shared_weight):
            self.change_shared_weight(info, new.shared_weight)

    def _remove(self, info: QuotaInfo) -> None:
        del self.quotas[info.name]
        calculator = self.calculators.get(info.parent_name)
        if calculator is not None:
            calculator.remove(info.name)
        if info.name != ROOT:
            self.calculators.pop(info.name, None)
        self.scaling.remove(info.parent_name, info.name)
        self._children.get(info.parent_name, {}).pop(info.name, None)
        if not self._children.get(info.name):
            self._children.pop(info.name, None)
            self.scaling.forget_parent(info.name)
        self._drop_ghost(info.parent_name)
        self.forget_keys(info)
        self.update_keys(())
        request, kept = minus({}, info.request), minus({}, info.non_preemptible_request)
        if not is_zero(request) or not is_zero(kept):
            self.add_request(info.parent_name, request, kept, is_own=False)
        used, kept = minus({}, info.used), minus({}, info.non_preemptible_used)
        if not is_zero(used) or not is_zero(kept):
            self.add_used(info.parent_name, used, kept, is_own=False)

    def _drop_ghost(self, name: str) -> None:
        """Forget a parent that does not exist once it has no children."""
        if name not in self.quotas and not self._children.get(name):
            self._children.pop(name, None)
            self.calculators.pop(name, None)
            self.scaling.forget_parent(name)

    def _move(self, old: QuotaInfo, new: QuotaInfo, quota: ElasticQuota) -> None:
        """Give a quota another parent, with all that it requests and uses."""
        calculator, children = self.calculators.get(old.name), self._children.get(old.name, {})
        sums = self.scaling.sum_of(old.name)
        state = self._begin(old, None, quota)
        self._remove(old)
        self._end(old, None, quota, state)
        info = self.quotas[old.name] = QuotaInfo(
            new.name, new.parent_name, new.is_parent, new.allow_lent_resource, tree=self.tree, pods=old.pods
        )
        info.tentative, info.non_preemptible_tentative = old.tentative, old.non_preemptible_tentative
        state = self._begin(None, info, quota)
        self.calculators[info.name] = calculator or Calculator(info.name, self.touched)
        self._ensure_calculator(info.parent_name)
        self._children[info.name] = children
        self.scaling.restore_sum(info.name, sums)
        self._link(info, None)
        self.change_max(info, new.max)
        self.update_keys((info.name, info.parent_name))
        self.change_min(info, new.min, has_min=new.has_min)
        self.change_shared_weight(info, new.shared_weight)
        self._carry_over(old)
        self._end(None, info, quota, state)

    def _carry_over(self, old: QuotaInfo) -> None:
        """Add what a quota requested and used before it moved: its own pods', and its children's."""
        if not is_zero(old.self_request) or not is_zero(old.self_non_preemptible_request):
            self.add_request(old.name, old.self_request, old.self_non_preemptible_request, is_own=True)
        if old.is_parent:
            request = minus(old.child_request, old.self_request)
            kept = minus(old.non_preemptible_request, old.self_non_preemptible_request)
            if not is_zero(request) or not is_zero(kept):
                self.add_request(old.name, request, kept, is_own=False)
        if not is_zero(old.self_used) or not is_zero(old.self_non_preemptible_used):
            self.add_used(old.name, old.self_used, old.self_non_preemptible_used, is_own=True)
        if old.is_parent:
            used = minus(old.used, old.self_used)
            kept = minus(old.non_preemptible_used, old.self_non_preemptible_used)
            if not is_zero(used) or not is_zero(kept):
                self.add_used(old.name, used, kept, is_own=False)

    # --- rebuild ---------------------------------------------------------------------------------

    def put(self, quota: ElasticQuota) -> None:
        """Record a quota before a reset, which then links it. Raises QuantityError."""
        info = self.read(quota)
        known = self.quotas.get(info.name)
        if known is not None:
            self.forget_keys(known)
        most, info.max = info.max, {}
        self._set_max(info, most)
        self.quotas[info.name] = info

    @measured("resetQuotaNoLock")
    def reset(self) -> None:
        """Compute everything anew from the quotas and what their own pods request and use."""
        self._relink()
        self._reset_root()
        before = {name: self._own(info) for name, info in self.quotas.items() if name not in SPECIAL}
        for name in before:
            self.quotas[name].clear()
        self.calculators = {ROOT: Calculator(ROOT, self.touched)}
        self.calculators[ROOT].set_total(self.distributable)
        self._reset_below(ROOT)
        self.update_keys(self.quotas)
        for name in sorted(before):
            request, kept_request, used, kept_used = before[name]
            self.add_request(name, request, kept_request, is_own=True)
            self.add_used(name, used, kept_used, is_own=True)

    def _relink(self) -> None:
        self._children = {ROOT: {}}
        for name, info in self.quotas.items():
            if name in (SYSTEM, DEFAULT):
                continue
            self._children.setdefault(name, {})
            if name != ROOT:
                self._children.setdefault(info.parent_name, {})[name] = None

    def _reset_root(self) -> None:
        root = self.quotas[ROOT]
        root.used, root.request, root.non_preemptible_used, root.non_preemptible_request = {}, {}, {}, {}
        for name in (SYSTEM, DEFAULT):
            info = self.quotas.get(name)
            if info is not None:
                root.used = plus(root.used, info.used)
                root.request = plus(root.request, info.request)
                root.non_preemptible_used = plus(root.non_preemptible_used, info.non_preemptible_used)
                root.non_preemptible_request = plus(
                    root.non_preemptible_request, info.non_preemptible_request
                )

    @staticmethod
    def _own(info: QuotaInfo) -> tuple[Quantities, Quantities, Quantities, Quantities]:
        """Return what a quota requests and uses by itself; of a leaf, that is everything."""
        if info.is_parent:
            return (
                info.self_request,
                info.self_non_preemptible_request,
                info.self_used,
                info.self_non_preemptible_used,
            )
        return info.child_request, info.non_preemptible_request, info.used, info.non_preemptible_used

    def _reset_below(self, top: str) -> None:
        waiting = [top]
        while waiting:
            parent = waiting.pop()
            for child in sorted(self._children.get(parent, ())):
                info = self.quotas[child]
                self.calculators[child] = Calculator(child, self.touched)
                calculator = self.calculators[parent]
                calculator.set_max(info)
                info.auto_scale_min = info.min
                calculator.set_min(info)
                self.record_min(info)
                calculator.set_shared_weight(info)
                waiting.append(child)

    def refresh_all(self) -> None:
        """Bring the runtime of all quotas up to date, from the root down, as far as anything changed."""
        due = self._touched_with_ancestors()
        if not due:
            return
        waiting = [(ROOT, self.distributable)]
        while waiting:
            name, total = waiting.pop()
            names = self._children.get(name)
            if not names:
                continue
            children = [self.quotas[child] for child in names if child in self.quotas]
            self.refresh_children(name, children, total)
            for info in children:
                if self._children.get(info.name):
                    own = self.calculators.get(info.name)
                    if info.name in due or own is None or own.total is not info.runtime:
                        waiting.append((info.name, info.runtime))
        self.touched.clear()

    def _touched_with_ancestors(self) -> set[str]:
        due: set[str] = set()
        for name in self.touched:
            while name not in due:
                due.add(name)
                info = self.quotas.get(name)
                if info is None:
                    break
                name = info.parent_name
        return due

    # --- hook plugins ----------------------------------------------------------------------------

    def is_updated_for_hooks(self, info: QuotaInfo, new: QuotaInfo, quota: ElasticQuota) -> bool:
        """Return whether a hook plugin says that a quota changed."""
        return any(hook.is_quota_updated(info, new, quota) for hook in self.hooks)

    def _begin(self, old: QuotaInfo | None, new: QuotaInfo | None, quota: ElasticQuota) -> QuotaUpdateState:
        state = QuotaUpdateState()
        for hook in self.hooks:
            hook.pre_quota_update(old, new, quota, state)
        return state

    def _end(
        self,
        old: QuotaInfo | None,
        new: QuotaInfo | None,
        quota: ElasticQuota,
        state: QuotaUpdateState,
    ) -> None:
        for hook in self.hooks:
            hook.post_quota_update(old, new, quota, state)

    def replay_for_hooks(self, quotas: Mapping[str, ElasticQuota]) -> None:
        """Show all quotas of the tree to the hook plugins as if they were created."""
        if not self.hooks:
            return
        for hook in self.hooks:
            hook.on_batch_reset_begin()
        for name in sorted(quotas):
            info = self.quotas.get(name)
            if info is not None:
                self._end(None, info, quotas[name], self._begin(None, info, quotas[name]))
        for hook in self.hooks:
            hook.on_batch_reset_end()

    def tell_hooks(self, name: str, old: Pod | None, new: Pod | None) -> None:
        """Tell the hook plugins of a pod of a quota that has a node, or will be bound to one."""
        for hook in self.hooks:
            hook.on_pod_updated(name, old, new)

    def refusal_of_hooks(self, name: str, pod: Pod) -> str:
        """Return why a hook plugin refuses a pod, or nothing; the message is Koordinator's."""
        for hook in self.hooks:
            refusal = hook.check_pod(name, pod)
            if refusal:
                return f"CheckPod failed for hook plugin {hook.key}, err: {refusal}"
        return ""
