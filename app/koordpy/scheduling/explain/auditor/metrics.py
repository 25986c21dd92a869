"""The metrics of the workload auditor, under Koordinator's names."""

from collections.abc import Sequence

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

_SECONDS = [0.1 * 2**power for power in range(15)]
_LONG_SECONDS = [0.1 * 2**power for power in range(20)]


class AuditorMetrics:
    """The metrics; all of them have `labels`."""

    def __init__(self, labels: Sequence[str], registry: CollectorRegistry = REGISTRY) -> None:
        def counter(name: str, what: str) -> Counter:
            return Counter(f"scheduler_workload_auditor_{name}", what, labels, registry=registry)

        def histogram(
            name: str, what: str, buckets: Sequence[float], names: Sequence[str] = labels
        ) -> Histogram:
            return Histogram(
                f"scheduler_workload_auditor_{name}", what, names, buckets=buckets, registry=registry
            )

        self.repeated_preemptions = counter(
            "repeated_preemptions_total", "Workloads that preempted more than once."
        )
        self.invalidations = counter("preemption_invalidations_total", "Preemptions that did not help.")
        self.victim_reschedule = histogram(
            "victim_reschedule_duration_seconds",
            "Time from the deletion of the last victim to the next scheduling result.",
            _SECONDS,
        )
        self.to_victim_deleted = histogram(
            "preemption_to_victim_deleted_seconds",
            "Time from the nomination to the deletion of the last victim.",
            _SECONDS,
        )
        self.cycle_interrupted = histogram(
            "preemption_cycle_interrupted_seconds",
            "Time from the nomination to the event that preceded the deletion of the last victim.",
            _SECONDS,
        )
        self.deleting_retries = histogram(
            "preemption_victim_deleting_retries",
            "Attempts per preemption that found victims still being deleted.",
            range(20),
        )
        self.events_before_outcome = histogram(
            "scheduling_events_before_outcome",
            "Events of a workload until its outcome, by type.",
            range(30),
            (*labels, "event_type", "outcome"),
        )
        self.event_interval = histogram(
            "scheduling_event_interval_seconds", "Time between two events of a workload.", _LONG_SECONDS
        )
        self.method_duration = histogram(
            "record_method_duration_seconds",
            "Time spent in the auditor.",
            [1e-6 * 4**power for power in range(10)],
            ("method",),
        )
