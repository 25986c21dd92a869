"""The pods of a quota that prevent changes of it.

Source: Koordinator, `pkg/webhook/elasticquota/quota_topology.go`.
"""

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


def _quota_names(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.labels.get(extension.LABEL_QUOTA_NAME)
    return (name,) if name else ()


def _namespace(pod: Pod) -> tuple[str]:
    return (pod.metadata.namespace,)
