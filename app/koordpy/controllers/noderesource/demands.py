"""The demand on every node, computed when it is asked for and kept until a pod or the NodeMetric changes."""

from collections.abc import Iterable

from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.cluster.cluster import Cluster

from .demand import Demand, PodFacts, demand_of

_NO_METRIC = NodeMetric()


def by_node(pod: Pod) -> Iterable[str]:
    """Return the node that a pod is bound to."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class Demands:
    """Demands by node. Pods are indexed by node, so one node's never costs more than its own pods."""

    def __init__(self, cluster: Cluster) -> None:
        self._pods = cluster.store(Pod)
        self._by_node = self._pods.index(by_node)
        self._node_metrics = cluster.store(NodeMetric)
        self._facts: dict[str, PodFacts] = {}
        self._known: dict[str, Demand] = {}

    def follow(self) -> None:
        """Follow pods and NodeMetrics."""
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
            facts = [self._facts_of(pod) for pod in self._by_node.get(node)]
            known = self._known[node] = demand_of(facts, self._node_metrics.get("", node) or _NO_METRIC)
        return known

    def forget(self, node: str) -> None:
        """Forget a node's demand."""
        self._known.pop(node, None)

    def _facts_of(self, pod: Pod) -> PodFacts:
        key = pod.metadata.key
        facts = self._facts.get(key)
        if facts is None:
            facts = self._facts[key] = PodFacts.of(pod)
        return facts

    def _pod_added(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self.forget(pod.spec.node_name)

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        known = self._facts.pop(new.metadata.key, None)
        node = new.spec.node_name
        if node and (known is None or old.spec.node_name != node or self._facts_of(new) != known):
            self.forget(node)

    def _pod_deleted(self, pod: Pod) -> None:
        self._facts.pop(pod.metadata.key, None)
        self.forget(pod.spec.node_name)

    def _node_metric_changed(self, node_metric: NodeMetric) -> None:
        self.forget(node_metric.metadata.name)
