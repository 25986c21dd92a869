"""Which quota a pod belongs to, by the existing ElasticQuotas."""

from collections.abc import Iterable, Mapping

from koordpy.api.koordinator import ElasticQuota
from koordpy.api.quota.info import bound_namespaces
from koordpy.api.quota.membership import oldest_first, quota_name
from koordpy.cluster.cluster import Cluster


class QuotaMembership:
    """The quotas of pods, by label, by namespace, or the default one.

    With `label_only` (the gate DisableDefaultQuota) only labels count.
    """

    def __init__(self, cluster: Cluster, *, label_only: bool) -> None:
        self._label_only = label_only
        self._quotas = cluster.store(ElasticQuota)
        self._by_namespace = self._quotas.index(bound_namespaces)

    def name_of(self, labels: Mapping[str, str], namespace: str) -> str:
        """Return the name of the quota of a pod; empty only if labels alone count."""
        return quota_name(labels, namespace, self, label_only=self._label_only)

    def has_own(self, namespace: str) -> bool:
        """Return whether a namespace contains a quota of the same name."""
        return self._quotas.get(namespace, namespace) is not None

    def bound_to(self, namespace: str) -> Iterable[str]:
        """Return the names of the quotas whose annotation binds a namespace, the oldest first."""
        bound = self._by_namespace.get(namespace)
        return (quota.metadata.name for quota in (bound if len(bound) < 2 else oldest_first(bound)))
