"""The kinds of series that Koordinator's collectors produce (pkg/koordlet/metriccache).

Their retention covers the longest window that is queried with the default settings: NodeMetric's aggregated
usages of a node look back 30 minutes, its usages of pods and host applications 5 minutes, and strategies ask
for the last seconds of containers. Longer windows in NodeMetric and NodeSLO make a kind be kept longer.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import Final

from .metrics import MetricKind

_NODE: Final = timedelta(minutes=31)
"""Series of the node: the longest of NodeMetric's default durations, and a report that is late."""

_POD: Final = timedelta(seconds=330)
"""Series of pods and host applications: NodeMetric's default duration, and a report that is late."""

_CONTAINER: Final = timedelta(minutes=2)
"""Series of containers: strategies look at seconds, and slow collectors measure once a minute."""


def _kinds() -> Iterator[MetricKind]:
    yield MetricKind("node_cpu_usage", (), "cores", _NODE)
    yield MetricKind("sys_cpu_usage", (), "cores", _NODE)
    yield MetricKind("node_memory_usage", (), "bytes", _NODE)
    yield MetricKind("node_memory_usage_with_page_cache", (), "bytes", _NODE)
    yield MetricKind("node_memory_with_hot_page_usage", (), "bytes", _NODE)
    yield MetricKind("node_memory_cold_page_size", (), "bytes", _NODE)
    yield MetricKind("sys_memory_usage", (), "bytes", _NODE)
    yield MetricKind("node_numa_cpu_usage", ("numa_node_id",), "cores", _NODE)
    yield MetricKind("sys_numa_cpu_usage", ("numa_node_id",), "cores", _NODE)
    yield MetricKind("node_numa_memory_usage", ("numa_node_id",), "bytes", _NODE)
    yield MetricKind("sys_numa_memory_usage", ("numa_node_id",), "bytes", _NODE)
    yield MetricKind("node_be", ("be_resource", "be_allocation"), "milli-cores", _NODE)
    yield MetricKind("node_gpu_core_usage", ("gpu_minor", "gpu_device_uuid"), "percent", _NODE)
    yield MetricKind("node_gpu_memory_usage", ("gpu_minor", "gpu_device_uuid"), "bytes", _NODE)
    yield MetricKind("node_gpu_memory_total", ("gpu_minor", "gpu_device_uuid"), "bytes", _NODE)
    yield MetricKind("pod_cpu_usage", ("pod_uid",), "cores", _POD)
    yield MetricKind("pod_memory_usage", ("pod_uid",), "bytes", _POD)
    yield MetricKind("pod_memory_usage_with_page_cache", ("pod_uid",), "bytes", _POD)
    yield MetricKind("pod_memory_with_hot_page_usage", ("pod_uid",), "bytes", _POD)
    yield MetricKind("pod_memory_cold_page_size", ("pod_uid",), "bytes", _POD)
    yield MetricKind("pod_cpu_throttled", ("pod_uid",), "ratio", _POD)
    yield MetricKind("pod_gpu_core_usage", ("pod_uid", "gpu_minor", "gpu_device_uuid"), "percent", _POD)
    yield MetricKind("pod_gpu_memory_usage", ("pod_uid", "gpu_minor", "gpu_device_uuid"), "bytes", _POD)
    yield MetricKind("container_cpu_usage", ("container_id",), "cores", _CONTAINER)
    yield MetricKind("container_memory_usage", ("container_id",), "bytes", _CONTAINER)
    yield MetricKind("container_memory_usage_with_page_cache", ("container_id",), "bytes", _CONTAINER)
    yield MetricKind("container_memory_with_hot_page_usage", ("container_id",), "bytes", _CONTAINER)
    yield MetricKind("container_memory_cold_page_size", ("container_id",), "bytes", _CONTAINER)
    yield MetricKind("container_cpu_throttled", ("container_id",), "ratio", _CONTAINER)
    yield MetricKind(
        "container_gpu_core_usage", ("container_id", "gpu_minor", "gpu_device_uuid"), "percent", _CONTAINER
    )
    yield MetricKind(
        "container_gpu_memory_usage", ("container_id", "gpu_minor", "gpu_device_uuid"), "bytes", _CONTAINER
    )
    yield MetricKind("host_application_cpu_usage", ("host_app_name",), "cores", _POD)
    yield MetricKind("host_application_memory_usage", ("host_app_name",), "bytes", _POD)
    yield MetricKind("host_application_memory_usage_with_page_cache", ("host_app_name",), "bytes", _POD)
    yield MetricKind("host_application_memory_with_hot_page_usage", ("host_app_name",), "bytes", _POD)
    yield MetricKind("host_application_memory_cold_page_size", ("host_app_name",), "bytes", _POD)
    yield MetricKind("container_cpi", ("pod_uid", "container_id", "cpi_resource"), "count", _CONTAINER)
    yield MetricKind(
        "container_psi",
        ("pod_uid", "container_id", "psi_resource", "psi_precision", "psi_degree"),
        "percent",
        _CONTAINER,
    )
    yield MetricKind("pod_psi", ("pod_uid", "psi_resource", "psi_precision", "psi_degree"), "percent", _POD)
    yield MetricKind("container_psi_cpu_full_supported", ("pod_uid", "container_id"), "0 or 1", _CONTAINER)
    yield MetricKind("pod_psi_cpu_full_supported", ("pod_uid",), "0 or 1", _POD)
    yield MetricKind("resctrl_resource_llc", ("qos", "cache_id"), "bytes", _NODE)
    yield MetricKind("resctrl_resource_mb", ("qos", "cache_id", "resctrl_mb_type"), "bytes", _NODE)


KINDS: Final = {kind.name: kind for kind in _kinds()}
"""Koordinator's kinds by name."""
