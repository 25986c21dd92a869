"""Which unbound pods are nominated to which node (`status.nominatedNodeName`).

Their requests count against other pods while nodes are filtered, so that resources freed by preemption are
not taken by a less important pod.
"""

from collections.abc import Collection, Sequence, Set

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot


class Nominator(DerivedState):
    """Follows nominations in the pod store; plugins and the embedded scheduler may add their own."""

    one_per_cluster = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._table = cluster.nodes
        self._nodes: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}
        self.follow(Pod, self._observe, self._updated, lambda pod: self.delete(pod.metadata.uid))

    def snapshot(self) -> Snapshot:
        """Return the UIDs of the pods nominated to each node."""
        return {name: sorted(pods) for name, pods in self._nodes.items()}

    def unconfirmed(self) -> Collection[str]:
        """Return the UIDs of pods whose status does not show their nomination."""
        return [
            uid
            for name, pods in self._nodes.items()
            for uid, pod in pods.items()
            if pod.status.nominated_node_name != name
        ]

    def __bool__(self) -> bool:
        return bool(self._nodes)

    def nominations_against(self, pod: Pod) -> Set[tuple[str, str]]:
        """Return the UIDs of all other nominated pods, each with its node's name."""
        uid = pod.metadata.uid
        return self._node_of.items() - {(uid, self.node_of(uid))}

    @property
    def node_names(self) -> Sequence[str]:
        """The nodes with nominated pods."""
        return list(self._nodes)

    def pods_on(self, node_name: str) -> Sequence[Pod]:
        """Return the pods nominated to a node, in order of nomination."""
        return list(self._nodes.get(node_name, {}).values())

    def node_of(self, uid: str) -> str:
        """Return the node that a pod is nominated to; empty if there is none."""
        return self._node_of.get(uid, "")

    def add(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod, replacing an earlier nomination."""
        uid = pod.metadata.uid
        if self._node_of.get(uid) != node_name:
            self.delete(uid)
        self._node_of[uid] = node_name
        self._nodes.setdefault(node_name, {})[uid] = pod

    def add_if_pending(self, pod: Pod, node_name: str) -> None:
        """Nominate a pod after a wait, in which it may have been bound or deleted."""
        if not is_reserve_pod(pod):
            known = self.cluster.store(Pod).by_key(pod.metadata.key)
            if known is None or known.metadata.uid != pod.metadata.uid:
                return
            if known.spec.node_name or known.is_terminal:
                return
        self.add(pod, node_name)

    def delete(self, uid: str) -> None:
        """Remove a nomination, if there is one."""
        node_name = self._node_of.pop(uid, None)
        if node_name is not None:
            pods = self._nodes[node_name]
            del pods[uid]
            if not pods:
                del self._nodes[node_name]

    def resume(self, pod: Pod) -> None:
        """Restore the nomination in a pod's status, after the assumed pod was forgotten."""
        live = self.cluster.store(Pod).by_key(pod.metadata.key)
        if live is not None and live.metadata.uid == pod.metadata.uid:
            self._observe(live)

    def _updated(self, old: Pod, pod: Pod) -> None:
        """Process a change; one without a nomination may be older than a nomination made here."""
        node_name = self._node_of.get(pod.metadata.uid)
        silent = not old.status.nominated_node_name and not pod.status.nominated_node_name
        if node_name is not None and silent and not pod.spec.node_name and not pod.is_terminal:
            self.add(pod, node_name)
        else:
            self._observe(pod)

    def _observe(self, pod: Pod) -> None:
        node_name = pod.status.nominated_node_name
        placed = self._table.placed_on(pod.metadata.uid)  # an assumed pod is counted already
        if node_name and placed is None and not pod.spec.node_name and not pod.is_terminal:
            self.add(pod, node_name)
        else:
            self.delete(pod.metadata.uid)
