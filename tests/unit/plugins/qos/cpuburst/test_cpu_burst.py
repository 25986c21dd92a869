"""CPU burst on cgroup files: Koordinator's pinned examples, and what is left alone between checks."""

import random
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace

import pytest

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.table import Version
from koordpy.agent.engine.plugins import flags_of
from koordpy.agent.interface import (
    CPU_BURST,
    NODE_CPU_INFO,
    CgroupLayout,
    Handle,
    NodeCPUInfo,
    PodMeta,
    Processor,
    Sample,
)
from koordpy.agent.interface.gates import GATES
from koordpy.agent.metrics.cache import MetricCache
from koordpy.api.core import Pod
from koordpy.api.plugin import NoArgs
from koordpy.api.scheme import decode
from koordpy.api.slo.cpu_burst import CPUBurstConfig
from koordpy.api.slo.node_slo import NodeSLOSpec, completed
from koordpy.cluster.cluster import Cluster
from koordpy.lib.clock import FakeClock
from koordpy.lib.feature_gates import FeatureGates
from koordpy_plugins.qos.cpuburst import plugin as cpuburst
from koordpy_plugins.qos.cpuburst.plugin import CPUBurst
from tests.cgroups.tree import CgroupTree

LAYOUT = CgroupLayout(systemd=False)
PROCESSORS = 16


class Node:
    """A node of 16 CPUs made of files, with one pod."""

    def __init__(self, folder, *, annotation=None, limits=("2", "3", None), qos="LS", **strategy):
        folder.mkdir()
        self.tree = CgroupTree(folder, Version.V1, frozenset({"a controller that no kernel has"}))
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.clock.advance(1000)
        self.pod = pod(limits, annotation, qos)
        self.directory = LAYOUT.pod(self.pod)
        self.tree.make(self.directory)
        for number in range(len(limits)):
            self.tree.make(self.container(number))
        self.metrics = MetricCache(self.clock)
        rows = tuple(Processor(cpu, cpu, 0, 0) for cpu in range(PROCESSORS))
        self.metrics.set_fact(NODE_CPU_INFO, NodeCPUInfo(rows))
        self.pods = [PodMeta(self.pod, self.directory)]
        self.slo = completed(decode(NodeSLOSpec, {"cpuBurstStrategy": {"policy": "auto", **strategy}}))
        self.handle = Handle(
            node_name="n",
            states=SimpleNamespace(node_slo=lambda: self.slo, pods=lambda: self.pods),
            metrics=self.metrics,
            layout=LAYOUT,
            cgroups=self.tree.files,
            executor=Executor(self.tree.files, self.clock),
            cluster=Cluster(self.clock),
            gates=FeatureGates(GATES),
            flags=flags_of([CPUBurst]),
            clock=self.clock,
            rng=random.Random(1),
        )
        self.plugin = CPUBurst(NoArgs(), self.handle)
        self.plugin.setup()

    def container(self, number):
        return f"{self.directory}/id{number}"

    def measure(self, *, node=1.0, throttled=()):
        now = self.clock.now()
        samples = [Sample("node_cpu_usage", node, now, {})]
        for number in throttled:
            properties = {"container_id": f"containerd://id{number}"}
            samples.append(Sample("container_cpu_throttled", 0.5, now, properties))
        self.metrics.append(samples)

    def write(self, name, directory, text):
        (self.tree.root / "cpu" / directory / name).write_text(text)

    def read(self, name, directory):
        return int((self.tree.root / "cpu" / directory / name).read_text())

    def set_quotas(self, pod, *containers):
        for directory, quota in zip(
            [self.directory, *map(self.container, range(3))], [pod, *containers], strict=False
        ):
            self.write("cpu.cfs_quota_us", directory, str(quota))

    @property
    def quotas(self):
        names = [self.directory, *(self.container(number) for number in range(3))]
        return [self.read("cpu.cfs_quota_us", name) for name in names]


def pod(limits, annotation, qos):
    return decode(
        Pod,
        {
            "metadata": {
                "name": "p",
                "namespace": "d",
                "uid": "u1",
                "labels": {"koordinator.sh/qosClass": qos},
                "annotations": {} if annotation is None else {"koordinator.sh/cpuBurst": annotation},
            },
            "spec": {
                "containers": [
                    {"name": f"c{number}", "resources": {"limits": {"cpu": limit}} if limit else {}}
                    for number, limit in enumerate(limits)
                ]
            },
            "status": {
                "phase": "Running",
                "qosClass": "Burstable",
                "containerStatuses": [
                    {
                        "name": f"c{number}",
                        "containerID": f"containerd://id{number}",
                        "state": {"running": {}},
                    }
                    for number in range(len(limits))
                ],
            },
        },
    )


@pytest.fixture
def node(tmp_path):
    made: list[Node] = []

    def make(**options):
        made.append(Node(tmp_path / str(len(made)), **options))
        return made[-1]

    yield make
    for each in made:
        each.plugin.round()
        each.pods = []
        each.plugin.round()
        each.tree.close()


def test_quotas_of_throttled_containers_grow_and_those_without_limit_are_left_alone(node):
    made = node()
    made.set_quotas(500000, 200000, 300000, -1)
    made.measure(throttled=[0, 1])
    made.plugin.round()
    assert made.quotas == [600000, 240000, 360000, -1]


def test_the_quota_of_a_pod_without_one_stays_so(node):
    made = node()
    made.set_quotas(-1, 200000, 300000, -1)
    made.measure(throttled=[0])
    made.plugin.round()
    assert made.quotas == [-1, 240000, 300000, -1]


@pytest.mark.parametrize(
    ("quota", "usage", "throttled", "expected"),
    [
        (580000, 1.0, [0], 600000),
        (200000, 1.0, [], 200000),
        (202000, 12.0, [0], 200000),
        (400000, 12.0, [0], 320000),
        (240000, 7.5, [0], 240000),
        (-1, 1.0, [], 200000),
    ],
)
def test_steps_depend_on_throttling_and_on_how_busy_shared_cpus_are(node, quota, usage, throttled, expected):
    made = node(limits=("2",))
    made.set_quotas(-1, quota)
    made.measure(node=usage, throttled=throttled)
    made.plugin.round()
    assert made.read("cpu.cfs_quota_us", made.container(0)) == expected


def test_a_policy_without_quotas_resets_them(node):
    made = node(limits=("2",), policy="cpuBurstOnly")
    made.set_quotas(-1, 400000)
    made.plugin.round()
    assert made.read("cpu.cfs_quota_us", made.container(0)) == 200000


def test_a_container_without_tokens_loses_what_it_gained(node):
    made = node(limits=("2",), cfsQuotaBurstPeriodSeconds=0)
    made.set_quotas(-1, 400000)
    made.measure()
    made.plugin.round()
    assert made.read("cpu.cfs_quota_us", made.container(0)) == 320000


def test_the_kernel_saves_up_a_share_of_the_limit(node):
    made = node()
    made.plugin.round()
    bursts = [made.read("cpu.cfs_burst_us", made.container(number)) for number in range(3)]
    assert bursts == [2000000, 3000000, 0]
    assert made.read("cpu.cfs_burst_us", made.directory) == 5000000


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ('{"cpuBurstPercent": 100}', 200000),
        ('{"policy": "none"}', 0),
        ("{}", 2000000),
        ("not JSON", 2000000),
        ('{"cpuBurstPercent": "100"}', 2000000),
    ],
)
def test_a_pod_overrides_settings_of_its_node_field_by_field(node, annotation, expected):
    made = node(limits=("2",), annotation=annotation)
    made.plugin.round()
    assert made.read("cpu.cfs_burst_us", made.container(0)) == expected


def test_a_plugin_supplies_settings_of_pods_without_an_annotation(node):
    made = node(limits=("2",))
    made.handle.pod_policies.register(CPU_BURST, "mine", lambda pod: CPUBurstConfig(cpu_burst_percent=10))
    made.plugin.round()
    assert made.read("cpu.cfs_burst_us", made.container(0)) == 20000


@pytest.mark.parametrize("qos", ["LSR", "LSE", "BE"])
def test_pods_of_other_classes_never_burst(node, qos):
    made = node(limits=("2",), qos=qos)
    made.set_quotas(-1, 400000)
    made.plugin.round()
    assert made.read("cpu.cfs_burst_us", made.container(0)) == 0
    assert made.read("cpu.cfs_quota_us", made.container(0)) == 400000


def test_unchanged_pods_are_checked_every_few_seconds_only(node):
    made = node(limits=("2",), policy="none")
    made.set_quotas(-1, 200000)
    made.plugin.reconcile()
    made.set_quotas(-1, 400000)
    made.clock.advance(1)
    made.plugin.reconcile()
    assert made.read("cpu.cfs_quota_us", made.container(0)) == 400000
    made.clock.advance(cpuburst.CHECK_SECONDS)
    made.plugin.reconcile()
    assert made.read("cpu.cfs_quota_us", made.container(0)) == 200000


def test_a_changed_strategy_applies_at_once(node):
    made = node(limits=("2",), policy="none")
    made.plugin.reconcile()
    made.slo = completed(decode(NodeSLOSpec, {"cpuBurstStrategy": {"policy": "auto"}}))
    made.clock.advance(1)
    made.plugin.reconcile()
    assert made.read("cpu.cfs_burst_us", made.container(0)) == 2000000


def test_series_of_pods_that_are_gone_are_removed(node):
    made = node(limits=("2",))
    labels = ("n", "d", "p", "containerd://id0", "c0")
    made.set_quotas(-1, 200000)
    made.measure(throttled=[0])
    made.plugin.round()
    assert labels in cpuburst.BURST._metrics
    assert labels in cpuburst.QUOTA._metrics
    made.pods = []
    made.plugin.round()
    assert labels not in cpuburst.BURST._metrics
    assert labels not in cpuburst.QUOTA._metrics


def test_buckets_of_ended_containers_are_dropped(node):
    made = node(limits=("2",), cfsQuotaBurstPeriodSeconds=10)
    made.measure()
    made.plugin.round()
    assert set(made.plugin.buckets) == {"containerd://id0"}
    made.pods = []
    made.clock.advance(timedelta(seconds=21).total_seconds())
    made.plugin.round()
    assert made.plugin.buckets == {}


def test_between_two_checks_quotas_still_follow_throttling_and_changed_pods(node):
    made = node(limits=("2", "3", None))
    made.set_quotas(-1, 200000, 300000, -1)
    made.measure()
    made.plugin.reconcile()
    assert made.quotas[1:3] == [200000, 300000]
    made.clock.advance(1)
    made.measure(throttled=[0])
    made.plugin.reconcile()
    assert made.quotas[1:3] == [240000, 300000]
    changed = pod(("2", "4", None), None, "LS")
    made.pods = [PodMeta(changed, made.directory)]
    made.clock.advance(1)
    made.measure()
    made.plugin.reconcile()
    assert made.quotas[2] == 400000
    made.pods = []
    made.clock.advance(1)
    made.measure(throttled=[0, 1])
    made.plugin.reconcile()
    assert made.quotas[1:3] == [288000, 400000]
