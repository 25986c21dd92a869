from typing import Any

import pytest

from koordpy.agent.interface import Fact
from koordpy.agent.interface.facts import (
    HOST_APPLICATIONS_USAGE,
    NODE_NUMA_USAGE,
    NODE_USAGE,
    PODS_NUMA_USAGE,
    PODS_USAGE,
    NUMAUsage,
    Usage,
)
from koordpy_plugins.collectors.sysresource.plugin import SystemResource
from tests.unit.plugins.collectors.node_files import NodeFiles

ALL: list[Fact[Any]] = [NODE_USAGE, PODS_USAGE, HOST_APPLICATIONS_USAGE]


@pytest.fixture
def node(tmp_path):
    node = NodeFiles(tmp_path, SystemResource)
    now, metrics = node.clock.now().timestamp(), node.handle.metrics
    metrics.set_fact(NODE_USAGE, Usage(8, 800, now))
    metrics.set_fact(PODS_USAGE, {"podresource": Usage(4, 400, now), "virtual machines": Usage(1, 50, now)})
    metrics.set_fact(HOST_APPLICATIONS_USAGE, Usage(1, 100, now))
    metrics.set_fact(NODE_NUMA_USAGE, NUMAUsage({0: 6, 1: 2}, {0: 500, 1: 300}, now))
    metrics.set_fact(PODS_NUMA_USAGE, {"podresource": NUMAUsage({}, {0: 100, 1: 350}, now)})
    return node


def test_the_system_uses_what_nothing_else_does(node):
    node.collect()
    assert node.values("sys_cpu_usage") == 2
    assert node.values("sys_memory_usage") == 250
    assert node.values("sys_numa_cpu_usage", numa_node_id="0") == 1.5
    assert node.values("sys_numa_cpu_usage", numa_node_id="1") == 0.5
    assert node.values("sys_numa_memory_usage", numa_node_id="0") == 400
    assert node.values("sys_numa_memory_usage", numa_node_id="1") == 0


def test_usage_is_never_negative(node):
    now = node.clock.now().timestamp()
    node.handle.metrics.set_fact(NODE_USAGE, Usage(1, 1, now))
    node.collect()
    assert (node.values("sys_cpu_usage"), node.values("sys_memory_usage")) == (0, 0)


@pytest.mark.parametrize("missing", ALL)
def test_a_missing_part_prevents_all(node, missing):
    node.handle.metrics.set_fact(missing, None)
    node.collect()
    assert node.missing("sys_cpu_usage")


def test_parts_that_are_older_than_the_interval_are_not_used(node):
    node.collect(seconds=10)
    assert node.count("sys_cpu_usage") == 1
    node.collect(seconds=0.5)
    assert node.count("sys_cpu_usage") == 1


def test_outdated_parts_by_numa_node_leave_only_these_out(node):
    old = node.clock.now().timestamp() - 11
    node.handle.metrics.set_fact(PODS_NUMA_USAGE, {"podresource": NUMAUsage({}, {0: 100}, old)})
    node.collect()
    assert node.values("sys_numa_cpu_usage", numa_node_id="0") == 1.5
    assert node.missing("sys_numa_memory_usage", numa_node_id="0")


def test_without_cpu_usage_by_numa_node_shares_are_0(node):
    now = node.clock.now().timestamp()
    node.handle.metrics.set_fact(NODE_NUMA_USAGE, NUMAUsage({0: 0, 1: 0}, {}, now))
    node.collect()
    assert node.values("sys_numa_cpu_usage", numa_node_id="0") == 0
