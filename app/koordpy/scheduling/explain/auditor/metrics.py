"""What the workload auditor measures, under Koordinator's names."""

from collections.abc import Sequence

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Histogram

_SECONDS = [0.1 * 2**power for power in range(15)]
_LONG_SECONDS = [0.1 * 2**power for power in range(20)]


class AuditorMetrics:
    """The series; `labels` are those that every one has."""

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
            "repeated_preemptions_total", "Workloads for which room was made more than once."
        )
        self.invalidations = counter("preemption_invalidations_total", "Room that was made for nothing.")
        self.victim_reschedule = histogram(
            "victim_reschedule_duration_seconds",
            "From the deletion of the last victim to the next result of scheduling.",
            _SECONDS,
        )
        self.to_victim_deleted = histogram(
            "preemption_to_victim_deleted_seconds",
            "From the nomination to the deletion of the last victim.",
            _SECONDS,
        )
        self.cycle_interrupted = histogram(
            "preemption_cycle_interrupted_seconds",
            "From the nomination to whatever came before the deletion of the last victim.",
            _SECONDS,
        )
        self.deleting_retries = histogram(
            "preemption_victim_deleting_retries",
            "Attempts that found victims still being deleted, by preemption.",
            range(20),
        )
        self.events_before_outcome = histogram(
            "scheduling_events_before_outcome",
            "Events of a workload until its outcome, by type.",
            range(30),
            (*labels, "event_type", "outcome"),
        )
        self.event_interval = histogram(
            "scheduling_event_interval_seconds", "Between two events of a workload.", _LONG_SECONDS
        )
        self.method_duration = histogram(
            "record_method_duration_seconds",
            "Time that the auditor takes.",
            [1e-6 * 4**power for power in range(10)],
            ("method",),
        )
