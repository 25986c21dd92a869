"""The metric of devices, with Koordinator's name."""

from prometheus_client import Gauge

NOT_WELL_PLANNED = Gauge(
    "scheduler_secondary_device_not_well_planned",
    "1 for nodes that do not have enough secondary devices near each of their GPUs.",
    ["node_name"],
)
