"""The CFS quota and the number of CPUs of a round. Pure functions.

Rules: Koordinator, pkg/koordlet/qosmanager/plugins/cpusuppress (adjustByCfsQuota).
"""

import math

CFS_PERIOD_US = 100_000
MIN_QUOTA_US = 2000
UNLIMITED = -1


def next_quota(suppress: int, current: int, capacity_cores: int) -> int | None:
    """Return the CFS quota to write, None to change nothing.

    Differences below 1 % of the node are not written (except for the minimum); growth is limited to 10 % of
    the node per round, except from "unlimited".
    """
    whole = capacity_cores * CFS_PERIOD_US
    wanted = max(suppress * CFS_PERIOD_US // 1000, MIN_QUOTA_US)
    if abs(wanted - current) < whole * 0.01 and wanted != MIN_QUOTA_US:
        return None
    if wanted - current > whole * 0.1 and current != UNLIMITED:
        return current + int(whole * 0.1)
    return wanted


def step_limited(cpus: int, current: int, processors: int) -> int:
    """Return the number of CPUs after a round: growth is limited to a tenth of all processors."""
    step = math.ceil(processors * 0.1)
    return current + step if cpus - current > step else cpus
