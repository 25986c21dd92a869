"""The quota tree that all handlers of quotas and pods have in common."""

from typing import Final

from koordpy.cluster.quota.topology import QuotaTopology

from .handler import Handle

VALIDATING_PATH: Final = "/validate-scheduling-sigs-k8s-io-v1alpha1-elasticquota"
"""The webhook path whose requests change the tree."""


def quota_tree(handle: Handle) -> QuotaTopology:
    """Return the one tree that handlers share; it follows the cluster's ElasticQuotas."""
    return handle.share(QuotaTopology, lambda: QuotaTopology.of(handle.cluster))
