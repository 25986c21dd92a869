"""What the controllers of quotas write, beyond following quotas, nodes and pods."""

from typing import Final

from koordpy.api.needs import Right

_GROUP: Final = "scheduling.sigs.k8s.io"

RIGHTS: Final = (
    Right("create", "elasticquotas", _GROUP),
    Right("patch", "elasticquotas", _GROUP),
    Right("create", "pods/eviction"),
)
"""Pods are evicted where monitorAllQuotas is on."""
