"""Settings of a node's kernel, and the bandwidth of its network.

Source: Koordinator, `apis/slo/v1alpha1/nodeslo_types.go` (`SystemStrategy`).
"""

from typing import Annotated, Final

import msgspec

from .rules import AtMost, Flag, GreaterThan, Int64, WireQuantity
from .strategy import Strategy


class SystemStrategy(Strategy, frozen=True):
    """Kernel settings; None leaves one as it is.

    `total_network_bandwidth` is no pointer in Go: it is written always, so a strategy that sets any field
    sets this one too, to 0 where it does not name it.
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
"""What the cluster's configuration begins with."""

DEFAULT: Final = SystemStrategy(
    min_free_kbytes_factor=100, watermark_scale_factor=150, memcg_reap_back_ground=0
)
"""What holds on a node whose NodeSLO says nothing."""
