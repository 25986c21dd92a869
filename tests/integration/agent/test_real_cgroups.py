"""The executor on the kernel's own files; on a folder that looks like them where there are none to write."""

import pytest
from click.testing import CliRunner

from koordpy.agent.cgroups.changes import Changes, Place, boot_id
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.table import Version
from koordpy.agent.interface import CgroupError, UnsupportedError, Update
from koordpy.cli import cli
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


@pytest.fixture
def remembering(node_cgroups, tmp_path):
    """Return an executor that remembers changes as a node's agent does, and the options of `koordpy qos`."""
    node_cgroups.make(POD)
    files = node_cgroups.files
    place = Place(str(files.root), files.version.value, "/proc", "/sys", str(tmp_path / "audit"))
    changes = Changes(tmp_path / "changes" / "node", place, boot=boot_id())
    yield Executor(files, SystemClock(), changes=changes), ["--changes-dir", str(tmp_path / "changes")]
    changes.close()


def test_undo_gives_a_tree_its_original_limits_and_keeps_the_agent_away(node_cgroups, remembering, tmp_path):
    executor, options = remembering
    files = node_cgroups.files
    cpus = files.cpus(QOS)
    one = str(min(cpus))
    for directory in (QOS, POD):
        executor.update(Update("cpu.cfs_quota_us", directory, "90000"))
    for directory in (POD, QOS):
        executor.of("CPUSuppress").update_batch(
            [
                Update("cpu.cfs_quota_us", directory, "20000", formula="65% of 1 core - LS 0.45"),
                Update("cpuset.cpus", directory, one),
                Update("memory.limit_in_bytes", directory, str(32 << 20)),
            ]
        )
    shown = CliRunner().invoke(cli, ["qos", "explain", "--offline", QOS, *options])
    assert "65% of 1 core - LS 0.45" in shown.output
    assert "by CPUSuppress" in shown.output
    result = CliRunner().invoke(cli, ["qos", "undo", "--all", *options])
    assert result.exit_code == 0, result.output
    assert f"restore cpu.cfs_quota_us of {POD} to -1" in (tmp_path / "audit" / "audit.log").read_text()
    for directory in (QOS, POD):
        assert files.cfs_quota(directory) == -1
        assert files.cpus(directory) == cpus
        assert files.memory_limit(directory) == -1
    assert not executor.update(Update("cpu.cfs_quota_us", POD, "30000"))
    assert files.cfs_quota(POD) == -1
    assert CliRunner().invoke(cli, ["qos", "enable", "--all", *options]).exit_code == 0
    assert eventually(lambda: executor.update(Update("cpu.cfs_quota_us", POD, "30000")))
    assert files.cfs_quota(POD) == 30000


def test_commands_name_a_folder_without_changes(tmp_path):
    for command in (["explain", "--offline"], ["undo", "--all"], ["enable", "--all"]):
        result = CliRunner().invoke(cli, ["qos", *command, "--changes-dir", str(tmp_path)])
        assert result.exit_code == 1
        assert str(tmp_path) in result.output


def test_what_is_undone_must_be_said_exactly(remembering):
    _, options = remembering
    for wanted in ([], ["--all", "--plugin", "P"], [POD, "--all"]):
        result = CliRunner().invoke(cli, ["qos", "undo", *wanted, *options])
        assert result.exit_code == 1
        assert "one of PATH, --plugin NAME and --all" in result.output


def test_undo_reports_and_keeps_what_someone_else_set_since(node_cgroups, remembering):
    executor, options = remembering
    executor.update(Update("cpu.cfs_quota_us", POD, "20000"))
    node_cgroups.files.write("cpu.cfs_quota_us", POD, "40000")
    result = CliRunner().invoke(cli, ["qos", "undo", POD, *options])
    assert "changed by others" in result.output
    assert node_cgroups.files.cfs_quota(POD) == 40000


def test_values_that_the_kernel_rounds_are_not_taken_for_someone_elses(node_cgroups, remembering):
    executor, _ = remembering
    update = Update("memory.limit_in_bytes", POD, str((64 << 20) + 1))
    assert executor.update(update, cached=False)
    writer = executor.writer
    assert not writer.changed_by_others(update)
    assert not writer.write(update, "")
