"""How far containers may temporarily exceed their CPU limit.

Source: Koordinator, `apis/slo/v1alpha1/nodeslo_types.go` (`CPUBurstStrategy`).
"""

from typing import Annotated, Final

from .rules import AtLeast, AtMost, Int64, Percent
from .strategy import Strategy


class CPUBurstConfig(Strategy, frozen=True):
    """Settings that pods can override by the annotation `koordinator.sh/cpuBurst`."""

    policy: str = ""
    cpu_burst_percent: Annotated[Int64, AtLeast(1), AtMost(10000)] | None = None
    cfs_quota_burst_percent: Annotated[Int64, AtLeast(100)] | None = None
    cfs_quota_burst_period_seconds: Annotated[Int64, AtLeast(-1)] | None = None


class CPUBurstStrategy(CPUBurstConfig, frozen=True):
    """The strategy of a node. Above the share pool's threshold no quota is increased."""

    share_pool_threshold_percent: Percent | None = None


DEFAULT: Final = CPUBurstStrategy(
    policy="none",
    cpu_burst_percent=1000,
    cfs_quota_burst_percent=300,
    cfs_quota_burst_period_seconds=-1,
    share_pool_threshold_percent=50,
)
