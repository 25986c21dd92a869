from dataclasses import replace
from pathlib import Path

import pytest

from koordpy.agent.interface import NODE_CPU_INFO, CollectError, NodeCPUInfo, Processor
from koordpy.agent.interface.facts import NODE_NUMA_USAGE, NODE_USAGE
from koordpy.api.plugin import NoArgs
from koordpy_plugins.collectors.noderesource.plugin import NodeResource
from tests.unit.plugins.collectors.node_files import NodeFiles


def stat(node, *cpus):
    total = sum(cpus)
    lines = [f"cpu  {total} 0 0 999 999 0 0 0 0 0"]
    lines += [f"cpu{index} {busy} 0 0 500 1 0 0 0 0 0" for index, busy in enumerate(cpus)]
    node.write(node.proc / "stat", "\n".join([*lines, "intr 1 2 3", "ctxt 5"]) + "\n")


def meminfo(node, available=400):
    node.write(node.proc / "meminfo", f"MemTotal: 1000 kB\nMemFree: 1 kB\nMemAvailable: {available} kB\n")


def numa_meminfo(node, numa, free):
    fields = {"MemTotal": 500, "MemFree": free, "Active(file)": 10, "Inactive(file)": 20, "SReclaimable": 5}
    text = "".join(f"Node {numa} {name}: {value} kB\n" for name, value in fields.items())
    node.write(node.sys / f"devices/system/node/node{numa}/meminfo", text)


def test_the_first_cycle_stores_nothing(tmp_path):
    node = NodeFiles(tmp_path, NodeResource)
    stat(node, 0)
    meminfo(node)
    node.collect()
    assert node.missing("node_memory_usage")
    assert node.fact(NODE_USAGE) is None


def test_usage_is_busy_time_and_memory_that_is_not_available(tmp_path):
    node = NodeFiles(tmp_path, NodeResource)
    meminfo(node)
    node.write(node.proc / "stat", "cpu  10 10 10 999 999 10 10 77 77 77\n")
    node.collect()
    node.write(node.proc / "stat", "cpu  60 60 60 5999 5999 70 60 977 977 977\n")
    node.collect(seconds=2)
    assert node.values("node_cpu_usage") == 260 / 200
    assert node.values("node_memory_usage") == 600 * 1024
    usage = node.fact(NODE_USAGE)
    assert (usage.cpu, usage.memory) == (1.3, 600 * 1024)


def test_usage_by_numa_node(tmp_path):
    node = NodeFiles(tmp_path, NodeResource)
    meminfo(node)
    for numa, free in ((0, 100), (1, 900)):
        numa_meminfo(node, numa, free)
    topology = NodeCPUInfo(tuple(Processor(cpu, cpu, cpu // 2, cpu // 2) for cpu in range(4)))
    node.handle.metrics.set_fact(NODE_CPU_INFO, topology)
    stat(node, 0, 0, 1000, 0)
    node.collect()
    stat(node, 100, 50, 10, 25)  # CPU 2 went back: it was offline
    node.collect(seconds=1)
    assert node.values("node_numa_cpu_usage", numa_node_id="0") == 1.5
    assert node.values("node_numa_cpu_usage", numa_node_id="1") == 0.25
    assert node.values("node_numa_memory_usage", numa_node_id="0") == (500 - 135) * 1024
    assert node.values("node_numa_memory_usage", numa_node_id="1") == 0
    numa = node.fact(NODE_NUMA_USAGE)
    assert (numa.cpu, numa.memory) == ({0: 1.5, 1: 0.25}, {0: 365 * 1024, 1: 0})


def test_numa_nodes_that_cannot_be_read_do_not_prevent_measuring_the_node(tmp_path):
    node = NodeFiles(tmp_path, NodeResource)
    meminfo(node)
    numa_meminfo(node, 3, 100)  # ids must begin with 0
    for busy in (0, 100):
        stat(node, busy)
        node.collect(seconds=1)
    assert node.values("node_cpu_usage") == 1
    assert node.missing("node_numa_memory_usage", numa_node_id="3")


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("stat", "intr 1\n", "stat: it does not begin with a line of CPU times"),
        ("stat", "cpu 1 2 3\n", "stat: a line of CPU times has 3 numbers, expected 7 or more"),
        ("meminfo", "MemTotal: 5 kB\n", "meminfo: no line 'MemAvailable:'"),
    ],
)
def test_an_unexpected_file_is_named(tmp_path, name, text, message):
    node = NodeFiles(tmp_path, NodeResource)
    stat(node, 0)
    meminfo(node)
    node.write(node.proc / name, text)
    with pytest.raises(CollectError, match=message):
        node.collect()


def test_this_machine_is_measured(tmp_path):
    node = NodeFiles(tmp_path, NodeResource)
    on_this_machine = replace(node.handle, proc_root=Path("/proc"), sys_root=Path("/sys"))
    collector = NodeResource(NoArgs(), on_this_machine)
    collector.collect()
    node.clock.advance(1)
    collector.collect()
    assert node.values("node_cpu_usage") >= 0
    assert node.values("node_memory_usage") > 0
