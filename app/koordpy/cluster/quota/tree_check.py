"""The checks of a quota's place in the tree.

Source: Koordinator, `pkg/webhook/elasticquota/quota_topology_check.go` (`validateQuotaTopology`).
"""

from collections.abc import Callable
from dataclasses import dataclass

from koordpy.api.quota.amounts import fits
from koordpy.api.quota.info import ROOT, QuotaInfo
from koordpy.api.quota.validation import InvalidQuota
from koordpy.api.resource_amounts import largest, total
from koordpy.lib.feature_gates import FeatureGates

from .pods import QuotaPods
from .topology import QuotaTopology


@dataclass(frozen=True)
class TreeCheck:
    """The checks against a topology, with the gates that change them."""

    topology: QuotaTopology
    pods: QuotaPods
    gates: FeatureGates

    def check(self, old: QuotaInfo | None, new: QuotaInfo, bound_before: tuple[str, ...]) -> None:
        """Check the place of a quota that is new (`old` is None) or changed. Raises InvalidQuota.

        `bound_before` are the namespaces that were bound to it.
        """
        if new.name == ROOT:
            return
        if old is not None:
            self._check_is_parent(old, new, bound_before)
        self._check_tree_id(old, new)
        if new.parent_name == ROOT and not new.is_parent:
            return
        self._check_parent(new)
        self._check_keys(new)
        if not new.allow_force_update and not new.is_tree_root:
            self._check_min_sums(new)
            if self.gates.enabled("ElasticQuotaGuaranteeUsage") and new.tree_id:
                self._check_guarantee(new)

    def _check_is_parent(self, old: QuotaInfo, new: QuotaInfo, bound_before: tuple[str, ...]) -> None:
        if old.is_parent == new.is_parent:
            return
        name = new.name
        if not new.is_parent:
            if self.topology.children.get(name):
                raise InvalidQuota(
                    f"quota has children, isParent is forbidden to modify as false, quotaName:{name}"
                )
        elif self.pods.labelled(name) or any(map(self.pods.in_namespace, (name, *bound_before))):
            raise InvalidQuota(
                f"quota has bound pods, isParent is forbidden to modify as true, quotaName: {name}"
            )

    def _check_tree_id(self, old: QuotaInfo | None, new: QuotaInfo) -> None:
        if old is not None and old.tree_id != new.tree_id:
            raise InvalidQuota(f"{new.name} tree id changed [{old.tree_id}] vs [{new.tree_id}]")
        infos = self.topology.infos
        parent = infos.get(new.parent_name) if new.parent_name != ROOT else None
        if parent is not None and parent.tree_id != new.tree_id:
            raise InvalidQuota(
                f"{new.name} tree id is different from parent {parent.name}, [{new.tree_id}] vs "
                f"[{parent.tree_id}]"
            )
        for name in self.topology.children_of(new.name):
            child = infos.get(name)
            if child is not None and child.tree_id != new.tree_id:
                raise InvalidQuota(
                    f"{new.name} tree id is different from child {name}, [{new.tree_id}] vs [{child.tree_id}]"
                )

    def _check_parent(self, new: QuotaInfo) -> None:
        if new.parent_name == ROOT:
            return
        problem = f"{new.name} has parentName {new.parent_name} but"
        parent = self.topology.get(new.parent_name)
        if parent is None:
            raise InvalidQuota(f"{problem} not find parentInfo in quotaInfoMap")
        if new.parent_name not in self.topology.children:
            raise InvalidQuota(f"{problem} not find parentInfo in quotaHierarchyInfo")
        if not parent.is_parent:
            raise InvalidQuota(f"{problem} the parentQuotaInfo's IsParent is false")

    def _check_keys(self, new: QuotaInfo) -> None:
        prefix = "failed to check sub and parent group quotaKey, err: "
        if new.parent_name != ROOT:
            self._check_pair(prefix, self.topology.infos[new.parent_name], new, new)
        for name in self.topology.children_of(new.name):
            child = self.topology.get(name)
            if child is None:
                raise InvalidQuota(
                    f"{prefix}internal error: quotaInfoMap and quotaTree information out of sync, "
                    f"losed :{name}"
                )
            self._check_pair(prefix, new, child, new)

    def _check_pair(self, prefix: str, parent: QuotaInfo, child: QuotaInfo, new: QuotaInfo) -> None:
        """Check the keys of a child against its parent; `new` is the one of them that is written."""
        failed = f"{prefix}checkSubAndParentGroupQuotaKey failed: "
        if self.gates.enabled("ElasticQuotaEnableUpdateResourceKey"):
            if not child.max.keys() <= parent.max.keys():
                raise InvalidQuota(f"{failed}{child.name}'s max keys are not all included in {parent.name}'s")
        elif child.max.keys() != parent.max.keys():
            other = parent if new is child else child
            raise InvalidQuota(f"{failed}{other.name}'s max keys are not the same with {new.name}'s")
        if not child.min.keys() <= parent.min.keys():
            raise InvalidQuota(f"{failed}{child.name}'s min keys are not all included in {parent.name}'s")

    def _check_min_sums(self, new: QuotaInfo) -> None:
        parent_name = new.parent_name
        if parent_name != ROOT:
            names = self.topology.children.get(parent_name)
            if names is None:
                raise InvalidQuota(
                    f"checkMinQuotaSum failed: not found child quota list, parent: {parent_name}"
                )
            brothers = [self._child(name).min for name in sorted(names - {new.name})]
            if not fits(total([*brothers, new.min]), self.topology.infos[parent_name].min):
                raise InvalidQuota(
                    f"checkMinQuotaSum all brothers' MinQuota > parent MinQuota, parent: {parent_name}"
                )
        children = [self._child(name).min for name in self.topology.children_of(new.name)]
        if children and not fits(total(children), new.min):
            raise InvalidQuota(
                f"checkMinQuotaSum all children's MinQuota > current MinQuota, current: {new.name}"
            )

    def _child(self, name: str) -> QuotaInfo:
        child = self.topology.get(name)
        if child is None:
            raise InvalidQuota(
                "checkMinQuotaSum failed: BUG quotaInfoMap and quotaTree information out of sync, "
                f"losed :{name}"
            )
        return child

    def _check_guarantee(self, new: QuotaInfo) -> None:
        """Check that the ancestors' guarantees cover what the quota's minimum adds to its own."""
        if fits(new.min, new.guaranteed):
            return
        need, name, parent_name = largest(new.min, new.guaranteed), new.name, new.parent_name
        seen: set[str] = set()
        while True:
            refuse = _refusal_of(new.name)
            if parent_name == ROOT:
                raise refuse(f"tree root quota {name} can't guarantee for min")
            parent = self.topology.get(parent_name)
            if parent is None or parent_name in seen:
                raise refuse(f"parent {parent_name} not found")
            names = self.topology.children.get(parent_name)
            if names is None:
                raise refuse(f"child quota list not found, parent: {parent_name}")
            seen.add(parent_name)
            brothers = [
                brother.guaranteed
                for brother in map(self.topology.get, sorted(names - {name}))
                if brother is not None
            ]
            need = largest(parent.min, total([need, *brothers]))
            if fits(need, parent.guaranteed):
                return
            name, parent_name = parent_name, parent.parent_name


def _refusal_of(name: str) -> Callable[[str], InvalidQuota]:
    return lambda problem: InvalidQuota(f"{problem} {name}")
