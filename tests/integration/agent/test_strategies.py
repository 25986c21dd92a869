"""Strategies on the kernel's own cgroups, with processes that really use CPU and memory.

Where a machine gives no cgroup that can be written, the groups are a folder that looks like them, in which
the test writes what a kernel would; the report of a test run says which it was. The rest of the machine's
load is kept out by a procfs of the test's own, so that the results follow from the groups alone.
"""

import asyncio
import os
import subprocess
from contextlib import suppress
from datetime import timedelta
from types import SimpleNamespace

import pytest

from koordpy.agent.cgroups.containers import ContainerKiller
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.pressure import PressureMonitor
from koordpy.agent.cgroups.table import Version
from koordpy.agent.engine.eviction import NodeEviction
from koordpy.agent.engine.eviction_metrics import EvictionMetrics
from koordpy.agent.engine.evictor import Evictor
from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.interface import NODE_CPU_INFO, Handle, NodeCPUInfo, PodMeta, Processor, Sample
from koordpy.agent.interface.gates import BE_MEMORY_EVICT, GATES
from koordpy.agent.metrics.cache import MetricCache
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.api.slo.node_slo import NodeSLOSpec, completed
from koordpy.cluster.cluster import Cluster
from koordpy.lib import cpuset
from koordpy.lib.clock import SystemClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.qos.cpusuppress import allowance
from koordpy_plugins.qos.cpusuppress.plugin import CPUSuppress, suppress_milli
from koordpy_plugins.qos.memoryevict import MemoryEvict
from tests.eventually import PATIENCE

MIB = 1 << 20
BE, BE_POD, BE_CONTAINER = (
    "kubepods/besteffort",
    "kubepods/besteffort/podbe",
    "kubepods/besteffort/podbe/idbe",
)
LS_POD, LS_CONTAINER = "kubepods/burstable/podls", "kubepods/burstable/podls/idls"
CAPACITY = 256 * MIB


def pod(name, qos_class, kube_qos):
    return decode(
        Pod,
        {
            "metadata": {
                "name": name,
                "namespace": "d",
                "uid": name,
                "labels": {"koordinator.sh/qosClass": qos_class},
            },
            "spec": {"containers": [{"name": "c"}]},
            "status": {
                "phase": "Running",
                "qosClass": kube_qos,
                "containerStatuses": [
                    {"name": "c", "containerID": f"containerd://id{name}", "state": {"running": {}}}
                ],
            },
        },
    )


class OnNode:
    """A node with a best-effort and a latency-sensitive pod, whose groups are `tree`."""

    def __init__(self, tree, tmp_path, plugin, *, gates=None, flags=None, pressure=None):
        self.tree = tree
        for directory in (BE_POD, BE_CONTAINER, LS_POD, LS_CONTAINER):
            tree.make(directory)
        self.cpus = os.cpu_count() or 1
        capacity = {"cpu": str(self.cpus), "memory": str(CAPACITY)}
        status = {"capacity": capacity, "allocatable": capacity}
        self.node = decode(Node, {"metadata": {"name": "n"}, "status": status})
        self.slo = None
        self.pods = [
            PodMeta(pod("be", "BE", "BestEffort"), BE_POD),
            PodMeta(pod("ls", "LS", "Burstable"), LS_POD),
        ]
        proc = tmp_path / "proc"
        proc.mkdir()
        (proc / "stat").write_text("cpu  0 0 0 0 0 0 0 0 0 0\n")
        clock = SystemClock()
        self.metrics = MetricCache(clock)
        rows = [Processor(cpu, cpu, 0, 0) for cpu in sorted(tree.files.cpus(BE))]
        self.metrics.set_fact(NODE_CPU_INFO, NodeCPUInfo(tuple(rows)))
        topology = decode(NodeResourceTopology, {"metadata": {"name": "n"}})
        evictions = EvictionMetrics("n", clock)
        all_flags = flags_of([NodeEviction, plugin], flags or {})
        self.handle = Handle(
            node_name="n",
            states=SimpleNamespace(
                node=lambda: self.node,
                node_slo=lambda: self.slo,
                pods=lambda: self.pods,
                topology=lambda: topology,
            ),
            metrics=self.metrics,
            layout=tree.layout,
            cgroups=tree.files,
            executor=Executor(tree.files, clock),
            cluster=Cluster(clock),
            gates=FeatureGates(GATES, gates),
            flags=all_flags,
            clock=clock,
            proc_root=proc,
            eviction=NodeEviction(
                all_flags,
                Evictor(None, None, clock, evictions),
                ContainerKiller(tree.files, tree.layout),
                evictions,
            ),
            pressure=pressure,
        )
        self.plugin = plugin(NoArgs(), self.handle)
        self.plugin.setup()

    def set_threshold(self, **section):
        spec = {"resourceUsedThresholdWithBE": {"enable": True, **section}}
        self.slo = completed(decode(NodeSLOSpec, spec))

    @property
    def quota(self):
        return self.tree.files.cfs_quota(BE)

    def cpus_of(self, directory):
        """Return the CPUs of a group: in a folder what was written, as no kernel makes it effective."""
        if self.tree.real:
            return self.tree.files.cpus(directory)
        text = self.tree.files.path("cpuset.cpus", directory).read_text()
        return frozenset(cpuset.parse(text.strip()))

    def use_cpu(self, directory):
        """Use a CPU in a group; return what ends it. A folder's usage is written instead."""
        burner = self.tree.burn(directory)

        def end():
            burner.kill()
            burner.wait()

        return end

    async def suppress(self):
        """Measure and suppress once; return the inputs."""
        inputs = await self.plugin.observe_now()
        self.plugin.round(inputs)
        return inputs


@pytest.fixture
def ls_usage(monkeypatch):
    """Return how a folder's groups come to have used CPU: a kernel counts by itself."""

    def install(tree, usage_ns):
        if tree.real:
            return
        real = tree.files.cpu_usage_ns
        monkeypatch.setattr(
            tree.files,
            "cpu_usage_ns",
            lambda directory: usage_ns() if directory == LS_POD else real(directory),
        )

    return install


async def test_best_effort_quota_follows_the_usage_of_others_and_is_given_back(
    node_cgroups, tmp_path, ls_usage
):
    node = OnNode(node_cgroups, tmp_path, CPUSuppress)
    node.set_threshold(cpuSuppressPolicy="cfsQuota", cpuSuppressThresholdPercent=65)
    busy = [False]
    counted = [0]

    def usage_ns():
        counted[0] += 50_000_000 if busy[0] else 0
        return counted[0]

    ls_usage(node_cgroups, usage_ns)
    everything = node.cpus * 1000 * 65 // 100

    async def step():
        """Suppress once, and check the quota against the formula of what was measured."""
        before = node.quota
        inputs = await node.suppress()
        suppress = suppress_milli(inputs)
        assert suppress == everything - int(inputs.pod_used["ls"] * 1000)
        expected = allowance.next_quota(suppress, before, node.cpus)
        assert node.quota == (before if expected is None else expected)
        return inputs

    await step()
    assert node.quota == everything * 100
    busy[0] = True
    end_ls, end_be = node.use_cpu(LS_CONTAINER), node.use_cpu(BE_CONTAINER)
    async with asyncio.timeout(PATIENCE):
        while node.quota >= everything * 100:
            await step()
        end_ls()
        busy[0] = False
        while (await step()).pod_used["ls"] > 0 or node.quota < everything * 100 * 0.95:
            pass
        node.set_threshold(cpuSuppressPolicy="cfsQuota", cpuSuppressThresholdPercent=0)
        await node.suppress()
        assert node.quota == 2000
        while node_cgroups.real and node_cgroups.files.throttled(BE)[1] == 0:
            await asyncio.sleep(0.05)
    end_be()
    node.set_threshold(enable=False)
    await node.plugin.reconcile()
    assert node.quota == -1


async def test_best_effort_cpus_are_those_of_the_formula_and_are_given_back(node_cgroups, tmp_path):
    node = OnNode(node_cgroups, tmp_path, CPUSuppress)
    every_cpu = node_cgroups.files.cpus(BE)
    node.set_threshold(cpuSuppressPolicy="cpuset", cpuSuppressThresholdPercent=0)
    await node.suppress()
    few = node.cpus_of(BE)
    assert len(few) == min(2, len(every_cpu))
    assert {node.cpus_of(each) for each in (BE_POD, BE_CONTAINER)} == {few}
    node.set_threshold(enable=False)
    await node.plugin.reconcile()
    assert {node.cpus_of(each) for each in (BE, BE_POD, BE_CONTAINER)} == {every_cpu}


async def test_pressure_of_latency_sensitive_pods_suppresses_between_rounds(
    node_cgroups, v2_cgroups, tmp_path, ls_usage
):
    # Pressure is a matter of v2, which may be another hierarchy than that of the CPU controller.
    watched = node_cgroups if node_cgroups.version is Version.V2 else v2_cgroups
    if watched is v2_cgroups:
        watched.make(LS_POD)
    states = SimpleNamespace(pods=list, register_callbacks=lambda *_: None)
    monitor = PressureMonitor(watched.files, watched.layout, states, triggers=watched.real)
    flags = {"cpu-suppress-interval-seconds": int(timedelta(days=1).total_seconds())}
    node = OnNode(node_cgroups, tmp_path, CPUSuppress, flags=flags, pressure=monitor)
    counted = [0]

    def usage_ns():
        counted[0] += 50_000_000
        return counted[0]

    node.set_threshold(cpuSuppressPolicy="cfsQuota", cpuSuppressThresholdPercent=65)
    everything = node.cpus * 1000 * 65 // 100 * 100
    node.metrics.append([Sample("node_cpu_usage", 0.0, node.handle.clock.now(), {})])
    burners: list[subprocess.Popen[bytes]] = []
    tasks = [asyncio.create_task(each) for each in (monitor.run(), node.plugin.run())]
    try:
        async with asyncio.timeout(PATIENCE):
            while node.quota != everything or not monitor.watched:
                await asyncio.sleep(0.01)
            ls_usage(node_cgroups, usage_ns)
            for _ in range(node.cpus * 2):
                burners.append(burner := node_cgroups.burn(LS_POD))
                if watched is not node_cgroups:
                    watched.attach(LS_POD, burner.pid)
            if not watched.real:
                text = f"some avg10=0.00 avg60=0.00 avg300=0.00 total={10**6}\n"
                (watched.root / "kubepods/burstable/cpu.pressure").write_text(
                    text + text.replace("some", "full")
                )
            # The next regular round would be tomorrow.
            while node.quota == everything:
                await asyncio.sleep(0.01)
    finally:
        for burner in burners:
            burner.kill()
            burner.wait()
        for task in tasks:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task
    assert node.quota < everything


async def test_memory_eviction_kills_best_effort_pods_in_a_limited_group_that_is_full(node_cgroups, tmp_path):
    tree = node_cgroups
    node = OnNode(tree, tmp_path, MemoryEvict, gates={BE_MEMORY_EVICT: True})
    node.set_threshold(memoryEvictThresholdPercent=60)
    tree.files.write("memory.limit_in_bytes", "kubepods", str(CAPACITY))
    held = {BE_CONTAINER: 150 * MIB, LS_CONTAINER: 30 * MIB}
    holders = {directory: tree.hold(directory, size) for directory, size in held.items()}
    for holder in holders.values():
        assert (await asyncio.to_thread(holder.stdout.readline)) == b"held\n"

    def measure():
        """Measure as collectors do; in a folder, what runs holds what it was told to."""

        def used(directory):
            if tree.real:
                return tree.files.memory_in_use(directory)
            return sum(
                size
                for each, size in held.items()
                if f"{each}/".startswith(f"{directory}/") and holders[each].poll() is None
            )

        now = node.handle.clock.now()
        samples = [Sample("node_memory_usage", used("kubepods"), now, {})]
        samples += [
            Sample("pod_memory_usage", used(meta.cgroup_dir), now, {"pod_uid": meta.pod.metadata.uid})
            for meta in node.pods
        ]
        node.metrics.append(samples)
        return samples[0].value * 100 // CAPACITY

    assert measure() >= 60
    outcome = await node.plugin.rounds.round()
    assert outcome.newly_evicted
    async with asyncio.timeout(PATIENCE):
        while holders[BE_CONTAINER].poll() is None:
            await asyncio.sleep(0.01)
        while measure() >= 58:
            await asyncio.sleep(0.01)
    assert holders[LS_CONTAINER].poll() is None
    node.plugin.rounds.last_eviction = None
    assert await node.plugin.rounds.round() is None
