"""Metrics of controllers, under the names that controller-runtime's dashboards use.

The metrics of their queues are in `koordpy.lib.queue_metrics`. Source: controller-runtime,
`pkg/internal/controller/metrics`; Koordinator, `pkg/util/metrics/koordmanager`.
"""

from prometheus_client import Counter, Gauge, Histogram

RECONCILES = Counter(
    "controller_runtime_reconcile",
    "Reconciliations by outcome: success, error, requeue_after.",
    ["controller", "result"],
)
RECONCILE_ERRORS = Counter(
    "controller_runtime_reconcile_errors", "Reconciliations that failed.", ["controller"]
)
RECONCILE_SECONDS = Histogram(
    "controller_runtime_reconcile_time_seconds", "Time of one reconciliation.", ["controller"]
)

IS_LEADER = Gauge("koordinator_manager_is_leader", "1 while this process runs the controllers.")
