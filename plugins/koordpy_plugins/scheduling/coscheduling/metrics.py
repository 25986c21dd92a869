"""The metrics of gangs, with Koordinator's names. Source: Koordinator, `pkg/scheduler/metrics`."""

from prometheus_client import Gauge, Histogram

WAITING_GANG_GROUPS = Gauge(
    "scheduler_waiting_gang_group_number", "Groups of gangs with pods that wait in Permit."
)
NEXT_POD_LATENCY = Histogram(
    "scheduler_next_pod_delete_from_queue_latency",
    "Seconds it takes to choose the next pod of the gang that is being scheduled.",
    buckets=[0.00001 * 2**i for i in range(24)],
)
CYCLE_SECONDS = Histogram(
    "scheduler_gang_schedule_cycle_duration_seconds",
    "Time from the first pod of a group of gangs until its round ends, by the reason for the end.",
    ["reason", "job_size"],
    buckets=[0.1, 0.5, 1, 2, 3, 5, 7.5, 10, 12.5, 15, 20, 25, 30, 45, 60, 120],
)


def job_size(pods: int) -> str:
    """Return the label of a number of pods: `0`, `1-100`, `101-200` ... `901-1000`, `1000+`."""
    if pods <= 0:
        return "0"
    if pods > 1000:
        return "1000+"
    last = -(-pods // 100) * 100
    return f"{last - 99}-{last}"
