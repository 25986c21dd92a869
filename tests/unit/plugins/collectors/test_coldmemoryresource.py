import pytest

from koordpy.agent.interface.facts import COLD_MEMORY_MEASURED
from koordpy_plugins.collectors.coldmemoryresource.idle_page_stats import cold_bytes
from koordpy_plugins.collectors.coldmemoryresource.plugin import ColdMemoryResource
from tests.unit.plugins.collectors.node_files import BEST_EFFORT, V1, NodeFiles, pod

POD = f"{BEST_EFFORT}/kubepods-besteffort-podu.slice"
TYPES = [a + b + c + d for d in "ia" for c in "eu" for b in "sf" for a in "cd"]


def stats(cold):
    """Return the text of memory.idle_page_stats: every type has `cold` bytes in each of the eight ages."""
    head = ["# version: 1.0", "# page_scans: 24", "# slab_scans: 0", "# scan_period_in_seconds: 120"]
    head += ["# use_hierarchy: 1", "# buckets: 1,2,5,15,30,60,120,240"] + ["#"] * 8
    rows = [f"  {name} " + " ".join([str(cold)] * 8) for name in [*TYPES, "slab"]]
    return "\n".join([*head, *rows]) + "\n"


def test_cold_pages_are_inactive_file_pages_of_the_last_three_ages():
    assert cold_bytes(stats(10)) == 4 * 3 * 10
    with pytest.raises(ValueError, match="has 1 lines, expected 31"):
        cold_bytes("one\n")


def test_cold_memory_and_usage_without_it(tmp_path):
    node = NodeFiles(tmp_path, ColdMemoryResource, pod("u"), version=V1)
    for name in ("scan_period_in_seconds", "use_hierarchy"):
        node.write(node.sys / f"kernel/mm/kidled/{name}", "0\n")
    node.write(node.proc / "meminfo", "MemTotal: 10 kB\nMemFree: 2 kB\nMemAvailable: 4 kB\n")
    node.cgroup("", memory__idle_page_stats=stats(10))
    node.cgroup("kubepods.slice", memory__idle_page_stats=stats(10))
    node.cgroup(POD, memory__idle_page_stats=stats(1))
    node.memory(POD, 50)
    assert node.collector.idle_reason() is None
    node.collect()
    assert (node.sys / "kernel/mm/kidled/scan_period_in_seconds").read_text().strip() == "5"
    assert (node.sys / "kernel/mm/kidled/use_hierarchy").read_text().strip() == "1"
    assert node.values("node_memory_cold_page_size") == 120
    assert node.values("node_memory_with_hot_page_usage") == 8 * 1024 - 120
    assert node.values("pod_memory_cold_page_size", pod_uid="u") == 12
    assert node.values("pod_memory_with_hot_page_usage", pod_uid="u") == 356 - 12
    assert node.fact(COLD_MEMORY_MEASURED) is True


def test_a_kernel_without_kidled_is_named(tmp_path):
    node = NodeFiles(tmp_path, ColdMemoryResource, version=V1)
    assert node.collector.idle_reason().startswith("the kernel does not have kidled")
