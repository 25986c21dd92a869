"""Names and labels of koordlet's metrics: dashboards and alerts for koordlet work with the agent."""

import importlib
import pkgutil

import pytest
from prometheus_client import REGISTRY
from prometheus_client.metrics import MetricWrapperBase

import koordpy.agent
import koordpy_plugins.collectors
import koordpy_plugins.hooks
import koordpy_plugins.qos
from koordpy.agent.toolkit.scraped_gauge import ScrapedGauge

CONTAINER = "pod_namespace pod_name container_id container_name"
RESOURCES = "resource unit pod_uid pod_name pod_namespace container_id container_name"
PSI = "pod_uid pod_name pod_namespace psi_resource_type psi_precision psi_degree cpu_full_supported"

KOORDLET = {
    "be_suppress_be_used_cpu_cores": "node",
    "be_suppress_cpu_cores": "node type",
    "be_suppress_ls_used_cpu_cores": "node",
    "collect_node_cpu_info_status": "node status",
    "collect_node_local_storage_info_status": "node status",
    "collect_node_numa_info_status": "node status",
    "container_core_sched_cookie": "node pod_name pod_namespace pod_uid container_name container_id "
    "core_sched_group core_sched_cookie",
    "container_cpi": "node container_id container_name pod_uid pod_name pod_namespace cpi_field",
    "container_oom_score_adj": "node pod_name pod_namespace pod_uid container_name",
    "container_psi": f"node container_id container_name {PSI}",
    "container_resource_limits": f"node {RESOURCES}",
    "container_resource_requests": f"node {RESOURCES}",
    "container_scaled_cfs_burst_us": f"node {CONTAINER}",
    "container_scaled_cfs_quota_us": f"node {CONTAINER}",
    "core_sched_cookie_manage_status": "node core_sched_group status",
    "cpuset_be_share_pool_cpu_cores": "node",
    "cpuset_be_share_pool_info": "node cpu",
    "cpuset_share_pool_cpu_cores": "node",
    "cpuset_share_pool_info": "node cpu",
    "host_application_resource_usage": "node host_application_name resource priority_class qos",
    "kubelet_request_duration_seconds": "verb path code",
    "node_metric_node_usage": "node resource unit",
    "node_metric_numa_node_usage": "node numa_node_id resource unit",
    "node_metric_numa_system_usage": "node numa_node_id resource unit",
    "node_metric_system_usage": "node resource unit",
    "node_predicted_resource_peak": "node predictor resource unit",
    "node_predicted_resource_reclaimable": "node predictor resource unit",
    "node_priority_resource_reclaimable": "node priority resource unit",
    "node_resource_allocatable": "node resource unit",
    "node_resource_priority_reclaimable_status": "node priority",
    "node_used_cpu_cores": "node",
    "node_used_memory_bytes": "node",
    "pod_eviction": "node reason",
    "pod_eviction_detail": "node pod_namespace pod_name reason",
    "pod_psi": f"node {PSI}",
    "resctrl_llc_occupancy": "node cache_id qos",
    "resctrl_memory_bandwidth": "node cache_id qos mb_type",
    "resource_update_duration_milliseconds": "type status",
    "runtime_hook_invoked_duration_milliseconds": "node hook stage status",
    "runtime_hook_reconciler_invoked_duration_milliseconds": "node level resource_type status",
    "start_time": "node",
}
"""Labels by name, without the prefix `koordlet_`. Source: Koordinator, `pkg/koordlet/metrics`."""


@pytest.fixture(scope="module")
def exposed() -> dict[str, list[str]]:
    """Labels by name, as they are exposed: the name of a counter ends in `_total`."""
    for package in (koordpy.agent, koordpy_plugins.collectors, koordpy_plugins.hooks, koordpy_plugins.qos):
        for module in pkgutil.walk_packages(package.__path__, f"{package.__name__}."):
            importlib.import_module(module.name)
    found = {}
    for metric in list(REGISTRY._collector_to_names):
        if isinstance(metric, MetricWrapperBase):
            suffix = "_total" if metric._type == "counter" else ""
            found[f"{metric._name}{suffix}"] = list(metric._labelnames)
        elif isinstance(metric, ScrapedGauge):
            found[metric._name] = list(metric._labels)
    return found


@pytest.mark.parametrize("name", KOORDLET)
def test_a_metric_of_koordlet_has_its_name_and_labels(exposed, name):
    assert exposed.get(f"koordlet_{name}") == KOORDLET[name].split()
