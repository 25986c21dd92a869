import pytest
from prometheus_client import REGISTRY

from koordpy.agent.interface.facts import HOST_APPLICATIONS_USAGE
from koordpy.api.koordinator import NodeMetric
from koordpy.api.scheme import decode
from koordpy_plugins.collectors.hostapplication.plugin import HostApplication
from tests.unit.plugins.collectors.node_files import V1, V2, NodeFiles

APPLICATIONS = [{"name": "nginx", "qos": "LS", "priority": "koord-prod"}, {"name": "gone", "qos": "BE"}]
DIRECTORY = "host-latency-sensitive/nginx"


def usage(node, cpu_ms):
    node.usage(DIRECTORY, cpu_ms, 10)
    if node.version is V2:
        node.cgroup(DIRECTORY, memory__current="500\n")
    else:
        node.cgroup(DIRECTORY, memory__usage_in_bytes="500\n")


@pytest.mark.parametrize("version", [V1, V2])
def test_applications_are_measured_like_pods(tmp_path, version):
    node = NodeFiles(tmp_path, HostApplication, version=version)
    node.node_slo(hostApplications=APPLICATIONS)
    usage(node, 0)
    node.collect()
    usage(node, 1000)
    node.collect(seconds=2)
    assert node.values("host_application_cpu_usage", host_app_name="nginx") == 0.5
    assert node.values("host_application_memory_usage", host_app_name="nginx") == 16
    assert node.values("host_application_memory_usage_with_page_cache", host_app_name="nginx") == 500
    total = node.fact(HOST_APPLICATIONS_USAGE)
    assert (total.cpu, total.memory) == (0.5, 16)
    labels = {"node": "n1", "host_application_name": "nginx", "priority_class": "koord-prod", "qos": "LS"}
    name = "koordlet_host_application_resource_usage"
    assert REGISTRY.get_sample_value(name, {**labels, "resource": "cpu"}) == 0.5


def test_without_a_node_slo_nothing_is_known_and_without_applications_the_sum_is_0(tmp_path):
    node = NodeFiles(tmp_path, HostApplication)
    node.collect()
    assert node.fact(HOST_APPLICATIONS_USAGE) is None
    node.node_slo()
    node.collect()
    assert node.fact(HOST_APPLICATIONS_USAGE).cpu == 0


def test_an_application_that_is_taken_off_the_list_is_forgotten(tmp_path):
    node = NodeFiles(tmp_path, HostApplication)
    node.node_slo(hostApplications=APPLICATIONS)
    for cpu in (0, 1000):
        usage(node, cpu)
        node.collect(seconds=1)
    node.node_slo(hostApplications=APPLICATIONS[1:])
    node.collect(seconds=1)
    assert node.missing("host_application_cpu_usage", host_app_name="nginx")
    assert node.fact(HOST_APPLICATIONS_USAGE).cpu == 0


def test_the_sum_has_page_cache_if_the_node_metric_wants_it(tmp_path):
    node = NodeFiles(tmp_path, HostApplication)
    node.node_slo(hostApplications=APPLICATIONS)
    policy = {"metricCollectPolicy": {"nodeMemoryCollectPolicy": "usageWithPageCache"}}
    node.cluster.store(NodeMetric).apply(decode(NodeMetric, {"metadata": {"name": "n1"}, "spec": policy}))
    for cpu in (0, 1000):
        usage(node, cpu)
        node.collect(seconds=1)
    assert node.fact(HOST_APPLICATIONS_USAGE).memory == 500
