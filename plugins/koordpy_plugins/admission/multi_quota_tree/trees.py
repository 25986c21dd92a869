"""Which quota tree a pod belongs to, and which nodes belong to the tree.

Source: Koordinator, `pkg/webhook/elasticquota/quota_topology.go` (`getQuotaInfo`) and
`apis/extension/elastic_quota.go`.
"""

from collections.abc import Iterable
from typing import Final

import msgspec

from koordpy.api import extension
from koordpy.api.koordinator import ElasticQuota, ElasticQuotaProfile
from koordpy.cluster.cluster import Cluster

_NAME: Final = "metadata.name"
_NAMESPACES: Final = "annotation.namespaces"
_TREE_ID: Final = "label.tree-id"


class QuotaTrees:
    """Quotas by name and by the namespaces that are bound to them; profiles by tree."""

    def __init__(self, cluster: Cluster) -> None:
        self._quotas = cluster.store(ElasticQuota)
        self._profiles = cluster.store(ElasticQuotaProfile)
        if not self._quotas.has_index(_NAME):
            self._quotas.add_index(_NAME, lambda quota: (quota.metadata.name,))
        if not self._quotas.has_index(_NAMESPACES):
            self._quotas.add_index(_NAMESPACES, bound_namespaces)
        if not self._profiles.has_index(_TREE_ID):
            self._profiles.add_index(_TREE_ID, lambda profile: (_tree_id(profile),))

    def tree_id(self, quota_name: str, namespace: str) -> str:
        """Return the tree of a quota, or of the quota that a namespace is bound to; empty for none.

        Of several quotas of a name (in different namespaces) the one that was seen last counts.
        """
        quotas = self._quotas.by_index(_NAME, quota_name) or self._quotas.by_index(_NAMESPACES, namespace)
        return _tree_id(quotas[-1]) if quotas else ""

    def profile(self, tree_id: str) -> ElasticQuotaProfile | None:
        """Return the profile of a tree: of several the first by namespace and name."""
        return min(
            self._profiles.by_index(_TREE_ID, tree_id),
            key=lambda profile: (profile.metadata.namespace, profile.metadata.name),
            default=None,
        )


def bound_namespaces(quota: ElasticQuota) -> Iterable[str]:
    """Return the namespaces that a quota's annotation binds to it; a malformed annotation binds none."""
    text = quota.metadata.annotations.get(extension.ANNOTATION_QUOTA_NAMESPACES, "")
    try:
        namespaces = msgspec.json.decode(text, type=list[str | None] | None) if text else None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return ()
    return {namespace or "" for namespace in namespaces or ()}


def _tree_id(quota: ElasticQuota | ElasticQuotaProfile) -> str:
    return quota.metadata.labels.get(extension.LABEL_QUOTA_TREE_ID, "")
