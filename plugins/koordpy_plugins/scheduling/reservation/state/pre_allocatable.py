"""Running pods that Reservations may take over: those marked for it in the whole cluster, by priority.

Source: Koordinator, `pkg/scheduler/plugins/reservation/cache.go`, `pod_eventhandler.go`.
"""

from collections.abc import Iterable, Sequence

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.store import Store
from koordpy.lib import int64

from ..args import PreAllocationConfig


class PreAllocatablePods:
    """The pods of each node that carry the label `clusterLabelKey`, those of the highest priority first."""

    def __init__(self, config: PreAllocationConfig, pods: Store[Pod]) -> None:
        self._config = config
        self._by_node: dict[str, dict[str, Pod]] = {}
        self._node_of: dict[str, str] = {}
        if config.enable_cluster_mode:
            pods.subscribe(self._observe, lambda _, pod: self._observe(pod), self._forget)

    @property
    def node_names(self) -> Iterable[str]:
        """The nodes with such pods."""
        return self._by_node.keys()

    def on(self, node_name: str) -> Sequence[Pod]:
        """Return the pods of a node, by priority, then UID."""
        return sorted(
            self._by_node.get(node_name, {}).values(),
            key=lambda pod: (-self.priority(pod), pod.metadata.uid),
        )

    def priority(self, pod: Pod) -> int:
        """Return a pod's priority by its annotation; 0 if it has none that can be read."""
        key = self._config.cluster_priority_annotation_key
        return int64.parse(pod.metadata.annotations.get(key, "")) or 0

    def _observe(self, pod: Pod) -> None:
        self._forget(pod)
        marked = pod.metadata.labels.get(self._config.cluster_label_key) == "true"
        if marked and pod.spec.node_name and not pod.is_terminal:
            self._by_node.setdefault(pod.spec.node_name, {})[pod.metadata.uid] = pod
            self._node_of[pod.metadata.uid] = pod.spec.node_name

    def _forget(self, pod: Pod) -> None:
        node_name = self._node_of.pop(pod.metadata.uid, None)
        if node_name is not None:
            pods = self._by_node[node_name]
            del pods[pod.metadata.uid]
            if not pods:
                del self._by_node[node_name]


def is_free(pod: Pod) -> bool:
    """Return whether a pod is on a node, uses no reservation and is no reserve pod."""
    return (
        bool(pod.spec.node_name)
        and not pod.is_terminal
        and not pod.metadata.annotations.get(extension.ANNOTATION_RESERVATION_ALLOCATED)
        and not is_reserve_pod(pod)
    )
