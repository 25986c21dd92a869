"""The quota tree: the quotas, their parents and children, and the namespaces bound to them.

It is updated by the watch of ElasticQuotas, and by changes that were just found valid, so that the next
request is validated against them before the watch shows them. Names identify quotas, regardless of
namespaces. Source: Koordinator, `pkg/webhook/elasticquota/{quota_topology,quota_handler}.go`.
"""

from collections.abc import Collection, Set
from typing import Any

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import ROOT, QuotaInfo, bound_namespaces, parent_name
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot


class QuotaTopology(DerivedState):
    """Quotas by name, children by parent (a parent may be unknown), and quotas by bound namespace.

    A change that was found valid is unconfirmed until the watch shows an event of that quota. If the API
    server rejects it after all, or validates it again because the quota changed in between, it stays in the
    tree until then, as in Koordinator; the event undoes it. Two states that validation never admits differ
    from a rebuild: two quotas of one name are one here, and of two that bind a namespace the later one
    counts. For all other quotas the tree equals a rebuild.
    """

    one_per_cluster = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self.infos: dict[str, QuotaInfo] = {}
        self.children: dict[str, set[str]] = {ROOT: set()}
        self.by_namespace: dict[str, str] = {}
        self._unconfirmed: set[str] = set()
        self.follow(ElasticQuota, self.added, self.updated, self.deleted)

    def snapshot(self) -> Snapshot:
        """Return the quotas, their children, and the namespaces bound to them."""
        return {
            "quotas": dict(self.infos),
            "children": {name: sorted(children) for name, children in self.children.items() if children},
            "namespaces": dict(self.by_namespace),
        }

    def unconfirmed(self) -> Collection[str]:
        """Return the names of quotas with changes that were found valid and that the watch has not shown."""
        return self._unconfirmed

    # --- reading ---------------------------------------------------------------------------------

    def get(self, name: str) -> QuotaInfo | None:
        """Return a quota by name."""
        return self.infos.get(name)

    def find(self, name: str, namespace: str) -> QuotaInfo | None:
        """Return a quota by name, or else the one that a namespace is bound to."""
        return self.infos.get(name) or self.infos.get(self.by_namespace.get(namespace, ""))

    def children_of(self, name: str) -> list[str]:
        """Return the names of the children of a quota, sorted."""
        return sorted(self.children.get(name, ()))

    def document(self) -> dict[str, Any]:
        """Return the tree as Koordinator's debug endpoint shows it."""
        return {
            "quotaInfoMap": {
                name: {
                    "name": info.name,
                    "parentName": info.parent_name,
                    "isParent": info.is_parent,
                    "allowLentResource": info.allow_lent_resource,
                    "max": {key: str(amount) for key, amount in info.max.items()},
                    "min": {key: str(amount) for key, amount in info.min.items()},
                }
                for name, info in sorted(self.infos.items())
            },
            "quotaHierarchyInfo": {name: sorted(names) for name, names in sorted(self.children.items())},
        }

    # --- watch events ----------------------------------------------------------------------------

    def added(self, quota: ElasticQuota) -> None:
        """Add a quota from the watch. A known one also stays in its old parent's set."""
        info = QuotaInfo.of(quota)
        self._unconfirmed.discard(info.name)
        self._take(info)

    def updated(self, old: ElasticQuota, quota: ElasticQuota) -> None:
        """Apply a change from the watch. It undoes one that was found valid and rejected after all."""
        info = QuotaInfo.of(quota)
        before = {parent_name(old)}
        bound = bound_namespaces(old)
        if info.name in self._unconfirmed:
            self._unconfirmed.discard(info.name)
            found_valid = self.infos.get(info.name)
            if found_valid is None:
                self._take(info)
                return
            before.add(found_valid.parent_name)
            bound += found_valid.namespaces
        self.infos[info.name] = info
        self._move(info.name, before, info.parent_name)
        if set(bound) != set(info.namespaces):
            self._unbind(info.name, bound)
            self._bind(info)

    def deleted(self, quota: ElasticQuota) -> None:
        """Remove a quota that was deleted."""
        name = quota.metadata.name
        if name in self._unconfirmed:
            self._unconfirmed.discard(name)
            if found_valid := self.infos.get(name):
                self._drop(name, found_valid.parent_name, found_valid.namespaces)
        self._drop(name, parent_name(quota), bound_namespaces(quota))

    # --- validated changes -----------------------------------------------------------------------

    def add(self, info: QuotaInfo) -> None:
        """Add a quota that is about to be created, without children."""
        self._unconfirmed.add(info.name)
        self.children[info.name] = set()
        self._take(info)

    def replace(self, info: QuotaInfo, bound_before: tuple[str, ...]) -> None:
        """Apply the new state of a known quota, which was bound to these namespaces before."""
        self._unconfirmed.add(info.name)
        old = self.infos[info.name]
        self.infos[info.name] = info
        self._move(info.name, {old.parent_name}, info.parent_name)
        self._unbind(info.name, bound_before)
        self._bind(info)

    def remove(self, name: str, parent: str, bound: tuple[str, ...]) -> None:
        """Remove a quota that is about to be deleted."""
        self._unconfirmed.add(name)
        self._drop(name, parent, bound)

    # --- the tree --------------------------------------------------------------------------------

    def _take(self, info: QuotaInfo) -> None:
        self.infos[info.name] = info
        self.children.setdefault(info.name, set())
        self.children.setdefault(info.parent_name, set()).add(info.name)
        self._bind(info)

    def _drop(self, name: str, parent: str, bound: tuple[str, ...]) -> None:
        self.children.get(parent, set()).discard(name)
        if not self.children.get(name):
            self.children.pop(name, None)
        self.infos.pop(name, None)
        self._unbind(name, bound)

    def _move(self, name: str, old_parents: Set[str], new_parent: str) -> None:
        for parent in old_parents - {new_parent}:
            self.children.get(parent, set()).discard(name)
            self.children.setdefault(new_parent, set()).add(name)

    def _bind(self, info: QuotaInfo) -> None:
        for namespace in info.namespaces:
            self.by_namespace[namespace] = info.name

    def _unbind(self, name: str, namespaces: tuple[str, ...]) -> None:
        for namespace in namespaces:
            if self.by_namespace.get(namespace) == name:
                del self.by_namespace[namespace]
