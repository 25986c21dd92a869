"""How long the accounting of quotas takes. Source: Koordinator, `pkg/scheduler/metrics`."""

import time
from collections.abc import Callable
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

from prometheus_client import Counter, Histogram

from koordpy.lib.buffered_histogram import BufferedHistograms, BulkHistogram

P = ParamSpec("P")
R = TypeVar("R")
S = TypeVar("S")

_buffered = BufferedHistograms()

PROCESS_LATENCY = BulkHistogram(
    "scheduler_elastic_quota_process_latency",
    "Time of operations on a quota tree, in seconds.",
    ["operation"],
    buckets=[1e-5 * 2**n for n in range(24)],
)
HOOK_LATENCY = Histogram(
    "scheduler_elastic_quota_hook_plugin_latency",
    "Time of calls of hook plugins of quotas, in seconds.",
    ["plugin", "operation"],
    buckets=[1e-6 * 2**n for n in range(24)],
)
HOOK_FAILURES = Counter(
    "koordpy_quota_hook_plugin_failures_total",
    "Calls of hook plugins of quotas that raised.",
    ["plugin", "operation"],
)


def measured(
    operation: str,
) -> Callable[[Callable[Concatenate[S, P], R]], Callable[Concatenate[S, P], R]]:
    """Measure a method as an operation."""
    observe = _buffered.series(PROCESS_LATENCY, operation).observe

    def decorate(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
        @wraps(method)
        def call(owner: S, /, *args: P.args, **kwargs: P.kwargs) -> R:
            began = time.perf_counter()
            try:
                return method(owner, *args, **kwargs)
            finally:
                observe(time.perf_counter() - began)

        return call

    return decorate
