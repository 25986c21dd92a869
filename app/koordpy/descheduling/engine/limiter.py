"""How many pods one cycle may evict: per node, per namespace and in total.

The counts belong to the whole descheduler, not to a profile, and start from zero in each cycle. Source:
Koordinator, `pkg/descheduler/evictions/eviction_limiter.go`.
"""

from collections import Counter
from dataclasses import dataclass

from koordpy.api.core import Pod


@dataclass(frozen=True)
class Limit:
    """A limit that is reached: the reason, and the `result` by which descheduler_pods_evicted counts it."""

    reason: str
    result: str


class EvictionLimiter:
    """Counts of evictions against limits; None means unlimited, 0 that nothing may be evicted."""

    def __init__(
        self, per_node: int | None = None, per_namespace: int | None = None, total: int | None = None
    ) -> None:
        self.per_node, self.per_namespace, self.total = per_node, per_namespace, total
        self._nodes: Counter[str] = Counter()
        self._namespaces: Counter[str] = Counter()
        self._total = 0

    def exceeded(self, pod: Pod) -> Limit | None:
        """Return the limit that one more eviction would exceed, or None."""
        node, namespace = pod.spec.node_name, pod.metadata.namespace
        if node and self.per_node is not None and self._nodes[node] + 1 > self.per_node:
            return Limit(
                f"maxNoOfPodsToEvictPerNode={self.per_node} is reached on node {node}",
                "maximum number of pods per node reached",
            )
        if self.per_namespace is not None and self._namespaces[namespace] + 1 > self.per_namespace:
            return Limit(
                f"maxNoOfPodsToEvictPerNamespace={self.per_namespace} is reached in namespace {namespace}",
                "maximum number of pods per namespace reached",
            )
        if self.total is not None and self._total + 1 > self.total:
            return Limit(
                f"maxNoOfPodsToEvictTotal={self.total} is reached", "maximum number of pods in total reached"
            )
        return None

    def refusal(self, pod: Pod) -> str | None:
        """Return why one more eviction would exceed a limit, or None."""
        limit = self.exceeded(pod)
        return None if limit is None else limit.reason

    def allow_evict(self, pod: Pod) -> bool:
        """Return whether one more eviction is within all limits. Nothing is counted."""
        return self.refusal(pod) is None

    def done(self, pod: Pod) -> None:
        """Count an eviction."""
        if pod.spec.node_name:
            self._nodes[pod.spec.node_name] += 1
        self._namespaces[pod.metadata.namespace] += 1
        self._total += 1

    def reset(self) -> None:
        """Start a cycle."""
        self._nodes.clear()
        self._namespaces.clear()
        self._total = 0

    def node_limit_exceeded(self, node_name: str) -> bool:
        """Return whether a node's count stands exactly at the limit (past it, this is false again)."""
        return self.per_node is not None and self._nodes[node_name] == self.per_node

    def namespace_limit_exceeded(self, namespace: str) -> bool:
        """Return whether a namespace's count stands exactly at the limit (past it, this is false again)."""
        return self.per_namespace is not None and self._namespaces[namespace] == self.per_namespace

    def node_evicted(self, node_name: str) -> int:
        """Return how many pods of a node were evicted in this cycle."""
        return self._nodes[node_name]

    def namespace_evicted(self, namespace: str) -> int:
        """Return how many pods of a namespace were evicted in this cycle."""
        return self._namespaces[namespace]

    @property
    def total_evicted(self) -> int:
        """How many pods were evicted in this cycle."""
        return self._total
