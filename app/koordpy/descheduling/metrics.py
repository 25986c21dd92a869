"""Metrics of the descheduler. The name and labels of the first are koord-descheduler's."""

from prometheus_client import Counter, Gauge, Histogram

# It only increases; the client library would add `_total` to the name of a Counter.
PODS_EVICTED = Gauge(
    "descheduler_pods_evicted",
    "Evictions, by result, strategy (plugin), namespace and node.",
    ["result", "strategy", "namespace", "node"],
)
PLUGIN_ERRORS = Counter(
    "koordpy_descheduler_plugin_errors_total",
    "Runs of descheduling plugins that ended with an error.",
    ["profile", "plugin", "point"],
)
ROUNDS = Counter(
    "koordpy_descheduler_rounds_total", "Descheduling cycles, by result: ok or error.", ["result"]
)
PROOFS = Counter(
    "koordpy_descheduler_proofs_total",
    "Evictions that had to be proved, by plugin and result: proved, unproved or recentlyMoved.",
    ["plugin", "result"],
)
LANDINGS = Counter(
    "koordpy_descheduler_landings_total",
    "Successors of pods whose eviction was proved, by node: proved (the named one or one as good), "
    "acceptable (another from which the plugin would not move the pod again) or other.",
    ["node"],
)
ROUND_SECONDS = Histogram(
    "koordpy_descheduler_round_duration_seconds",
    "Duration of descheduling cycles.",
    buckets=(0.01, 0.03, 0.1, 0.3, 1, 3, 10, 30, 100),
)
LAST_ROUND = Gauge(
    "koordpy_descheduler_last_round_timestamp_seconds",
    "When the last descheduling cycle of this process ended, in seconds since 1970; 0 before the first.",
)
INTERVAL = Gauge(
    "koordpy_descheduler_interval_seconds",
    "Seconds between the starts of two descheduling cycles; 0 without a descheduler or with a single cycle.",
)
CANDIDATES = Counter(
    "koordpy_descheduler_candidates_total",
    "Pods that plugins considered, by outcome: evicted, dryRun, limited, refused, unproved, recentlyMoved, "
    "filtered (by a filter plugin) or skipped (by the plugin itself).",
    ["plugin", "outcome"],
)
