import json
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest

from koordpy.agent.cgroups.changes import Changes, Place
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.explanation import directory_of, explain
from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.cgroups.pauses import Pause, Scope
from koordpy.agent.cgroups.undo import Outcome, Undo, enable
from koordpy.agent.interface import CgroupError, Update
from koordpy.lib.clock import FakeClock

ALL = Pause(Scope.ALL)


class Node:
    """A node whose agent, and commands, share a folder with changes."""

    def __init__(self, tmp_path, version=Version.V1):
        self.folder = tmp_path / "changes"
        self.files = CgroupFiles(
            tmp_path / "cgroup", version, proc_root=tmp_path / "proc", sys_root=tmp_path / "sys"
        )
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.start()

    def start(self, boot="1"):
        self.changes = self.open(boot)
        self.executor = Executor(self.files, self.clock, changes=self.changes)

    def open(self, boot="1"):
        root = str(self.files.root)
        place = Place(root, self.files.version.value, str(self.files.proc_root), str(self.files.sys_root))
        return Changes(self.folder, place, boot=boot)

    def put(self, name, directory, text):
        path = self.files.path(name, directory)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def text(self, name, directory):
        return self.files.read_raw(name, directory)

    def update(self, name, directory, value, plugin="P", **more):
        return self.executor.of(plugin).update(Update(name, directory, value, **more))

    def undo(self, pause=ALL, **options):
        results = Undo(self.files, self.open(), **options).run(pause)
        return {(result.change.resource, result.change.directory): result.outcome for result in results}


@pytest.fixture
def node(tmp_path):
    return Node(tmp_path)


def test_everything_gets_its_original_value_although_it_was_changed_often(node):
    node.put("cpu.cfs_quota_us", "a", "70000")
    node.put("cpu.idle", "a", "0")
    for quota in ("5000", "6000", "7000"):
        node.update("cpu.cfs_quota_us", "a", quota)
    node.update("cpu.idle", "a", "1")
    assert set(node.undo().values()) == {Outcome.RESTORED}
    assert (node.text("cpu.cfs_quota_us", "a"), node.text("cpu.idle", "a")) == ("70000", "0")
    assert len(node.open()) == 0


def test_a_value_that_is_set_back_is_forgotten(node):
    node.put("cpu.cfs_quota_us", "a", "-1")
    node.update("cpu.cfs_quota_us", "a", "5000")
    node.update("cpu.cfs_quota_us", "a", "-1")
    assert node.undo() == {}


def test_changes_survive_a_restart_of_the_agent_but_not_of_the_node(node):
    node.put("cpu.idle", "a", "0")
    node.update("cpu.idle", "a", "1", formula="BE is idle")
    node.start()
    assert [change.formula for change in node.changes] == ["BE is idle"]
    node.start(boot="2")
    assert len(node.changes) == 0


def test_a_line_that_a_crash_cut_off_is_dropped(node):
    for name in ("a", "b"):
        node.put("cpu.idle", name, "0")
        node.update("cpu.idle", name, "1")
    path = node.folder / "changes.jsonl"
    path.write_bytes(path.read_bytes()[:-9])
    node.start()
    assert [change.directory for change in node.changes] == ["a"]
    node.update("cpu.idle", "b", "0")
    assert all(json.loads(line) for line in path.read_text().splitlines())


def test_what_cannot_be_written_down_is_remembered_in_memory_and_saved_later(node, caplog):
    path = node.folder / "changes.jsonl"
    for name in ("a", "b", "c"):
        node.put("cpu.idle", name, "0")
    node.update("cpu.idle", "a", "1")
    saved = path.read_bytes()
    path.unlink()
    path.mkdir()
    node.changes._seen = node.changes._stamp()
    assert node.update("cpu.idle", "b", "1")
    assert "in memory alone" in caplog.text
    path.rmdir()
    path.write_bytes(saved)
    assert node.update("cpu.idle", "c", "1")
    assert [change.directory for change in node.open()] == ["a", "b", "c"]


def test_a_folder_that_was_removed_is_made_again(node):
    for name in ("a", "b"):
        node.put("cpu.idle", name, "0")
        node.update("cpu.idle", name, "1")
        shutil.rmtree(node.folder)
    node.update("cpu.idle", "b", "0")
    node.update("cpu.idle", "b", "1")
    assert [change.directory for change in node.open()] == ["a", "b"]


def test_the_file_stays_small_however_often_values_change(node):
    node.put("cpu.cfs_quota_us", "a", "-1")
    for number in range(4000):
        node.update("cpu.cfs_quota_us", "a", str(5000 + number), formula="x" * 300)
    assert (node.folder / "changes.jsonl").stat().st_size < 600 * 1024
    node.start()
    assert [change.written for change in node.changes] == ["8999"]


def test_what_someone_else_changed_since_is_kept_and_said_unless_forced(node):
    node.put("cpu.cfs_quota_us", "a", "-1")
    node.update("cpu.cfs_quota_us", "a", "5000")
    node.put("cpu.cfs_quota_us", "a", "9000")
    assert node.undo() == {("cpu.cfs_quota_us", "a"): Outcome.OTHERS}
    assert node.text("cpu.cfs_quota_us", "a") == "9000"
    assert node.undo(force=True) == {("cpu.cfs_quota_us", "a"): Outcome.RESTORED}
    assert node.text("cpu.cfs_quota_us", "a") == "-1"


def test_a_value_that_someone_else_set_between_two_of_ours_is_the_one_to_restore(node):
    node.put("cpu.cfs_quota_us", "a", "-1")
    node.update("cpu.cfs_quota_us", "a", "5000")
    node.put("cpu.cfs_quota_us", "a", "9000")
    node.update("cpu.cfs_quota_us", "a", "6000")
    node.undo()
    assert node.text("cpu.cfs_quota_us", "a") == "9000"


def test_a_running_agent_stays_away_until_it_is_enabled_again_even_after_a_restart(node):
    node.put("cpu.idle", "a", "0")
    node.update("cpu.idle", "a", "1")
    node.undo()
    for _ in range(2):
        node.clock.advance(70)
        assert not node.update("cpu.idle", "a", "1")
        assert node.text("cpu.idle", "a") == "0"
        node.start()
    assert enable(node.open(), Scope.ALL)
    node.clock.advance(2)
    assert node.update("cpu.idle", "a", "1")
    assert node.text("cpu.idle", "a") == "1"


def test_a_cached_value_is_written_again_after_undo_and_enable(node):
    node.put("cpu.idle", "a", "0")
    node.update("cpu.idle", "a", "1")
    node.undo()
    node.clock.advance(2)
    node.update("cpu.idle", "a", "1")
    enable(node.open(), Scope.ALL)
    node.clock.advance(6)
    assert node.update("cpu.idle", "a", "1")


def test_one_plugin_or_one_part_of_the_tree_is_undone_alone(node):
    for directory in ("a", "a/b", "ab"):
        node.put("cpu.idle", directory, "0")
        node.update("cpu.idle", directory, "1", plugin="Q" if directory == "ab" else "P")
    assert set(node.undo(Pause(Scope.PATH, "a"))) == {("cpu.idle", "a"), ("cpu.idle", "a/b")}
    assert not node.update("cpu.idle", "a/b", "1")
    assert set(node.undo(Pause(Scope.PLUGIN, "Q"))) == {("cpu.idle", "ab")}
    node.put("cpu.idle", "c", "0")
    assert node.update("cpu.idle", "c", "1", plugin="P")
    assert not node.update("cpu.idle", "c", "0", plugin="Q")


def test_a_pause_until_restart_ends_when_the_agent_starts(node):
    pause = Pause(Scope.ALL, until_restart=True)
    node.undo(pause)
    changes = node.open()
    assert changes.pauses.end_with_restart()
    assert not changes.pauses


def test_parents_grow_first_and_cpu_sets_never_leave_their_parent(node):
    for directory in ("p", "p/c"):
        node.put("cpuset.cpus", directory, "0-3")
        node.put("cpu.cfs_quota_us", directory, "90000")
    for directory in ("p/c", "p"):
        node.update("cpuset.cpus", directory, "1")
        node.update("cpu.cfs_quota_us", directory, "5000")
    order = []
    write = CgroupFiles.write

    class Noting(CgroupFiles):
        def write(self, name, directory, text):
            order.append((name, directory))
            write(self, name, directory, text)

    node.files.__class__ = Noting
    assert set(node.undo().values()) == {Outcome.RESTORED}
    assert order.index(("cpuset.cpus", "p")) < order.index(("cpuset.cpus", "p/c"))
    assert order.index(("cpu.cfs_quota_us", "p")) < order.index(("cpu.cfs_quota_us", "p/c"))
    assert node.text("cpuset.cpus", "p/c") == "0-3"


def test_quota_and_period_of_v2_share_a_file_and_both_come_back(tmp_path):
    node = Node(tmp_path, Version.V2)
    node.put("cpu.cfs_quota_us", "a", "max 100000")
    node.update("cpu.cfs_quota_us", "a", "5000")
    node.put("cpu.cfs_quota_us", "a", "5000 100000")
    node.update("cpu.cfs_period_us", "a", "50000")
    assert node.text("cpu.cfs_period_us", "a") == "5000 50000"
    node.changes.close()
    changes = {change.resource: change.original for change in node.open()}
    assert changes == {"cpu.cfs_quota_us": "max", "cpu.cfs_period_us": "100000"}


def test_groups_that_ended_are_dropped_and_later_ones_of_the_same_name_are_new(node):
    node.put("cpu.idle", "a", "0")
    node.put("cpu.idle", "b", "0")
    for directory in ("a", "b"):
        node.update("cpu.idle", directory, "1")
    path = node.files.path("cpu.idle", "b")
    path.unlink()
    path.parent.rmdir()
    node.executor.collect()
    assert [change.directory for change in node.changes] == ["a"]
    folder = node.files.path("cpu.idle", "a").parent
    folder.rename(folder.with_name("old"))
    node.put("cpu.idle", "a", "1")
    assert node.undo() == {("cpu.idle", "a"): Outcome.GONE}
    assert node.text("cpu.idle", "a") == "1"


def test_a_resctrl_group_is_removed(node):
    root = Path(node.files.folder("resctrl.schemata", ""))
    root.mkdir(parents=True)
    (root / "schemata").write_text("L3:0=f\n")
    node.executor.of("P").create_group("LS")
    node.undo()
    assert not (root / "LS").exists()


def test_a_write_that_the_kernel_refuses_is_not_remembered(node):
    node.put("cpu.idle", "a", "0")

    class Refusing(CgroupFiles):
        def write(self, name, directory, text):
            raise CgroupError("no")

    node.files.__class__ = Refusing
    with pytest.raises(CgroupError):
        node.update("cpu.idle", "a", "1")
    assert len(node.open()) == 0


def test_unreadable_pauses_keep_the_agent_away(node):
    node.put("cpu.idle", "a", "0")
    (node.folder / "pauses.json").write_text("{")
    assert not node.update("cpu.idle", "a", "1")
    assert node.text("cpu.idle", "a") == "0"


def test_memory_values_that_the_kubelet_keeps_writing_are_left_to_it(node):
    node.put("memory.high", "a", "max")
    for number in range(10):
        node.put("memory.high", "a", "4096")
        node.clock.advance(10)
        node.update("memory.high", "a", str(8192 + 4096 * number))
    assert node.text("memory.high", "a") == "4096"
    assert "MemoryQoS" in node.executor.writer.left_alone["memory.high"]


def test_explanations_have_the_formula_and_tell_what_others_changed(node):
    node.put("cpu.cfs_quota_us", "kubepods/besteffort", "-1")
    node.update("cpu.cfs_quota_us", "kubepods/besteffort", "5000", reason="R", formula="65% of 4 - 2.55")
    node.put("cpu.cfs_quota_us", "kubepods/besteffort", "9000")
    found = explain(node.files, node.changes, "kubepods")
    (change,) = found["changes"]
    assert change["formula"] == "65% of 4 - 2.55"
    assert (change["original"], change["written"], change["current"]) == ("-1", "5000", "9000")
    assert change["changedByOthers"]
    assert explain(node.files, node.changes, "kube")["changes"] == []


def test_the_uid_of_a_pod_stands_for_its_directory(node):
    uid = "7b0d6f6c-7ef1-4d6a-9c0e-0f5b7a2d1c11"
    directory = f"kubepods.slice/kubepods-pod{uid.replace('-', '_')}.slice/cri-containerd-1.scope"
    for each in (directory, "kubepods.slice"):
        node.put("cpu.idle", each, "0")
        node.update("cpu.idle", each, "1")
    assert [each["directory"] for each in explain(node.files, node.changes, uid)["changes"]] == [directory]


def test_absolute_paths_mean_the_directory_below_the_subsystem(node):
    assert directory_of(node.files, f"{node.files.root}/cpu/kubepods/a/") == "kubepods/a"
    assert directory_of(node.files, "kubepods/a") == "kubepods/a"
