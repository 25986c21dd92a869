"""Which quota a pod counts against.

Source: Koordinator, `pkg/webhook/elasticquota/pod_check.go` (`GetQuotaName`).
"""

from collections.abc import Mapping
from typing import Final

from koordpy.admission.handler import Handle
from koordpy.api import extension
from koordpy.api.koordinator import ElasticQuota

from .info import DEFAULT, bound_namespaces

_NAMESPACES: Final = "annotation.namespaces"


class QuotaMembership:
    """The quotas of pods, by label, by namespace, or the default one."""

    def __init__(self, handle: Handle) -> None:
        self._label_only = handle.gates.enabled("DisableDefaultQuota")
        self._quotas = handle.cluster.store(ElasticQuota)
        if not self._quotas.has_index(_NAMESPACES):
            self._quotas.add_index(_NAMESPACES, bound_namespaces)

    def name_of(self, labels: Mapping[str, str], namespace: str) -> str:
        """Return the name of the quota of a pod; empty only where there is no default quota.

        Of several quotas that a namespace is bound to, the first by name counts.
        """
        label = labels.get(extension.LABEL_QUOTA_NAME, "")
        if label or self._label_only:
            return label
        if self._quotas.get(namespace, namespace) is not None:
            return namespace
        bound = self._quotas.by_index(_NAMESPACES, namespace)
        return min((quota.metadata.name for quota in bound), default=DEFAULT)
