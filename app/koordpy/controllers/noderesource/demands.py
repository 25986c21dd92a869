"""The demand on every node, computed when it is asked for and kept until a pod or the NodeMetric changes."""

from collections.abc import Collection, Iterable

from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.quantity import QuantityError
from koordpy.cluster.cluster import Cluster

from .demand import Demand, PodFacts, demand_of

_NO_METRIC = NodeMetric()


def by_node(pod: Pod) -> Iterable[str]:
    """Return the node that a pod is bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class Demands:
    """Demands by node. A pod is read once, when it comes or changes, so that one node's demand never costs
    more than the sums over its own pods.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._pods = cluster.store(Pod)
        self._by_node = self._pods.index(by_node)
        self._node_metrics = cluster.store(NodeMetric)
        self._facts: dict[str, dict[str, PodFacts]] = {}
        self._unread: dict[str, set[str]] = {}
        """Keys of pods that cannot be read, by node."""
        self._is_following = False
        self._known: dict[str, Demand] = {}

    def follow(self) -> None:
        """Follow pods and NodeMetrics."""
        self._is_following = True
        self._pods.subscribe(on_add=self._pod_added, on_update=self._pod_updated, on_delete=self._pod_deleted)
        self._node_metrics.subscribe(
            on_add=self._node_metric_changed,
            on_update=lambda _, new: self._node_metric_changed(new),
            on_delete=self._node_metric_changed,
        )

    def pods(self, node: str) -> list[Pod]:
        """Return the pods of a node."""
        return self._by_node.get(node)

    def of(self, node: str) -> Demand:
        """Return the demand on a node. Raises QuantityError."""
        known = self._known.get(node)
        if known is None:
            node_metric = self._node_metrics.get("", node) or _NO_METRIC
            known = self._known[node] = demand_of(self._facts_of(node), node_metric)
        return known

    def forget(self, node: str) -> None:
        """Forget a node's demand."""
        self._known.pop(node, None)

    def _facts_of(self, node: str) -> Collection[PodFacts]:
        if self._is_following and node not in self._unread:
            return self._facts.get(node, {}).values()
        return [PodFacts.of(pod) for pod in self._by_node.get(node)]

    def _pod_added(self, pod: Pod) -> None:
        node = pod.spec.node_name
        if not node:
            return
        try:
            facts = PodFacts.of(pod)
        except QuantityError:
            self._remove(node, pod.metadata.key)
            self._unread.setdefault(node, set()).add(pod.metadata.key)
            return
        pods = self._facts.setdefault(node, {})
        if pods.get(facts.key) != facts or node in self._unread:
            self._remove_unread(node, facts.key)
            pods[facts.key] = facts
            self.forget(node)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name != new.spec.node_name:
            self._pod_deleted(old)
        self._pod_added(new)

    def _pod_deleted(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._remove(pod.spec.node_name, pod.metadata.key)

    def _remove(self, node: str, key: str) -> None:
        self._remove_unread(node, key)
        pods = self._facts.get(node)
        if pods is not None:
            pods.pop(key, None)
            if not pods:
                del self._facts[node]
        self.forget(node)

    def _remove_unread(self, node: str, key: str) -> None:
        unread = self._unread.get(node)
        if unread is not None:
            unread.discard(key)
            if not unread:
                del self._unread[node]

    def _node_metric_changed(self, node_metric: NodeMetric) -> None:
        self.forget(node_metric.metadata.name)
