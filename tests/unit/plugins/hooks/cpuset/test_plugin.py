import pytest
from prometheus_client import REGISTRY

from koordpy_plugins.hooks.cpuset.plugin import KEEP_QUOTA_FLAG, CPUSetAllocator
from tests.hooks.node import HookNode

POOLS, BE_POOLS = "node.koordinator.sh/cpu-shared-pools", "node.koordinator.sh/be-cpu-shared-pools"
OWN = {"scheduling.koordinator.sh/resource-status": '{"cpuset": "0"}'}
SPEC = {"containers": [{"name": "c0"}]}


def pools(*cpusets):
    return str([{"socket": 0, "node": node, "cpuset": cpus} for node, cpus in enumerate(cpusets)]).replace(
        "'", '"'
    )


def gauge(name, **labels):
    return REGISTRY.get_sample_value(f"koordlet_cpuset_{name}", {"node": "n", **labels})


def test_gauges_count_the_cpus_of_the_pools_and_leave_out_invalid_ones(node_cgroups):
    node = HookNode(node_cgroups, CPUSetAllocator)
    node.topology({POOLS: pools("0-3", "x", "8"), BE_POOLS: pools("4-7")})
    assert (gauge("share_pool_cpu_cores"), gauge("be_share_pool_cpu_cores")) == (5, 4)
    assert gauge("share_pool_info", cpu="8") is None


def test_single_cpus_have_series_behind_a_gate(node_cgroups):
    node = HookNode(node_cgroups, CPUSetAllocator, gates={"PerCPUMetric": True})
    node.topology({POOLS: pools("0-1", "8")})
    node.topology({POOLS: pools("0-1")})
    assert [gauge("share_pool_info", cpu=cpu) for cpu in ("0", "1", "8")] == [1, 1, None]


@pytest.mark.parametrize(("keep", "quotas"), [(False, 2), (True, 0)])
def test_quotas_of_pods_with_cpus_of_their_own_can_be_kept(node_cgroups, keep, quotas):
    node = HookNode(node_cgroups, CPUSetAllocator, flags={KEEP_QUOTA_FLAG: keep})
    node.pod("p", SPEC, qos="LSR", annotations=OWN)
    node.runtime.round()
    found = [each for each in node.runtime.updates() if each.resource == "cpu.cfs_quota_us"]
    assert len([each for each in found if not each.directory.endswith("sandbox")]) == quotas


def test_best_effort_pods_keep_the_cpus_of_their_directory(node_cgroups):
    node = HookNode(node_cgroups, CPUSetAllocator)
    node.pod("p", SPEC, qos="BE")
    node.topology({POOLS: pools("0-1")})
    node.runtime.round()
    assert node.runtime.updates() == []
