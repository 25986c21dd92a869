"""Which quota a pod belongs to.

Source: Koordinator, `pkg/webhook/elasticquota/pod_check.go` (`GetQuotaName`) and
`pkg/scheduler/plugins/elasticquota/plugin_helper.go` (`getPodAssociateQuotaName`).
"""

from collections.abc import Iterable, Mapping
from typing import Protocol

from koordpy.api import extension
from koordpy.api.koordinator import ElasticQuota

from .info import DEFAULT


class QuotasOfNamespaces(Protocol):
    """The quotas of namespaces."""

    def has_own(self, namespace: str) -> bool:
        """Return whether a namespace contains a quota of the same name."""
        ...

    def bound_to(self, namespace: str) -> Iterable[str]:
        """Return the names of the quotas whose annotation binds a namespace, the oldest first."""
        ...


def oldest_first(quotas: Iterable[ElasticQuota]) -> list[ElasticQuota]:
    """Return quotas by age; those of one second (or without timestamps) stay in the order that they have.

    Where a namespace is bound to several quotas, Koordinator takes the first of an unordered index, which is
    mostly the one that was bound first.
    """
    return sorted(quotas, key=lambda quota: quota.metadata.creation_timestamp or "")


def quota_name(
    labels: Mapping[str, str], namespace: str, quotas: QuotasOfNamespaces, *, label_only: bool = False
) -> str:
    """Return the quota of a pod: the one that its label names, its namespace's, or the default one.

    The label counts even if there is no such quota. If a namespace is bound to several quotas, the first of
    them counts. With `label_only` (the gate DisableDefaultQuota) a pod without label has none, "".
    """
    label = labels.get(extension.LABEL_QUOTA_NAME, "")
    if label or label_only:
        return label
    if quotas.has_own(namespace):
        return namespace
    return next(iter(quotas.bound_to(namespace)), DEFAULT)
