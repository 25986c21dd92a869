"""The metrics of the webhooks, with the names that Koordinator's dashboards use.

Source: Koordinator, `pkg/webhook/metrics`; controller-runtime, `pkg/webhook/internal/metrics`.
"""

from prometheus_client import Counter, Gauge, Histogram

HANDLER_DURATION = Histogram(
    "koord_manager_webhook_webhook_duration_milliseconds",
    "Time that one handler took for one request, in milliseconds.",
    ["webhook_type", "object_type", "operation", "plugin_name", "status"],
    buckets=[0.001 * 2**power for power in range(20)],
)
REQUESTS = Counter(
    "controller_runtime_webhook_requests", "Requests by path and HTTP status.", ["webhook", "code"]
)
IN_FLIGHT = Gauge(
    "controller_runtime_webhook_requests_in_flight", "Requests that are not answered yet.", ["webhook"]
)
LATENCY = Histogram(
    "controller_runtime_webhook_latency_seconds",
    "Time from a request's body to the body of its answer.",
    ["webhook"],
    buckets=[1e-8 * 10**power for power in range(12)],
)
PANICS = Counter(
    "controller_runtime_webhook_panics", "Requests that a handler failed at with an unexpected exception."
)
