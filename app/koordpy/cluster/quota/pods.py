"""The pods of a quota, as far as they keep it from being changed.

Source: Koordinator, `pkg/webhook/elasticquota/quota_topology.go`.
"""

from typing import Final

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.cluster.cluster import Cluster

_QUOTA: Final = "label.quota-name"
_NAMESPACE: Final = "metadata.namespace"


class QuotaPods:
    """Pods by their quota label and by namespace."""

    def __init__(self, cluster: Cluster) -> None:
        self._pods = cluster.store(Pod)
        if not self._pods.has_index(_QUOTA):
            self._pods.add_index(_QUOTA, _quota_names)
        if not self._pods.has_index(_NAMESPACE):
            self._pods.add_index(_NAMESPACE, lambda pod: (pod.metadata.namespace,))

    def labelled(self, quota_name: str) -> list[str]:
        """Return the names of the pods whose label names a quota."""
        return [pod.metadata.name for pod in self._pods.by_index(_QUOTA, quota_name)]

    def in_namespace(self, namespace: str) -> bool:
        """Return whether a namespace has pods."""
        return bool(self._pods.by_index(_NAMESPACE, namespace))


def _quota_names(pod: Pod) -> tuple[str, ...]:
    name = pod.metadata.labels.get(extension.LABEL_QUOTA_NAME)
    return (name,) if name else ()
