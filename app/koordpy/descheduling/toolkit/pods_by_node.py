"""The pods of each node in their order, kept current as pods come and go.

Every plugin reads them in every cycle, and between two cycles hardly any node's pods change: a node's are
filtered and sorted when they are first read after a change.
"""

from typing import TYPE_CHECKING

from koordpy.api.core import Pod
from koordpy.cluster.derived_state import DerivedState, Snapshot

if TYPE_CHECKING:
    from koordpy.cluster.cluster import Cluster


class PodsByNode(DerivedState):
    """The pods that are bound to each node, by namespace and name."""

    def __init__(self, cluster: "Cluster") -> None:
        super().__init__(cluster)
        self._pods: dict[str, dict[str, Pod]] = {}
        self._all: dict[str, tuple[Pod, ...]] = {}
        self._active: dict[str, tuple[Pod, ...]] = {}
        self.follow(Pod, self._add, self._change, self._remove)

    def all_on(self, node_name: str) -> tuple[Pod, ...]:
        """Return the pods of a node in any phase."""
        known = self._all.get(node_name)
        if known is None:
            pods = self._pods.get(node_name)
            if pods is None:
                return ()
            ordered = sorted(pods.values(), key=lambda pod: (pod.metadata.namespace, pod.metadata.name))
            known = self._all[node_name] = tuple(ordered)
        return known

    def active_on(self, node_name: str) -> tuple[Pod, ...]:
        """Return the pods of a node that have neither succeeded nor failed."""
        known = self._active.get(node_name)
        if known is None:
            if node_name not in self._pods:
                return ()
            known = self.all_on(node_name)
            if any(pod.is_terminal for pod in known):
                known = tuple(pod for pod in known if not pod.is_terminal)
            self._active[node_name] = known
        return known

    def snapshot(self) -> Snapshot:
        """Return the keys of all and of the active pods, by node."""
        return {
            name: [[pod.metadata.key for pod in pods] for pods in (self.all_on(name), self.active_on(name))]
            for name in self._pods
        }

    def _add(self, pod: Pod) -> None:
        name = pod.spec.node_name
        if name:
            self._pods.setdefault(name, {})[pod.metadata.key] = pod
            self._changed(name)

    def _change(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name != new.spec.node_name:
            self._remove(old)
        self._add(new)

    def _remove(self, pod: Pod) -> None:
        name = pod.spec.node_name
        pods = self._pods.get(name)
        if pods is not None and pods.pop(pod.metadata.key, None) is not None:
            if not pods:
                del self._pods[name]
            self._changed(name)

    def _changed(self, name: str) -> None:
        self._all.pop(name, None)
        self._active.pop(name, None)
