"""Metrics of work queues, under client-go's names.

All queues share them, since a process registers a metric once. Source of names and buckets:
controller-runtime, `pkg/metrics/workqueue.go`.
"""

from collections.abc import Callable
from typing import Final

from prometheus_client import Counter, Gauge, Histogram

_LABELS: Final = ("name", "controller")
_SECONDS: Final = tuple(1e-8 * 10**power for power in range(12))

DEPTH = Gauge("workqueue_depth", "Keys that wait to be processed.", _LABELS)
ADDS = Counter("workqueue_adds", "Keys added.", _LABELS)
QUEUE_SECONDS = Histogram(
    "workqueue_queue_duration_seconds", "Time that a key waits in the queue.", _LABELS, buckets=_SECONDS
)
WORK_SECONDS = Histogram(
    "workqueue_work_duration_seconds", "Time spent processing a key.", _LABELS, buckets=_SECONDS
)
UNFINISHED_SECONDS = Gauge(
    "workqueue_unfinished_work_seconds", "Total time spent so far on keys in progress.", _LABELS
)
LONGEST_SECONDS = Gauge(
    "workqueue_longest_running_processor_seconds",
    "Time spent so far on the key that has been in progress longest.",
    _LABELS,
)
RETRIES = Counter("workqueue_retries", "Keys added with a delay.", _LABELS)


class QueueMetrics:
    """The metrics of one queue. A key is added, then begun, then done; `monotonic` returns seconds."""

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
        """Count a key that waits to be processed; one that already waits is counted once."""
        if key not in self._added:
            self._added[key] = self._monotonic()
            self._adds.inc()
            self._depth.set(len(self._added))

    def begin(self, key: str) -> None:
        """Count a key whose processing starts now."""
        now = self._monotonic()
        self._queued.observe(now - self._added.pop(key, now))
        self._begun[key] = now
        self._depth.set(len(self._added))

    def retry(self) -> None:
        """Count a retry."""
        self._retries.inc()

    def done(self, key: str) -> None:
        """Count the end of processing of a key."""
        now = self._monotonic()
        self._worked.observe(now - self._begun.pop(key, now))

    def drop(self, key: str) -> None:
        """Forget a key that will not be processed."""
        self._added.pop(key, None)
        self._depth.set(len(self._added))

    def _ages(self) -> list[float]:
        now = self._monotonic()
        return [now - begun for begun in self._begun.values()]
