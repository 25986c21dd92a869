"""Runtime hooks on the kernel's own cgroups, or on a folder that looks like them."""

import asyncio

import pytest

from koordpy.agent.engine.agent import NodeAgent
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.reloading import Desired
from koordpy.agent.engine.settings import AgentSettings
from koordpy.agent.interface import Update
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology, NodeSLO
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.hooks.batchresource.plugin import BatchResource
from koordpy_plugins.hooks.cpunormalization.plugin import CPUNormalization
from koordpy_plugins.hooks.cpuset.plugin import CPUSetAllocator
from tests.eventually import PATIENCE
from tests.hooks.node import HookNode

RATIO = "node.koordinator.sh/cpu-normalization-ratio"


@pytest.fixture
def node(node_cgroups):
    return HookNode(node_cgroups, BatchResource, CPUNormalization, CPUSetAllocator)


def batch(cpu, memory):
    amounts = {"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": memory}
    return {"containers": [{"name": "c0", "resources": {"requests": amounts, "limits": amounts}}]}


def found(node, directory):
    files = node.tree.files
    return files.cpu_shares(directory), files.cfs_quota(directory), files.memory_limit(directory)


def test_batch_resources_arrive_at_a_pod_and_its_container(node):
    directory = node.pod("p", batch("500", "64Mi"), qos="BE")
    node.runtime.round()
    for each in (directory, f"{directory}/pc0"):
        shares, quota, memory = found(node, each)
        assert (quota, memory) == (50_000, 64 << 20)
        assert abs(shares - 512) <= 13  # a weight of v2 stands for 26 shares


@pytest.mark.parametrize(("cpu", "quota"), [("200", 20_000), ("2k", 200_000)])
def test_resources_of_a_pod_shrink_and_grow_although_no_container_may_exceed_it(node, cpu, quota):
    directory = node.pod("p", batch("1k", "64Mi"), qos="BE")
    node.runtime.round()
    node.pod("p", batch(cpu, "128Mi"), qos="BE")
    node.runtime.apply_changes()
    for each in (directory, f"{directory}/pc0"):
        assert found(node, each)[1:] == (quota, 128 << 20)


def test_a_new_ratio_scales_quotas_at_once(node):
    be = node.pod("be", batch("1k", "64Mi"), qos="BE")
    ls = node.pod(
        "ls", {"containers": [{"name": "c0", "resources": {"limits": {"cpu": "1"}}}]}, kube_qos="Burstable"
    )
    node.runtime.round()
    node.node({RATIO: "1.25"})
    for each in (be, f"{be}/bec0", ls, f"{ls}/lsc0"):
        assert node.tree.files.cfs_quota(each) == 80_000


def test_quotas_of_best_effort_pods_are_removed_while_cpu_is_suppressed_by_quota(node):
    directory = node.pod("p", batch("1k", "64Mi"), qos="BE")
    node.runtime.round()
    node.node_slo(resourceUsedThresholdWithBE={"enable": True, "cpuSuppressPolicy": "cfsQuota"})
    assert node.tree.files.cfs_quota(f"{directory}/pc0") == -1
    node.node_slo()
    assert node.tree.files.cfs_quota(f"{directory}/pc0") == 100_000


def test_a_pod_with_cpus_of_its_own_runs_on_them_without_a_quota(node):
    cpu = min(node.tree.files.cpus("kubepods"))
    status = {"scheduling.koordinator.sh/resource-status": f'{{"cpuset":"{cpu}"}}'}
    spec = {"containers": [{"name": "c0", "resources": {"limits": {"cpu": "1"}}}]}
    directory = node.pod("p", spec, qos="LSR", kube_qos="Burstable", annotations=status)
    for each in (directory, f"{directory}/pc0"):
        node.handle.executor.update(Update("cpu.cfs_quota_us", each, "100000"))
    node.runtime.round()
    assert node.tree.files.cfs_quota(directory) == node.tree.files.cfs_quota(f"{directory}/pc0") == -1
    if node.tree.files.supported("cpuset.cpus") is None and "cpuset" in node.tree.controllers:
        for each in ("pc0", "psandbox"):
            assert node.tree.files.cpus(f"{directory}/{each}") == {cpu}


def test_what_others_write_is_replaced(node):
    directory = node.pod("p", batch("500", "64Mi"), qos="BE")
    executor = node.handle.executor
    node.runtime.round()
    for _ in range(3):
        executor._cache.clear()  # as after a while
        node.tree.files.write("cpu.cfs_quota_us", f"{directory}/pc0", "10000")
        for _ in range(3):
            node.runtime.round()
        assert node.tree.files.cfs_quota(f"{directory}/pc0") == 50_000


def test_containers_of_a_pod_that_end_are_no_failure(node):
    directory = node.pod("p", batch("500", "64Mi"), qos="BE")
    node.runtime.round()
    node.tree.remove(directory)
    for _ in range(3):
        node.runtime.round()
    node.states.metas = []
    assert node.runtime.apply_changes() == []
    assert node.runtime.updates() == []


async def test_the_agent_limits_a_best_effort_pod_soon_after_it_was_bound(node_cgroups, tmp_path):
    clock = SystemClock()
    cluster = Cluster(clock)
    installed = Installed.of(BatchResource)
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "stat").write_text("cpu  1 0 0 999 0 0 0 0 0 0\ncpu0 0\n")
    agent = NodeAgent(
        AgentSettings(
            node_name="n1",
            cgroup_root=str(node_cgroups.root),
            proc_root=str(tmp_path / "proc"),
            sys_root=str(tmp_path / "sys"),
            flags={"runtime-hooks-reconcile-interval": "1h"},
        ),
        installed,
        cluster=cluster,
        gates=FeatureGates(installed.gate_specs(), {}),
        clock=clock,
    )
    cluster.store(Node).apply(decode(Node, {"metadata": {"name": "n1", "uid": "n"}}))
    for type_ in (Node, Pod, NodeSLO, NodeResourceTopology):
        cluster.store(type_).synced = True
    agent.setup()
    running = asyncio.create_task(agent.run())
    async with asyncio.timeout(PATIENCE):
        while agent.hooks.not_ready() is not None:
            await asyncio.sleep(0.01)
        directory = "kubepods/besteffort/podu1"
        for each in (directory, f"{directory}/c0", f"{directory}/sandbox"):
            node_cgroups.make(each)
        document = {
            "metadata": {
                "namespace": "d",
                "name": "p",
                "uid": "u1",
                "labels": {"koordinator.sh/qosClass": "BE"},
            },
            "spec": {"nodeName": "n1", **batch("500", "64Mi")},
            "status": {
                "phase": "Running",
                "qosClass": "BestEffort",
                "containerStatuses": [{"name": "c0", "containerID": "containerd://c0"}],
            },
        }
        cluster.store(Pod).apply(decode(Pod, document))
        while node_cgroups.files.cfs_quota(f"{directory}/c0") != 50_000:
            await asyncio.sleep(0.01)
    running.cancel()
    await asyncio.gather(running, return_exceptions=True)
    assert node_cgroups.files.memory_limit(directory) == 64 << 20
    [quota] = [
        change
        for change in agent.executor.writer.changes
        if (change.resource, change.directory) == ("cpu.cfs_quota_us", directory)
    ]
    assert (quota.plugin, quota.formula) == ("BatchResource", "batch-cpu limit 500m")


async def test_gates_and_flags_of_hooks_change_while_the_agent_runs(node_cgroups, tmp_path):
    clock = SystemClock()
    installed = Installed.of(BatchResource, CPUNormalization, CPUSetAllocator)
    agent = NodeAgent(
        AgentSettings(
            node_name="n1",
            cgroup_root=str(node_cgroups.root),
            proc_root=str(tmp_path),
            sys_root=str(tmp_path),
        ),
        installed,
        cluster=Cluster(clock),
        gates=FeatureGates(installed.gate_specs(), {}),
        clock=clock,
    )
    agent.setup()
    assert [hook.name for hook in agent.hooks.hooks] == ["BatchResource", "CPUSetAllocator"]
    cpuset = agent.hooks.hooks[1]
    await agent.apply(Desired(), Desired(gates={"BatchResource": False, "CPUNormalization": True}))
    assert [hook.name for hook in agent.hooks.hooks] == ["CPUNormalization", "CPUSetAllocator"]
    assert agent.hooks.hooks[1] is cpuset
    changed = Desired(flags={"disable-unset-cpu-quota": True}, gates={"BatchResource": False})
    await agent.apply(Desired(gates={"BatchResource": False, "CPUNormalization": True}), changed)
    [hook] = agent.hooks.hooks
    assert hook.handle.flags.boolean("disable-unset-cpu-quota")
