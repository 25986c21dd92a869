"""How long preemption by jobs takes."""

from collections import OrderedDict
from typing import Final

from prometheus_client import Histogram

MOST_JOBS: Final = 200
"""The number of jobs with series; those that preempted least recently lose theirs."""

DURATION: Final = Histogram(
    "scheduler_job_preemption_duration_seconds",
    "Time of one preemption by a job, by job and result; of the jobs that preempted most recently.",
    ["jobName", "result"],
    buckets=[0.001 * 2**power for power in range(20)],
)

_results: OrderedDict[str, set[str]] = OrderedDict()


def observe_duration(job: str, result: str, seconds: float) -> None:
    """Observe one preemption. Names of jobs are of tenants, so that the number of series is bounded."""
    DURATION.labels(job, result).observe(seconds)
    _results.setdefault(job, set()).add(result)
    _results.move_to_end(job)
    while len(_results) > MOST_JOBS:
        gone, results = _results.popitem(last=False)
        for each in results:
            DURATION.remove(gone, each)
