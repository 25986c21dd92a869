"""Memory QoS on the kernel's own files; on a folder that looks like them where there are none to write."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from koordpy.agent.cgroups.table import Version
from koordpy.api.koordinator import NodeSLO
from koordpy.testing.cluster import cluster
from koordpy.testing.node import PluginOnNode, set_up
from koordpy_plugins.qos.cgreconcile import CgroupReconcile
from tests.cgroups.tree import CgroupTree
from tests.unit.plugins.qos.documents import node, pod, slo

MIB = 1 << 20
POD = pod("u1", requests={"memory": "64Mi"}, limits={"memory": "128Mi"})


def memory_qos(**values: object) -> NodeSLO:
    return slo(resourceQOSStrategy={"lsClass": {"memoryQOS": values}})


ON = memory_qos(enable=True, minLimitPercent=50, lowLimitPercent=100, throttlingPercent=50)


@pytest.fixture
def memory_cgroups(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[CgroupTree]:
    """Yield v2 cgroups with the memory controller, or a folder."""
    tree = CgroupTree(tmp_path, Version.V2, frozenset({"memory"}))
    request.node.user_properties.append(("cgroups", tree.description))
    yield tree
    tree.close()


def on_tree(tree: CgroupTree) -> tuple[PluginOnNode[CgroupReconcile], list[str]]:
    """Return the plugin on a node with one pod, and its directories from the root down."""
    on = set_up(CgroupReconcile, cluster(node(), ON, POD), "n", tree.root, version=tree.version)
    layout = on.handle.layout
    (meta,) = on.handle.states.pods()
    container = layout.container(meta.cgroup_dir, "containerd://u1c")
    directories = [layout.kubepods, layout.qos("Burstable"), meta.cgroup_dir, container]
    for directory in (*directories, layout.qos("BestEffort")):
        tree.make(directory)
    return on, directories


def test_protection_and_throttling_come_and_go(memory_cgroups: CgroupTree) -> None:
    on, directories = on_tree(memory_cgroups)
    on.plugin.reconcile()
    files = memory_cgroups.files
    for directory in directories:
        assert files.integer("memory.min", directory) == 32 * MIB
        assert files.integer("memory.low", directory) == 64 * MIB
    assert files.integer("memory.high", directories[-1]) == 96 * MIB

    on.handle.cluster.store(NodeSLO).apply(memory_qos(enable=False))
    on.plugin.reconcile()
    for directory in directories:
        assert files.integer("memory.min", directory) == files.integer("memory.low", directory) == 0
    assert files.integer("memory.high", directories[-1]) >= 2**63 - 4096


def test_a_kernel_without_the_files_is_left_alone_and_named(
    node_cgroups: CgroupTree, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    on, _ = on_tree(node_cgroups)
    if on.handle.cgroups.supported("memory.min", on.handle.layout.kubepods) is None:
        pytest.skip("this kernel has the files")
    on.plugin.reconcile()
    on.plugin.reconcile()
    assert caplog.text.count("this node has no memory.min, memory.low, memory.high") == 1
    assert "cannot update" not in caplog.text
