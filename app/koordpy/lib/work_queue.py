"""What is measured of a queue of work, under the names that client-go's work queues gave to their metrics.

Source of names and buckets: controller-runtime, `pkg/metrics/workqueue.go`.
"""

from collections.abc import Callable
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_SECONDS: Final = tuple(1e-8 * 10**power for power in range(12))

DEPTH = Gauge("workqueue_depth", "Current depth of workqueue.", ["name"])
ADDS = Counter("workqueue_adds", "Total number of adds handled by workqueue.", ["name"])
QUEUE_DURATION = Histogram(
    "workqueue_queue_duration_seconds",
    "How long in seconds an item stays in workqueue before being requested.",
    ["name"],
    buckets=_SECONDS,
)
WORK_DURATION = Histogram(
    "workqueue_work_duration_seconds",
    "How long in seconds processing an item from workqueue takes.",
    ["name"],
    buckets=_SECONDS,
)
UNFINISHED = Gauge(
    "workqueue_unfinished_work_seconds",
    "How many seconds of work has been done that is in progress and hasn't been observed by work_duration.",
    ["name"],
)
LONGEST = Gauge(
    "workqueue_longest_running_processor_seconds",
    "How many seconds has the longest running processor for workqueue been running.",
    ["name"],
)
RETRIES = Counter("workqueue_retries", "Total number of retries handled by workqueue.", ["name"])


class QueueMetrics:
    """The metrics of one queue. An item is added, later begun, later done; `monotonic` gives seconds."""

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._added: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        self._depth, self._adds = DEPTH.labels(name), ADDS.labels(name)
        self._queued, self._worked = QUEUE_DURATION.labels(name), WORK_DURATION.labels(name)
        self._retries = RETRIES.labels(name)
        UNFINISHED.labels(name).set_function(lambda: sum(self._ages()))
        LONGEST.labels(name).set_function(lambda: max(self._ages(), default=0.0))

    def add(self, item: str) -> None:
        """Count an item that waits to be worked on; one that waits already is counted once."""
        if item not in self._added:
            self._added[item] = self._monotonic()
            self._adds.inc()
            self._depth.set(len(self._added))

    def retry(self) -> None:
        """Count a piece of work that is done again because it failed."""
        self._retries.inc()

    def begin(self, item: str) -> None:
        """Count an item that is worked on from now."""
        now = self._monotonic()
        self._queued.observe(now - self._added.pop(item, now))
        self._begun[item] = now
        self._depth.set(len(self._added))

    def done(self, item: str) -> None:
        """Count the end of the work on an item."""
        now = self._monotonic()
        self._worked.observe(now - self._begun.pop(item, now))

    def drop(self, item: str) -> None:
        """Forget an item that nobody will work on."""
        self._added.pop(item, None)
        self._depth.set(len(self._added))

    def _ages(self) -> list[float]:
        now = self._monotonic()
        return [now - begun for begun in self._begun.values()]
