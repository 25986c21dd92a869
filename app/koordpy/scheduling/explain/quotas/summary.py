"""What the plugin ElasticQuota answers about a quota at `/apis/v1/plugins/ElasticQuota/quotas`.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/core/quota_summary.go`.
"""

from typing import Final

from msgspec import Struct, field

from koordpy.api.quantity import WireQuantity

PLUGIN: Final = "ElasticQuota"

Amounts = dict[str, WireQuantity]


class PodSummary(Struct):
    """A pod of a quota: whether it has a node (or is reserved), and what it requests."""

    is_assigned: bool = field(default=False, name="isAssigned")
    resource: Amounts | None = None


class QuotaSummary(Struct, rename="camel"):
    """A quota as the plugin counts it. Amounts that are null have no entry."""

    name: str
    parent_name: str = ""
    is_parent: bool = False
    allow_lent_resource: bool = False
    tree: str = ""
    max: Amounts | None = None
    min: Amounts | None = None
    auto_scale_min: Amounts | None = None
    shared_weight: Amounts | None = None
    runtime: Amounts | None = None
    used: Amounts | None = None
    request: Amounts | None = None
    guaranteed: Amounts | None = None
    non_preemptible_used: Amounts | None = None
    pod_cache: dict[str, PodSummary] | None = None
