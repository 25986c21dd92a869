"""CPU amounts as cgroup values (Koordinator, `pkg/koordlet/util/system/cgroup.go`)."""

import math

from koordpy.lib import int64

CFS_PERIOD_US = 100_000
MIN_QUOTA_US = 1000
MIN_SHARES = 2
MAX_SHARES = 262_144
UNLIMITED = -1


def shares(milli_cpu: int) -> int:
    """Return the CPU shares of a request in milli-CPU, within what the kernel accepts."""
    if milli_cpu <= 0:
        return MIN_SHARES
    return min(max(int64.quotient(int64.wrap(milli_cpu * 1024), 1000), MIN_SHARES), MAX_SHARES)


def quota(milli_cpu: int) -> int:
    """Return the CFS quota in microseconds of a limit in milli-CPU; -1 if there is no limit."""
    value = int64.quotient(int64.wrap(milli_cpu * CFS_PERIOD_US), 1000)
    return UNLIMITED if value <= 0 else max(value, MIN_QUOTA_US)


def scaled_quota(value: int, ratio: float) -> int:
    """Return a quota on a node whose CPUs are `ratio` times as fast; a ratio up to 1 changes nothing."""
    return math.ceil(value / ratio) if value > 0 and ratio > 1 else value
