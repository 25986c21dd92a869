"""The CPU that best-effort pods may use (pkg/koordlet/qosmanager/plugins/cpusuppress)."""


def suppress_milli(
    capacity_milli: int,
    threshold_percent: int,
    min_percent: int | None,
    pods_used: float,
    applications_used: float,
    system_used: float,
) -> int:
    """Return the milli-cores left for best-effort pods; may be negative.

    `*_used` are cores of latency-sensitive pods, latency-sensitive host applications and the system.
    """
    left = capacity_milli * threshold_percent // 100
    left -= int(pods_used * 1000) + int(applications_used * 1000) + int(system_used * 1000)
    return left if min_percent is None else max(left, capacity_milli * min_percent // 100)
