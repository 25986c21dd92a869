"""The pods of a quota, by label or by namespace; they prevent changes of it.

Source: Koordinator, `pkg/webhook/elasticquota/quota_topology.go`.
"""

from collections.abc import Iterable

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster


class QuotaPods:
    """Pods by their quota label and by namespace."""

    def __init__(self, cluster: Cluster) -> None:
        pods = cluster.store(Pod)
        self._by_quota, self._by_namespace = pods.index(_quota_names), pods.index(_namespace)

    def labelled(self, quota_name: str) -> list[str]:
        """Return the names of the pods whose label names a quota."""
        return [pod.metadata.name for pod in self._by_quota.get(quota_name)]

    def in_namespace(self, namespace: str) -> bool:
        """Return whether a namespace has pods."""
        return bool(self._by_namespace.get(namespace))

    def of(self, quota_names: Iterable[str], namespaces: Iterable[str]) -> dict[str, Pod]:
        """Return the pods whose labels name one of the quotas, or whose namespace is one of these, by key."""
        found = [self._by_quota.get(name) for name in quota_names]
        found += [self._by_namespace.get(namespace) for namespace in namespaces]
        return {pod.metadata.key: pod for pods in found for pod in pods}


def _quota_names(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.labels.get(extension.LABEL_QUOTA_NAME)
    return (name,) if name else ()


def _namespace(pod: Pod) -> tuple[str]:
    return (pod.metadata.namespace,)
