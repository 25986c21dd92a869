"""All quota trees, and what the events of quotas, nodes and pods change in them.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota` (`quota_handler.go`, `pod_handler.go`,
`node_handler.go`, `plugin_helper.go`).
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Protocol

from koordpy.api import extension, resource_list
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quantity import QuantityError
from koordpy.api.quota.info import DEFAULT, SYSTEM
from koordpy.api.resource_list import Quantities, from_wire
from koordpy.api.scheme import DecodeError
from koordpy.lib.clock import Clock

from .amounts import equal, is_zero, minus, plus
from .hooks import HookError
from .manager import UnknownQuota
from .settings import QuotaSettings
from .tree import IsReserved, QuotaTree

log = logging.getLogger(__name__)


class Membership(Protocol):
    """Which quota a pod names, whether or not it exists."""

    def name_of(self, labels: Mapping[str, str], namespace: str) -> str:
        """Return the name of the quota of a pod; empty only if labels alone count."""
        ...


class Managers:
    """The default tree `""`, and a tree for each tree id where the gate MultiQuotaTree is on.

    Raises HookError if the hook plugins of the default tree cannot be created.
    """

    def __init__(self, settings: QuotaSettings, membership: Membership, clock: Clock) -> None:
        self.settings, self._membership, self._clock = settings, membership, clock
        self._begin()

    def _begin(self) -> None:
        self.default = QuotaTree("", self.settings, self._clock)
        self.default.create_hooks()
        self.trees: dict[str, QuotaTree] = {}
        """The trees other than the default one, by id."""
        self.tree_of: dict[str, str] = {DEFAULT: "", SYSTEM: ""}
        """The tree id of each quota that pods may belong to."""
        self._nodes: set[str] = set()
        self._taken: dict[str, Quantities] = {}
        """What the default tree has less because of each of the other trees."""

    def __iter__(self) -> Iterator[QuotaTree]:
        """Yield all trees, the default one first."""
        return iter((self.default, *(self.trees[tree] for tree in sorted(self.trees))))

    def tree(self, tree: str) -> QuotaTree | None:
        """Return a tree by its id."""
        return self.trees.get(tree) if tree and self.settings.multi_tree else self.default

    def of_quota(self, name: str) -> QuotaTree:
        """Return the tree of a quota, the default one for unknown quotas."""
        return self.tree(self.tree_of.get(name, "")) or self.default

    def quota_of(self, pod: Pod) -> tuple[str, str]:
        """Return the quota and the tree of a pod; two empty strings if it belongs to no quota."""
        name = self._membership.name_of(pod.metadata.labels, pod.metadata.namespace)
        if not name:
            return "", ""
        tree = self.tree_of.get(name)
        if tree is not None:
            return name, tree
        return ("", "") if self.settings.label_only else (DEFAULT, "")

    # --- quotas ----------------------------------------------------------------------------------

    def add_quota(self, quota: ElasticQuota) -> None:
        """Take a new quota. Raises QuantityError."""
        if quota.metadata.deletion_timestamp:
            return
        manager = self._placed(quota)
        name = quota.metadata.name
        if manager.get(name) is None or name in (DEFAULT, SYSTEM):
            manager.update(quota)

    def update_quota(self, quota: ElasticQuota) -> None:
        """Take a changed quota. Raises QuantityError."""
        if not quota.metadata.deletion_timestamp:
            self._placed(quota).update(quota)

    def delete_quota(self, quota: ElasticQuota) -> None:
        """Forget a quota; with the root of a tree the whole tree goes."""
        self.tree_of.pop(quota.metadata.name, None)
        manager = self.tree(_tree_id(quota))
        if manager is None:
            return
        try:
            manager.delete(quota)
        except UnknownQuota as error:
            log.info("tree %r: %s", manager.tree, error)
            return
        self._take_total(quota, manager, is_deleted=True)

    def replace_quotas(self, quotas: Iterable[ElasticQuota]) -> None:
        """Begin anew with these quotas alone: nodes and pods are to be added again. Raises QuantityError."""
        self._begin()
        by_name = {quota.metadata.name: quota for quota in quotas if not quota.metadata.deletion_timestamp}
        for quota in by_name.values():
            self._placed(quota).put(quota)
        for manager in self:
            manager.reset()
            manager.replay_for_hooks(by_name)

    def _placed(self, quota: ElasticQuota) -> QuotaTree:
        """Return the tree of a quota, made if it is new, with the total that the quota gives to it."""
        tree = _tree_id(quota)
        manager = self.tree(tree) or self._new_tree(tree)
        self.tree_of.setdefault(quota.metadata.name, manager.tree)
        self._take_total(quota, manager, is_deleted=False)
        return manager

    def _new_tree(self, tree: str) -> QuotaTree:
        manager = self.trees[tree] = QuotaTree(tree, self.settings, self._clock)
        try:
            manager.create_hooks()
        except HookError as error:
            log.error("%s", error)
        return manager

    def _take_total(self, quota: ElasticQuota, manager: QuotaTree, *, is_deleted: bool) -> None:
        """Give a tree the total that its root names, and take it from the default tree."""
        labels = quota.metadata.labels
        if not manager.tree or labels.get(extension.LABEL_QUOTA_IS_ROOT) != "true":
            return
        total = _total(quota)
        if total is None:
            return
        if is_deleted:
            delta = minus({}, total)
            self.trees.pop(manager.tree, None)
        else:
            delta = manager.set_total(total)
        if not is_zero(delta) and labels.get(extension.LABEL_QUOTA_IGNORE_DEFAULT_TREE) != "true":
            self._taken[manager.tree] = {} if is_deleted else plus(self._taken.get(manager.tree, {}), delta)
            self.default.add_total(minus({}, delta))

    # --- changes that do not depend on their order -------------------------------------------------

    def build(
        self,
        quotas: Iterable[ElasticQuota],
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        is_reserved: IsReserved,
    ) -> None:
        """Begin anew with these objects. Those with amounts that cannot be read are left out.

        Of several quotas of a name, the last one counts. Hook plugins see quotas and pods one by one, as from
        Koordinator.
        """
        by_name = {quota.metadata.name: quota for quota in quotas if not quota.metadata.deletion_timestamp}
        counting = sorted(by_name.values(), key=lambda quota: quota.metadata.key)
        if self.settings.hook_plugins:
            self._build_with_hooks(counting, nodes, pods, is_reserved)
            return
        self._begin()
        for quota in counting:
            try:
                self._placed(quota).put(quota)
            except QuantityError as error:
                log.error("ElasticQuota %s is ignored: %s", quota.metadata.key, error)
        self._add_nodes(nodes)
        for pod in pods:
            name, tree = self.quota_of(pod)
            manager = self.tree(tree)
            if not name or manager is None:
                continue
            try:
                manager.take(name, pod, is_reserved)
            except QuantityError as error:
                log.error("pod %s counts in no quota: %s", pod.metadata.key, error)
        for manager in self:
            manager.build()

    def _build_with_hooks(
        self,
        quotas: Iterable[ElasticQuota],
        nodes: Iterable[Node],
        pods: Iterable[Pod],
        is_reserved: IsReserved,
    ) -> None:
        self.replace_quotas(quotas)
        for node in nodes:
            self.add_node(node)
        for pod in pods:
            self.add_pod(pod)
            name, tree = self.quota_of(pod)
            manager = self.tree(tree)
            if name and manager is not None and is_reserved(pod):
                manager.reserve(name, pod)

    def tree_for(self, quota: ElasticQuota) -> QuotaTree:
        """Return the tree that a quota belongs to, made if it is new."""
        tree = _tree_id(quota)
        return self.tree(tree) or self._new_tree(tree)

    def share_total(self, tree: str, roots: Iterable[ElasticQuota]) -> None:
        """Give a tree the total that its root names, and take it from the default tree.

        `roots` are the roots of the tree, in the order in which a build reads them: of several, which is a
        mistake, the last one counts.
        """
        manager = self.trees[tree]
        whole, taken = Quantities(), Quantities()
        for quota in roots:
            total = _total(quota)
            if total is None:
                continue
            delta = minus(total, whole)
            whole = plus(whole, delta)
            if quota.metadata.labels.get(extension.LABEL_QUOTA_IGNORE_DEFAULT_TREE) != "true":
                taken = plus(taken, delta)
        manager.set_total(whole)
        change = minus(self._taken.get(tree, {}), taken)
        self._taken[tree] = taken
        if not is_zero(change):
            self.default.add_total(change)

    def drop_if_empty(self, tree: str) -> None:
        """Forget a tree that has no quotas."""
        if tree in self.trees and self.trees[tree].is_empty:
            del self.trees[tree]
            self._taken.pop(tree, None)

    # --- nodes -----------------------------------------------------------------------------------

    def add_node(self, node: Node) -> None:
        """Add a node to the total of the default tree. Raises QuantityError."""
        if node.metadata.deletion_timestamp or node.metadata.name in self._nodes:
            return
        self._nodes.add(node.metadata.name)
        self.default.add_total(from_wire(node.status.allocatable))

    def _add_nodes(self, nodes: Iterable[Node]) -> None:
        """Add many nodes; what there is to distribute is found once."""
        whole: Quantities = {}
        for node in nodes:
            name = node.metadata.name
            if not node.metadata.deletion_timestamp and name not in self._nodes:
                self._nodes.add(name)
                for resource, amount in from_wire(node.status.allocatable).items():
                    known = whole.get(resource)
                    whole[resource] = amount if known is None else known + amount
        self.default.add_total(whole)

    def update_node(self, old: Node, new: Node) -> None:
        """Count what has changed of a node. Raises QuantityError."""
        if new.metadata.deletion_timestamp or old.metadata.resource_version == new.metadata.resource_version:
            return
        if new.metadata.name not in self._nodes:
            self.add_node(new)
            return
        if old.status.allocatable == new.status.allocatable:
            return
        before, after = from_wire(old.status.allocatable), from_wire(new.status.allocatable)
        if not equal(before, after):
            self.default.add_total(minus(after, before))

    def delete_node(self, node: Node) -> None:
        """Take a node out of the total."""
        if node.metadata.name in self._nodes:
            self._nodes.discard(node.metadata.name)
            self.default.add_total(minus({}, from_wire(node.status.allocatable)))

    # --- pods ------------------------------------------------------------------------------------

    def add_pod(self, pod: Pod) -> None:
        """Count a new pod. Raises QuantityError."""
        name, tree = self.quota_of(pod)
        manager = self.tree(tree)
        if name and manager is not None:
            manager.add_pod(name, pod)

    def update_pod(self, old: Pod, new: Pod) -> None:
        """Count what has changed of a pod. Raises QuantityError."""
        if old.metadata.resource_version == new.metadata.resource_version:
            return
        old_name, old_tree = self.quota_of(old)
        name, tree = self.quota_of(new)
        before, manager = self.tree(old_tree), self.tree(tree)
        if old_tree == tree and old_name and name:
            if manager is not None:
                manager.update_pod(name, old_name, new, old)
            return
        if old_name and before is not None:
            before.delete_pod(old_name, old)
        if name and manager is not None:
            manager.add_pod(name, new)

    def delete_pod(self, pod: Pod) -> None:
        """Stop counting a pod."""
        name, tree = self.quota_of(pod)
        manager = self.tree(tree)
        if name and manager is not None:
            manager.delete_pod(name, pod)

    def migrate_default_pods(self) -> None:
        """Move pods out of the default quota that belong to another one by now."""
        info = self.default.get(DEFAULT)
        if info is None or self.settings.label_only:
            return
        for pod in [info.pods[key].added for key in sorted(info.pods)]:
            name, tree = self.quota_of(pod)
            manager = self.tree(tree)
            if name == DEFAULT or manager is None or manager.get(name) is None:
                continue
            if manager.tree:
                self.default.delete_pod(DEFAULT, pod)
                manager.add_pod(name, pod)
            else:
                manager.migrate(pod, DEFAULT, name)


def _tree_id(quota: ElasticQuota) -> str:
    return quota.metadata.labels.get(extension.LABEL_QUOTA_TREE_ID, "")


def _total(quota: ElasticQuota) -> Quantities | None:
    """Return the total that the root of a tree names; None if it names none."""
    text = quota.metadata.annotations.get(extension.ANNOTATION_QUOTA_TOTAL_RESOURCE, "")
    try:
        return (resource_list.parse(text) or {}) if text else None
    except DecodeError as error:
        log.error(
            "quota %s: annotation %s: %s",
            quota.metadata.name,
            extension.ANNOTATION_QUOTA_TOTAL_RESOURCE,
            error,
        )
        return None
