"""Cycles and instructions: windows and sums on a folder of cgroups, counting itself on the kernel's."""

import errno
import os
import re
import time
from pathlib import Path

import pytest
from prometheus_client import REGISTRY

from koordpy_plugins.collectors.cpi.perf_events import Counters, Event
from koordpy_plugins.collectors.cpi.plugin import CPI
from tests import privileged
from tests.eventually import eventually
from tests.unit.plugins.collectors.node_files import BEST_EFFORT, V1, NodeFiles, pod

POD = f"{BEST_EFFORT}/kubepods-besteffort-podu.slice"
CONTAINERS = [f"{POD}/cri-containerd-{name}.scope" for name in ("c1", "c2")]
NOW = {"collect-cpi-timewindow": "0s"}


class Kernel:
    """Counts in memory: cycles and instructions by directory and CPU."""

    def __init__(self):
        self.counts = {}
        self.error = None
        self.failing = False
        self.open = self.most = 0

    def start(self, cgroup, cpu):
        if self.error is not None:
            raise OSError(self.error, os.strerror(self.error))
        directory = os.path.basename(os.readlink(f"/proc/self/fd/{cgroup}"))
        return Counter(self, self.counts.get((directory, cpu), [0, 0]))


class Counter:
    def __init__(self, kernel, values):
        self.kernel, self.values = kernel, values
        kernel.open += 1
        kernel.most = max(kernel.most, kernel.open)

    def read(self):
        if self.kernel.failing:
            raise OSError(errno.ENODEV, "gone")
        return self.values

    def close(self):
        self.kernel.open -= 1


@pytest.fixture
def kernel():
    return Kernel()


@pytest.fixture
def node(tmp_path, kernel, monkeypatch):
    monkeypatch.setattr(CPI, "start", lambda self, cgroup, cpu: kernel.start(cgroup, cpu))
    node = NodeFiles(tmp_path, CPI, pod("u", "c1", "c2"), flags=NOW)
    node.write(node.sys / "devices/system/cpu/online", "0,2-3\n")
    node.write(node.proc / "sys/kernel/perf_event_paranoid", "2\n")
    for directory in ("kubepods.slice", *CONTAINERS):
        (node.cgroups / directory).mkdir(parents=True, exist_ok=True)
    return node


def of(container, resource):
    return {"pod_uid": "u", "container_id": f"containerd://{container}", "cpi_resource": resource}


def gauge(node, container, field):
    labels = ("n1", f"containerd://{container}", container, "u", "pod-u", "d", field)
    return dict(node.collector.values()).get(labels)


def test_sums_over_all_cpus_that_run(node, kernel):
    name = os.path.basename(CONTAINERS[0])
    kernel.counts = {(name, 0): [100, 40], (name, 1): [7, 7], (name, 2): [10, 4], (name, 3): [1, 0.5]}
    assert node.collector.idle_reason() is None
    node.collect()
    assert node.values("container_cpi", **of("c1", "cycle")) == 111
    assert node.values("container_cpi", **of("c1", "instruction")) == 44.5
    assert node.values("container_cpi", **of("c2", "cycle")) == 0
    assert (gauge(node, "c1", "cycles"), gauge(node, "c1", "instructions")) == (111, 44.5)
    labels = {"node": "n1", "container_id": "containerd://c1", "container_name": "c1", "pod_uid": "u"}
    labels |= {"pod_name": "pod-u", "pod_namespace": "d", "cpi_field": "cycles"}
    assert REGISTRY.get_sample_value("koordlet_container_cpi", labels) is not None
    assert kernel.open == 0


def test_a_container_without_cgroup_has_no_sample(node):
    os.rmdir(node.cgroups / CONTAINERS[1])
    node.collect()
    assert node.missing("container_cpi", **of("c2", "cycle"))
    assert gauge(node, "c2", "cycles") is None
    assert node.count("container_cpi", **of("c1", "cycle")) == 1


def test_counters_that_cannot_be_opened_or_read_are_given_up_and_named_once(node, kernel, caplog):
    kernel.failing = True
    node.collect()
    assert kernel.open == 0
    kernel.error = errno.EMFILE
    node.collect()
    node.collect()
    assert node.missing("container_cpi", **of("c1", "cycle"))
    assert caplog.text.count("pod d/pod-u container c1 are not counted") == 1


def test_few_files_are_open_at_the_same_time(node, kernel, monkeypatch):
    monkeypatch.setattr(CPI, "_at_once", lambda self: 1)
    node.collect()
    assert kernel.most == 3  # one container on three CPUs
    assert node.count("container_cpi", **of("c2", "cycle")) == 1


@pytest.mark.parametrize(
    ("code", "reason"),
    [
        (errno.ENOENT, "the processors have no counters of cycles and instructions"),
        (errno.EOPNOTSUPP, "the processors have no counters of cycles and instructions"),
        (errno.EPERM, "it needs CAP_PERFMON .*kernel.perf_event_paranoid is 2"),
        (errno.EACCES, "it needs CAP_PERFMON"),
        (errno.ENOSYS, "the kernel has no performance events"),
        (errno.EBADF, "CONFIG_CGROUP_PERF"),
        (errno.EMFILE, "perf_event_open fails: Too many open files"),
    ],
)
def test_a_node_that_does_not_count_says_why(node, kernel, code, reason):
    kernel.error = code
    assert re.search(reason, node.collector.idle_reason())


def test_a_node_without_cgroups_of_performance_events_says_so(tmp_path):
    node = NodeFiles(tmp_path, CPI, version=V1)
    node.write(node.sys / "devices/system/cpu/online", "0\n")
    assert "the node has no cgroups of performance events" in node.collector.idle_reason()


# --- the kernel's ----------------------------------------------------------------------------------

SOFTWARE = (Event(1, 0), Event(1, 1))
"""The kernel's own clocks, which need no counters of the processor: nanoseconds of CPU and of tasks."""


def may_count():
    """Whether this machine counts by cgroup, and lets this process do it."""
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    by_cgroup = "\nperf_event\t" in Path("/proc/cgroups").read_text()
    return by_cgroup and (paranoid <= 0 or privileged.held("PERFMON"))


@pytest.mark.parametrize("grouped", [True, False])
def test_the_kernel_counts_a_cgroup(v2_cgroups, grouped):
    """The clock of a cgroup runs while its processes do, and not that of another one."""
    v2_cgroups.make("kubepods/busy")
    v2_cgroups.make("kubepods/idle")

    def count(group):
        cgroup = os.open(v2_cgroups.root / "kubepods" / group, os.O_RDONLY | os.O_DIRECTORY)
        counters = []
        try:
            for cpu in sorted(os.sched_getaffinity(0)):
                counters.append(Counters(cgroup, cpu, SOFTWARE, grouped=grouped))
            time.sleep(0.02)
            return [sum(column) for column in zip(*(each.read() for each in counters), strict=True)]
        finally:
            os.close(cgroup)
            for each in counters:
                each.close()

    if not v2_cgroups.real or not may_count():
        with pytest.raises(OSError, match=r"Bad file descriptor|Invalid argument|not permitted|denied"):
            count("busy")
        return
    v2_cgroups.burn("kubepods/busy")
    assert eventually(lambda: min(count("busy")) > 0)
    assert count("idle") == [0, 0]
