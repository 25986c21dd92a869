"""Scheduling metrics, under kube-scheduler's and Koordinator's names."""

from functools import cache

from prometheus_client import Counter, Gauge

from koordpy.lib.buffered_histogram import BufferedHistograms, BulkHistogram

histogram = BufferedHistograms().series
"""Return one child of a histogram, to be observed on hot paths."""


@cache
def counter(family: Counter, *labels: str) -> Counter:
    """Return one child of a counter; the library's own lookup takes a lock."""
    return family.labels(*labels)


def _exponential(start: float, factor: float, count: int) -> list[float]:
    return [start * factor**i for i in range(count)]


PLUGIN_DURATION = BulkHistogram(
    "scheduler_plugin_execution_duration_seconds",
    "Time a plugin took at an extension point (a tenth of the attempts is measured).",
    ["plugin", "extension_point", "status"],
    buckets=_exponential(0.00001, 1.5, 20),
)
POINT_DURATION = BulkHistogram(
    "scheduler_framework_extension_point_duration_seconds",
    "Total time of all plugins of an extension point.",
    ["extension_point", "status", "profile"],
    buckets=_exponential(0.0001, 2, 12),
)
ATTEMPTS = Counter(
    "scheduler_schedule_attempts_total",
    "Attempts by result: scheduled, unschedulable, error.",
    ["result", "profile"],
)
ATTEMPT_DURATION = BulkHistogram(
    "scheduler_scheduling_attempt_duration_seconds",
    "Time from the filter call of an attempt to the end of its binding.",
    ["result", "profile"],
    buckets=_exponential(0.001, 2, 15),
)
EVALUATED_NODES = BulkHistogram(
    "scheduler_pod_scheduling_evaluated_nodes",
    "Nodes evaluated for a pod.",
    buckets=_exponential(1, 2, 24),
)
FEASIBLE_NODES = BulkHistogram(
    "scheduler_pod_scheduling_feasible_nodes",
    "Nodes found for a pod.",
    buckets=_exponential(1, 2, 24),
)
BATCH_ATTEMPTS = Counter(
    "scheduler_batch_attempts_total",
    "Pods identical to earlier ones, by whether the earlier results were used: hint_used, hint_not_used.",
    ["profile", "result"],
)
PREEMPTION_ATTEMPTS = Counter("scheduler_preemption_attempts_total", "Preemption attempts.")
PREEMPTION_VICTIMS = BulkHistogram(
    "scheduler_preemption_victims",
    "Pods evicted for one pod.",
    buckets=_exponential(1, 2, 7),
)
WAITING_PODS = Gauge(
    "koordpy_extender_waiting_pods", "Bind calls held open because a Permit plugin makes the pod wait."
)
JOB_PLANS = Counter(
    "koordpy_job_plans_total",
    "Plans of jobs, whose pods are placed together, by result: planned, unschedulable, error.",
    ["profile", "result"],
)
JOB_PLAN_DURATION = BulkHistogram(
    "koordpy_job_plan_duration_seconds",
    "Time to plan all pods of a job.",
    ["profile", "result"],
    buckets=_exponential(0.001, 2, 14),
)
PLANS_ENDED = Counter(
    "koordpy_job_plans_ended_total",
    "Plans of jobs by how they ended: bound, or released because of timeout, pod_gone, node_gone, "
    "contradicted, preempted, failed, lease_lost, shutdown.",
    ["reason"],
)
HELD_PODS = Gauge(
    "koordpy_job_held_pods", "Pods of planned jobs whose nodes are held and that are not being bound yet."
)
BATCH_DURATION = BulkHistogram(
    "scheduler_inline_batch_schedule_duration_seconds",
    "Time to bind all pods of a planned job at once, by result: success, partial, failure.",
    ["result"],
    buckets=_exponential(0.001, 2, 16),
)
BATCH_PARTIAL_JOBS = Counter(
    "scheduler_batch_partial_bind_jobs_total", "Jobs of which some pods were bound and others were not."
)
BATCH_PARTIAL_PODS = Counter(
    "scheduler_batch_partial_bind_pods_total", "Pods of such jobs: success, failure.", ["status"]
)
BATCH_BIND_FAILURES = Counter(
    "scheduler_batch_bind_failures_total",
    "Pods of planned jobs that could not be bound at once, by reason and phase as in Koordinator.",
    ["reason", "phase"],
)
ATTEMPTS_KEPT = Gauge(
    "koordpy_extender_attempts", "Attempts between filter and bind whose cycle state is kept."
)
PODS_WOKEN = Counter(
    "koordpy_pods_woken_total",
    "Pods that kube-scheduler was made to retry after a change that it does not see: woken, error.",
    ["result"],
)
GATED_PODS = Gauge("koordpy_gated_pods", "Pods that wait for a PreEnqueue plugin.", ["plugin"])
GATES_REMOVED = Counter(
    "koordpy_gates_removed_total",
    "Scheduling gates of PreEnqueue plugins, by result of their removal: removed, error.",
    ["plugin", "result"],
)
EXTENDER_DURATION = BulkHistogram(
    "koordpy_extender_request_duration_seconds",
    "Time to answer an extender call; for bind the time in Permit and on the network included.",
    ["verb", "result"],
    buckets=_exponential(0.0001, 2, 18),
)
SCHEDULING_TIMEOUT = Gauge(  # it only grows, but the library does not allow Koordinator's name for a counter
    "scheduler_scheduling_timeout", "Attempts that took too long, counted once per period.", ["profile"]
)
