"""What is measured of queues of work, under the names that client-go's work queues gave to their metrics.

All queues count here, since a process registers a metric once. Source of names and buckets:
controller-runtime, `pkg/metrics/workqueue.go`.
"""

from collections.abc import Callable
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_LABELS: Final = ("name", "controller")
_SECONDS: Final = tuple(1e-8 * 10**power for power in range(12))

DEPTH = Gauge("workqueue_depth", "Keys that wait to be worked on.", _LABELS)
ADDS = Counter("workqueue_adds", "Keys added.", _LABELS)
QUEUE_SECONDS = Histogram(
    "workqueue_queue_duration_seconds", "Time that a key waits.", _LABELS, buckets=_SECONDS
)
WORK_SECONDS = Histogram(
    "workqueue_work_duration_seconds", "Time that working on a key takes.", _LABELS, buckets=_SECONDS
)
UNFINISHED_SECONDS = Gauge(
    "workqueue_unfinished_work_seconds", "Time spent on keys in work, all together.", _LABELS
)
LONGEST_SECONDS = Gauge(
    "workqueue_longest_running_processor_seconds", "Time spent on the key that is longest in work.", _LABELS
)
RETRIES = Counter("workqueue_retries", "Keys added to be worked on later.", _LABELS)


class QueueMetrics:
    """The metrics of one queue. A key is added, later begun, later done; `monotonic` gives seconds."""

    def __init__(self, name: str, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._added: dict[str, float] = {}
        self._begun: dict[str, float] = {}
        labels = (name, name)
        self._depth, self._adds = DEPTH.labels(*labels), ADDS.labels(*labels)
        self._queued, self._worked = QUEUE_SECONDS.labels(*labels), WORK_SECONDS.labels(*labels)
        self._retries = RETRIES.labels(*labels)
        UNFINISHED_SECONDS.labels(*labels).set_function(lambda: sum(self._ages()))
        LONGEST_SECONDS.labels(*labels).set_function(lambda: max(self._ages(), default=0.0))

    def add(self, key: str) -> None:
        """Count a key that waits to be worked on; one that waits already is counted once."""
        if key not in self._added:
            self._added[key] = self._monotonic()
            self._adds.inc()
            self._depth.set(len(self._added))

    def begin(self, key: str) -> None:
        """Count a key that is worked on from now."""
        now = self._monotonic()
        self._queued.observe(now - self._added.pop(key, now))
        self._begun[key] = now
        self._depth.set(len(self._added))

    def retry(self) -> None:
        """Count work that is done again because it failed."""
        self._retries.inc()

    def done(self, key: str) -> None:
        """Count the end of the work on a key."""
        now = self._monotonic()
        self._worked.observe(now - self._begun.pop(key, now))

    def drop(self, key: str) -> None:
        """Forget a key that will not be worked on."""
        self._added.pop(key, None)
        self._depth.set(len(self._added))

    def _ages(self) -> list[float]:
        now = self._monotonic()
        return [now - begun for begun in self._begun.values()]
