"""The quota trees of the cluster, shared by all profiles and parts of a process.

They are built at the first reading, from all quotas, nodes and pods, and then follow every event with the
result that building them anew would have. Hence a restart, a lost watch or a replica never sees other amounts
than the process that was there all the time. Only changes that make or mend a broken tree (a quota whose
parent does not exist) do build them anew, at the next reading.
"""

from collections.abc import Collection, Iterator

from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import ElasticQuota
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.api.resource_list import Quantities
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.quota.membership import QuotaMembership

from .amounts import Amounts
from .managers import Managers
from .pod_accounts import PodAccounts
from .quota_changes import QuotaChanges, present, says_the_same
from .quota_info import QuotaInfo
from .settings import QuotaSettings
from .tentative import TentativeCharges


class QuotaTrees(DerivedState):
    """Quotas by name, their trees, and the quotas of pods.

    Pods that have passed Reserve and that the watch does not show on a node yet are unconfirmed, and so are
    pods that are counted tentatively between filter and Reserve.
    """

    def __init__(self, cluster: Cluster, settings: QuotaSettings) -> None:
        super().__init__(cluster)
        self.settings = settings
        membership = QuotaMembership(cluster, label_only=settings.label_only)
        self._managers = Managers(settings, membership, cluster.clock)
        self._is_stale = True
        self._is_changed = False
        self._assumed: dict[str, Pod] = {}
        self._tentative = TentativeCharges()
        self._changes = QuotaChanges(cluster, self._managers, membership, self._tentative, self._is_reserved)
        self._quotas = self.follow(ElasticQuota, self._quota_added, self._quota_updated, self._quota_deleted)
        self._nodes = self.follow(Node, self._node_added, self._node_updated, self._node_deleted)
        self._pods = self.follow(Pod, self._pod_added, self._pod_updated, self._pod_deleted)

    def snapshot(self) -> Snapshot:
        """Return the amounts of every quota of every tree, without those that are 0, and its pods."""
        self.refresh_all()
        return {
            "trees": {
                manager.tree: {
                    "total": _shown(manager.total),
                    "quotas": {name: _quota_shown(info) for name, info in manager.quotas.items()},
                }
                for manager in self.managers
            },
            "tentative": self._tentative.shown(),
        }

    def unconfirmed(self) -> Collection[str]:
        """Return the UIDs of pods that count though no object shows it yet."""
        return self._assumed.keys() | self._tentative.uids

    # --- reading ---------------------------------------------------------------------------------

    @property
    def managers(self) -> Managers:
        """The trees, up to date."""
        if self._is_stale:
            self._rebuild()
        if self._is_changed:
            self._is_changed = False
            for tree in self._managers:
                tree.forget_zeros()
        return self._managers

    def quota(self, name: str) -> QuotaInfo | None:
        """Return a quota by name, whichever tree it is in."""
        return self.managers.of_quota(name).get(name)

    def tree_of(self, name: str) -> PodAccounts:
        """Return the tree of a quota; of an unknown quota, the default one."""
        return self.managers.of_quota(name)

    def quota_of(self, pod: Pod) -> tuple[str, str]:
        """Return the names of the quota and of the tree of a pod; two empty strings if it has no quota."""
        return self.managers.quota_of(pod)

    def path_to_root(self, name: str) -> list[str]:
        """Return the names of a quota and its ancestors up to the root; an unknown quota is alone."""
        path = [info.name for info in self.tree_of(name).chain(name)] or [name]
        last = self.quota(path[-1])
        if last is not None and last.parent_name:
            path.append(last.parent_name)
        return path

    def children_of(self, name: str) -> list[QuotaInfo]:
        """Return the children of a quota in its tree, by name."""
        return self.tree_of(name).children_of(name)

    def __iter__(self) -> Iterator[tuple[str, QuotaInfo]]:
        """Yield the tree and the record of every quota, the default tree first, each by name."""
        for manager in self.managers:
            for name in sorted(manager.quotas):
                yield manager.tree, manager.quotas[name]

    def refresh_runtime(self, name: str) -> Quantities | None:
        """Bring the runtime of a quota and its ancestors up to date and return it; None if it has none."""
        return self.managers.of_quota(name).refresh_runtime(name)

    def refresh_all(self) -> None:
        """Bring the runtime of all quotas up to date."""
        for manager in self.managers:
            manager.refresh_all()

    def refresh_some(self, at_most: int) -> bool:
        """Build the trees if they are not: that cannot be divided, but takes little for each node and pod."""
        _ = self.managers
        return False

    # --- what scheduling changes -----------------------------------------------------------------

    def reserve(self, pod: Pod) -> None:
        """Count a pod as one that has a node, until the watch shows it there, or `unreserve`."""
        name, tree = self.quota_of(pod)
        manager = self.managers.tree(tree)
        if not name or manager is None:
            return
        info = manager.get(name)
        if info is None or info.is_assigned(pod):
            return
        if not info.has(pod):
            if not is_reserve_pod(pod):  # the watch has not shown it yet
                self._tentative.add(manager, name, pod)
            return
        self.discharge(pod.metadata.uid)
        manager.reserve(name, pod)
        self._assumed[pod.metadata.uid] = pod

    def unreserve(self, pod: Pod) -> None:
        """Revert `reserve`; other pods are ignored."""
        if self._assumed.pop(pod.metadata.uid, None) is None:
            self.discharge(pod.metadata.uid)
            return
        self._is_changed = True
        known = self._pods.by_key(pod.metadata.key)
        if known is not None and known.metadata.uid == pod.metadata.uid:
            pod = known  # its labels or requests may have changed since it was reserved
        name, tree = self.quota_of(pod)
        manager = self.managers.tree(tree)
        if name and manager is not None:
            manager.unreserve(name, pod)

    def charge(self, pod: Pod) -> None:
        """Count a pod tentatively in its quota and the ancestors, as one that will be bound. Once counts."""
        name, tree = self.quota_of(pod)
        manager = self.managers.tree(tree)
        if name and manager is not None and pod.metadata.uid not in self._assumed:
            self._tentative.add(manager, name, pod)

    def discharge(self, uid: str) -> None:
        """Revert `charge`; other pods are ignored."""
        self._tentative.discard(uid)

    def charged(self, uid: str) -> tuple[Amounts, Amounts]:
        """Return what is counted tentatively for a pod, in all and of what is not preemptible."""
        return self._tentative.of(uid)

    def refusal_of_hooks(self, manager: PodAccounts, name: str, pod: Pod) -> str:
        """Return why a hook plugin of a tree refuses a pod of a quota, or nothing."""
        return self._tentative.refusal_of_hooks(manager, name, pod)

    # --- events ----------------------------------------------------------------------------------

    def _quota_added(self, quota: ElasticQuota) -> None:
        self._quota_changed(None, quota)

    def _quota_updated(self, old: ElasticQuota, quota: ElasticQuota) -> None:
        if self.settings.hook_plugins or not says_the_same(old, quota):
            self._quota_changed(old, quota)

    def _quota_deleted(self, quota: ElasticQuota) -> None:
        self._quota_changed(quota, None)

    def _quota_changed(self, old: ElasticQuota | None, new: ElasticQuota | None) -> None:
        self._is_changed = True
        if not self._is_stale:
            self._is_stale = True  # if this raises, what was changed so far is built anew
            self._is_stale = not self._changes.apply(old, new)

    def _node_added(self, node: Node) -> None:
        self._is_changed = True
        if not self._is_stale:
            self._managers.add_node(node)

    def _node_updated(self, old: Node, node: Node) -> None:
        self._is_changed = True
        if not self._is_stale:
            self._managers.update_node(old, node)

    def _node_deleted(self, node: Node) -> None:
        self._is_changed = True
        if not self._is_stale:
            self._managers.delete_node(node)

    def _pod_added(self, pod: Pod) -> None:
        self._is_changed = True
        self._confirm(pod)
        if not self._is_stale and not pod.is_terminal:
            self._managers.add_pod(pod)

    def _pod_updated(self, old: Pod, pod: Pod) -> None:
        self._is_changed = True
        self._confirm(pod)
        if self._is_stale:
            return
        if pod.is_terminal:
            self._pod_gone(old)
        elif old.is_terminal or (old.spec.node_name and not pod.spec.node_name):
            # The watch has missed that the pod was deleted and created again.
            self._pod_gone(old)
            self._managers.add_pod(pod)
        else:
            self._managers.update_pod(old, pod)
            if self._is_reserved(pod):
                name, tree = self._managers.quota_of(pod)
                manager = self._managers.tree(tree)
                if name and manager is not None:
                    manager.reserve(name, pod)  # in another quota than before

    def _pod_deleted(self, pod: Pod) -> None:
        self._is_changed = True
        self._assumed.pop(pod.metadata.uid, None)
        self.discharge(pod.metadata.uid)
        if not self._is_stale:
            self._pod_gone(pod)

    def _pod_gone(self, pod: Pod) -> None:
        if not pod.is_terminal:
            self._managers.delete_pod(pod)

    def _confirm(self, pod: Pod) -> None:
        if pod.spec.node_name or pod.is_terminal:
            self._assumed.pop(pod.metadata.uid, None)
            self.discharge(pod.metadata.uid)

    # --- rebuild ---------------------------------------------------------------------------------

    def _rebuild(self) -> None:
        self._is_changed = True
        self._managers.build(
            map(present, sorted(self._quotas, key=lambda quota: quota.metadata.key)),
            sorted(self._nodes, key=lambda node: node.metadata.name),
            (pod for pod in self._pods if not pod.is_terminal),
            self._is_reserved,
        )
        self._tentative.rebuild(self._managers)
        self._is_stale = False

    def _is_reserved(self, pod: Pod) -> bool:
        return pod.metadata.uid in self._assumed


def _shown(amounts: Amounts) -> dict[str, str]:
    return {name: str(amount.nano_value()) for name, amount in amounts.items() if not amount.is_zero}


def _quota_shown(info: QuotaInfo) -> dict[str, object]:
    shown: dict[str, object] = {
        name: _shown(getattr(info, name))
        for name in info.__slots__
        if isinstance(getattr(info, name), dict) and name != "pods"
    }
    shown["parent"], shown["isParent"], shown["lends"] = (
        info.parent_name,
        info.is_parent,
        info.allow_lent_resource,
    )
    shown["pods"] = {key: each.is_assigned for key, each in info.pods.items()}
    return shown
