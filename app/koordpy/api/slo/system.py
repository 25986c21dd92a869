"""Settings of a node's kernel, and the bandwidth of its network.

Source: Koordinator, `apis/slo/v1alpha1/nodeslo_types.go` (`SystemStrategy`).
"""

from typing import Annotated, Final

import msgspec

from .rules import AtMost, Flag, GreaterThan, Int64, WireQuantity
from .strategy import Strategy


class SystemStrategy(Strategy, frozen=True):
    """Kernel settings; None leaves a setting unchanged.

    `total_network_bandwidth` is not a pointer in Go: it is always written, so a strategy that sets any field
    also sets this one, to 0 if it does not name it.
    """

    min_free_kbytes_factor: Annotated[Int64, GreaterThan(0)] | None = None
    watermark_scale_factor: Annotated[Int64, GreaterThan(0), AtMost(400)] | None = None
    memcg_reap_back_ground: Flag | None = None
    sched_group_identity_enabled: Int64 | None = None
    sched_idle_saver_wmark: Int64 | None = None
    page_cache_limit_enabled: Flag | None = None
    sched_features: dict[str, bool] = {}
    total_network_bandwidth: WireQuantity = msgspec.field(default_factory=lambda: "0")


CLUSTER_DEFAULT: Final = SystemStrategy()
"""The defaults of the cluster's configuration."""

DEFAULT: Final = SystemStrategy(
    min_free_kbytes_factor=100, watermark_scale_factor=150, memcg_reap_back_ground=0
)
"""The defaults of a node for an empty NodeSLO."""
