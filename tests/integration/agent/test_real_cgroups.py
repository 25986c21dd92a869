"""The executor on the kernel's own files; on a folder that looks like them where there are none to write."""

import pytest

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.table import Version
from koordpy.agent.interface import CgroupError, UnsupportedError, Update
from koordpy.lib import cpuset
from koordpy.lib.clock import SystemClock
from tests.cgroups.tree import CgroupTree
from tests.eventually import eventually

QOS = "kubepods/besteffort"
POD = f"{QOS}/podu1"


@pytest.fixture
def executor(node_cgroups):
    node_cgroups.make(POD)
    return Executor(node_cgroups.files, SystemClock())


def test_a_quota_is_set_and_removed(node_cgroups, executor):
    assert executor.update(Update("cpu.cfs_quota_us", POD, "20000"))
    assert node_cgroups.files.cfs_quota(POD) == 20000
    assert executor.update(Update("cpu.cfs_quota_us", POD, "-1"))
    assert node_cgroups.files.cfs_quota(POD) == -1


def test_quotas_of_a_tree_shrink_and_grow_although_no_child_may_exceed_its_parent(node_cgroups, executor):
    for quota in ("50000", "20000", "80000", "-1"):
        executor.leveled_update_batch([[Update("cpu.cfs_quota_us", each, quota)] for each in (QOS, POD)])
        found = [node_cgroups.files.cfs_quota(each) for each in (QOS, POD)]
        assert found == [int(quota)] * 2


def test_cpus_of_a_tree_move_although_a_parent_needs_those_of_its_children(node_cgroups, executor):
    everything = sorted(node_cgroups.files.cpus(QOS))
    for cpus in ({everything[0]}, {everything[-1]}, set(everything)):
        text = cpuset.render(cpus)
        executor.leveled_update_batch([[Update("cpuset.cpus", each, text)] for each in (QOS, POD)])
        assert [node_cgroups.files.cpus(each) for each in (QOS, POD)] == [cpus] * 2


def test_a_memory_limit_is_set_and_removed(node_cgroups, executor):
    executor.update(Update("memory.limit_in_bytes", POD, str(64 << 20)))
    assert node_cgroups.files.memory_limit(POD) == 64 << 20
    executor.update(Update("memory.limit_in_bytes", POD, "-1"))
    assert node_cgroups.files.memory_limit(POD) == -1
    assert not executor.update(Update("memory.limit_in_bytes", POD, "-1"))


def test_what_the_kernel_refuses_is_an_error_that_names_the_file(node_cgroups, executor):
    if not node_cgroups.real:
        pytest.skip("a folder accepts everything")
    executor.update(Update("cpu.cfs_quota_us", POD, "20000"))
    with pytest.raises(CgroupError, match=POD):
        executor.update(Update("cpu.cfs_quota_us", POD, "1"))


def test_a_group_that_ends_while_its_files_are_open_is_gone(node_cgroups):
    files = node_cgroups.files
    node_cgroups.make(POD)
    assert files.cpu_usage_ns(POD) >= 0
    node_cgroups.remove(POD)
    with pytest.raises(UnsupportedError):
        files.cpu_usage_ns(POD)


def test_a_burner_uses_cpu_time_and_is_found_in_its_group(node_cgroups):
    node_cgroups.make(POD)
    burner = node_cgroups.burn(POD)
    assert burner.pid in node_cgroups.files.processes(POD)
    if node_cgroups.real:
        assert eventually(lambda: node_cgroups.files.cpu_usage_ns(POD) > 10_000_000)


def test_pressure_is_read(v2_cgroups):
    v2_cgroups.make(POD)
    assert v2_cgroups.files.pressure("cpu", POD).some.total_us >= 0


def test_a_machine_without_writable_cgroups_has_a_folder_that_looks_like_them(tmp_path):
    tree = CgroupTree(tmp_path, Version.V1, frozenset({"a controller that no kernel has"}))
    try:
        assert not tree.real
        assert "looks like" in tree.description
        tree.make(POD)
        assert tree.burn(POD).pid in tree.files.processes(POD)
        assert tree.files.cfs_quota(POD) == -1
    finally:
        tree.close()


def test_closing_a_tree_ends_its_processes_and_removes_its_groups(tmp_path):
    tree = CgroupTree(tmp_path, Version.V1, frozenset({"cpu"}))
    tree.make(POD)
    held = tree.hold(POD, 1 << 20)
    folder = (tree.root / "cpu").resolve()
    tree.close()
    assert held.poll() is not None
    assert tree.real is not folder.exists()
