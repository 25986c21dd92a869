"""Changes of ElasticQuotas, applied to the trees as if these were built anew.

A change costs what it touches: the quota and its ancestors, and pods whose quota is another one afterwards.
Changes that make or mend a broken tree (a quota whose parent does not exist, or is below it) are not applied
here: the trees are built anew after them.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.deprecated_resources import elastic_quota_with_present_names
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import DEFAULT, ROOT, bound_namespaces
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.quota.membership import QuotaMembership
from koordpy.cluster.quota.pods import QuotaPods

from .accounts import SPECIAL
from .managers import Managers
from .tentative import TentativeCharges
from .tree import IsReserved, QuotaTree

_LABELS: Final = (
    extension.LABEL_QUOTA_PARENT,
    extension.LABEL_QUOTA_IS_PARENT,
    extension.LABEL_QUOTA_ALLOW_LENT_RESOURCE,
    extension.LABEL_QUOTA_TREE_ID,
    extension.LABEL_QUOTA_IS_ROOT,
    extension.LABEL_QUOTA_IGNORE_DEFAULT_TREE,
)
_ANNOTATIONS: Final = (
    extension.ANNOTATION_QUOTA_SHARED_WEIGHT,
    extension.ANNOTATION_QUOTA_NAMESPACES,
    extension.ANNOTATION_QUOTA_TOTAL_RESOURCE,
)


def present(quota: ElasticQuota) -> ElasticQuota:
    """Return a quota with current names of resources, as Koordinator's scheduler reads quotas."""
    return elastic_quota_with_present_names(quota)


def says_the_same(old: ElasticQuota, new: ElasticQuota) -> bool:
    """Return whether two versions say the same about a quota: its status alone changes all the time."""
    before, after = old.metadata, new.metadata
    return (
        old.spec == new.spec
        and bool(before.deletion_timestamp) == bool(after.deletion_timestamp)
        and before.creation_timestamp == after.creation_timestamp
        and all(before.labels.get(name) == after.labels.get(name) for name in _LABELS)
        and all(before.annotations.get(name) == after.annotations.get(name) for name in _ANNOTATIONS)
    )


class QuotaChanges:
    """Applies what the watch shows of ElasticQuotas.

    A name may have several objects, in several namespaces, which is a mistake: the last one by namespace that
    is not being deleted counts, as when the trees are built.
    """

    def __init__(
        self,
        cluster: Cluster,
        managers: Managers,
        membership: QuotaMembership,
        tentative: TentativeCharges,
        is_reserved: IsReserved,
    ) -> None:
        self._managers, self._membership, self._tentative = managers, membership, tentative
        self._is_reserved = is_reserved
        self._pods = QuotaPods(cluster)
        quotas = cluster.store(ElasticQuota)
        self._by_name, self._roots = quotas.index(_names), quotas.index(_rooted_trees)

    def apply(self, old: ElasticQuota | None, new: ElasticQuota | None) -> bool:
        """Apply that a quota was created, changed or deleted; False if the trees must be built anew.

        Raises QuantityError.
        """
        versions = [version for version in (old, new) if version is not None]
        name = versions[0].metadata.name
        wanted = self._wanted(name)
        before = self._managers.tree_of.get(name)
        lifted = self._tentative.lift(name)
        try:
            change = self._change_special if name in SPECIAL else self._change
            if not change(name, wanted, versions):
                return False
            self._place(self._concerned(name, old, new).values(), name)
        finally:
            self._tentative.restore(lifted, self._managers)
        self._tentative.follow(self._managers)
        for tree in {before, self._managers.tree_of.get(name), *map(_tree_id, versions)}:
            self._share_total(tree or "")
        return True

    def _wanted(self, name: str) -> ElasticQuota | None:
        """Return the object of a name that counts."""
        objects = [quota for quota in self._by_name.get(name) if not quota.metadata.deletion_timestamp]
        return present(max(objects, key=_key)) if objects else None

    def _change(self, name: str, wanted: ElasticQuota | None, versions: Sequence[ElasticQuota]) -> bool:
        managers = self._managers
        known = managers.tree_of.get(name)
        before = None if known is None else managers.tree(known)
        if wanted is None:
            return before is None or self._remove(before, name, versions[0])
        after = managers.tree_for(wanted)
        new = after.read(wanted)
        if before is after:
            if not after.can_change(new):
                return False
            after.change(new, wanted)
            return True
        if not after.can_insert(new) or not (before is None or before.can_remove(name)):
            return False
        managers.tree_of[name] = after.tree
        after.insert(new, wanted)
        return before is None or self._remove(before, name, versions[0])

    def _remove(self, tree: QuotaTree, name: str, quota: ElasticQuota) -> bool:
        if not tree.can_remove(name):
            return False
        if self._managers.tree_of.get(name) == tree.tree:
            del self._managers.tree_of[name]
        self._place([record.pod for record in tree.quotas[name].pods.values()], name)
        tree.remove(name, quota)
        return True

    def _change_special(
        self, name: str, wanted: ElasticQuota | None, versions: Sequence[ElasticQuota]
    ) -> bool:
        """Change the root, system or default quota, unless it is in an unusual place or hooks observe it."""
        managers = self._managers
        if any(_tree_id(version) for version in versions) or managers.settings.hook_plugins:
            return False
        tree = managers.default
        new = None if wanted is None else tree.read(wanted)
        places = {info.parent_name for info in (tree.quotas[name], new) if info is not None}
        if name != ROOT and places != {ROOT}:
            return False
        tree.change_special(name, new)
        if name == ROOT:
            managers.tree_of.pop(name, None)
            if wanted is not None:
                managers.tree_of[name] = ""
        return True

    # --- pods ------------------------------------------------------------------------------------

    def _concerned(self, name: str, old: ElasticQuota | None, new: ElasticQuota | None) -> Mapping[str, Pod]:
        """Return the pods whose quota may be another one after a change, by key."""
        before, after = _namespaces(old), _namespaces(new)
        if old is not None and new is not None and _existence(old) == _existence(new):
            return self._pods.of((), before ^ after)
        bound = {namespace for quota in self._by_name.get(name) for namespace in _namespaces(quota)}
        return self._pods.of((name,), before | after | bound)

    def _place(self, pods: Iterable[Pod], name: str) -> None:
        """Count pods in the quotas that they belong to now."""
        managers = self._managers
        leaving: defaultdict[tuple[QuotaTree, str], list[Pod]] = defaultdict(list)
        coming: defaultdict[tuple[QuotaTree, str], list[Pod]] = defaultdict(list)
        for pod in pods:
            if pod.is_terminal:
                continue
            target, tree_id = managers.quota_of(pod)
            tree = managers.tree(tree_id)
            info = None if tree is None else tree.get(target)
            if info is not None and info.has(pod):
                continue
            place = self._place_of(pod, name)
            if place is not None:
                leaving[place].append(pod)
            if target and tree is not None:
                coming[tree, target].append(pod)
        for (tree, quota), moved in leaving.items():
            tree.remove_pods(quota, moved)
        for (tree, quota), moved in coming.items():
            tree.add_pods(quota, moved, self._is_reserved)

    def _place_of(self, pod: Pod, name: str) -> tuple[QuotaTree, str] | None:
        """Return where a pod counts: in the quota that changed, or in one that could be its quota."""
        namespace = pod.metadata.namespace
        label = pod.metadata.labels.get(extension.LABEL_QUOTA_NAME, "")
        names = {name, label, namespace, DEFAULT, *self._membership.bound_to(namespace)}
        for tree in self._managers:
            for each in names:
                info = tree.get(each)
                if info is not None and info.has(pod):
                    return tree, each
        return None

    # --- totals ----------------------------------------------------------------------------------

    def _share_total(self, tree: str) -> None:
        """Let a tree other than the default one have the total of its root; forget it with its last quota."""
        managers = self._managers
        if tree not in managers.trees:
            return
        roots = [root for root in self._roots.get(tree) if root.metadata.key == self._key_of(root)]
        managers.share_total(tree, map(present, sorted(roots, key=_key)))
        managers.drop_if_empty(tree)

    def _key_of(self, quota: ElasticQuota) -> str:
        wanted = self._wanted(quota.metadata.name)
        return "" if wanted is None else wanted.metadata.key


def _namespaces(quota: ElasticQuota | None) -> set[str]:
    """Return the namespaces whose pods may be in a quota: bound ones, and its own if that has its name."""
    if quota is None:
        return set()
    own = (quota.metadata.name,) if quota.metadata.name == quota.metadata.namespace else ()
    return {*bound_namespaces(quota), *own}


def _tree_id(quota: ElasticQuota) -> str:
    return quota.metadata.labels.get(extension.LABEL_QUOTA_TREE_ID, "")


def _existence(quota: ElasticQuota) -> tuple[str, bool, str | None]:
    """Return in which tree a version exists, whether it is being deleted, and since when it exists."""
    metadata = quota.metadata
    return _tree_id(quota), bool(metadata.deletion_timestamp), metadata.creation_timestamp


def _key(quota: ElasticQuota) -> str:
    return quota.metadata.key


def _names(quota: ElasticQuota) -> tuple[str, ...]:
    return (quota.metadata.name,)


def _rooted_trees(quota: ElasticQuota) -> tuple[str, ...]:
    """Return the tree that a quota is the root of."""
    is_root = quota.metadata.labels.get(extension.LABEL_QUOTA_IS_ROOT) == "true"
    return (_tree_id(quota),) if is_root else ()
