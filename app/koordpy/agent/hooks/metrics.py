"""Durations of runtime hooks, with koordlet's names (`pkg/koordlet/metrics/runtime_hook.go`)."""

from collections.abc import Iterator
from contextlib import contextmanager
from time import perf_counter

from prometheus_client import Histogram

_BUCKETS = tuple(0.01 * 4**exponent for exponent in range(8))

INVOKED = Histogram(
    "koordlet_runtime_hook_invoked_duration_milliseconds",
    "Time of calls of runtime hooks at stages of the container runtime.",
    ["node", "hook", "stage", "status"],
    buckets=_BUCKETS,
)
RECONCILER_INVOKED = Histogram(
    "koordlet_runtime_hook_reconciler_invoked_duration_milliseconds",
    "Time of calls of reconcilers of runtime hooks.",
    ["node", "level", "resource_type", "status"],
    buckets=_BUCKETS,
)


@contextmanager
def measured(histogram: Histogram, *labels: str) -> Iterator[None]:
    """Observe how long a block takes, and whether it fails."""
    started, status = perf_counter(), "failed"
    try:
        yield
        status = "succeeded"
    finally:
        histogram.labels(*labels, status).observe((perf_counter() - started) * 1000)
