"""Metrics of queues."""

from datetime import UTC, datetime

from prometheus_client import REGISTRY

from koordpy.lib.clock import FakeClock
from koordpy.lib.queue_metrics import QueueMetrics


def sample(queue: str, metric: str) -> float | None:
    return REGISTRY.get_sample_value(f"workqueue_{metric}", {"name": queue, "controller": queue})


def test_keys_are_counted_on_their_way_through_a_queue() -> None:
    clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
    metrics = QueueMetrics("way", clock.monotonic)
    metrics.add("a")
    metrics.add("b")
    metrics.add("a")
    assert (sample("way", "adds_total"), sample("way", "depth")) == (2, 2)
    clock.advance(2)
    metrics.begin("a")
    assert (sample("way", "depth"), sample("way", "queue_duration_seconds_sum")) == (1, 2)
    clock.advance(3)
    assert sample("way", "unfinished_work_seconds") == 3
    metrics.begin("b")
    clock.advance(1)
    assert sample("way", "unfinished_work_seconds") == 5
    assert sample("way", "longest_running_processor_seconds") == 4
    metrics.done("a")
    metrics.done("b")
    assert (sample("way", "work_duration_seconds_sum"), sample("way", "work_duration_seconds_count")) == (
        5,
        2,
    )
    assert sample("way", "longest_running_processor_seconds") == 0


def test_dropped_keys_leave_the_queue_and_retries_are_counted() -> None:
    metrics = QueueMetrics("drops", lambda: 0.0)
    metrics.add("a")
    metrics.drop("a")
    metrics.retry()
    assert (sample("drops", "depth"), sample("drops", "retries_total")) == (0, 1)
