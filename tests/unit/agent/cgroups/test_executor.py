from datetime import UTC, datetime

import pytest

from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.interface import InvalidValueError, UnsupportedError, Update
from koordpy.lib.clock import FakeClock


class Tree:
    """A cgroup tree in a temporary folder."""

    def __init__(self, root, version):
        self.version = version
        self.files = CgroupFiles(root, version)
        self.clock = FakeClock(datetime(2026, 1, 1, tzinfo=UTC))
        self.executor = Executor(self.files, self.clock)

    def put(self, name, directory, text):
        path = self.files.path(name, directory)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def text(self, name, directory):
        return self.files.path(name, directory).read_text()

    def update(self, name, directory, value, **options):
        return self.executor.update(Update(name, directory, value), **options)


@pytest.fixture
def v1(tmp_path):
    return Tree(tmp_path, Version.V1)


@pytest.fixture
def v2(tmp_path):
    return Tree(tmp_path, Version.V2)


def test_a_value_is_written_once_and_again_after_the_force_update_age(v1):
    v1.put("cpu.cfs_quota_us", "a", "-1")
    assert v1.update("cpu.cfs_quota_us", "a", "5000")
    assert v1.text("cpu.cfs_quota_us", "a") == "5000"
    v1.put("cpu.cfs_quota_us", "a", "1")
    assert not v1.update("cpu.cfs_quota_us", "a", "5000")
    v1.clock.advance(61)
    assert v1.update("cpu.cfs_quota_us", "a", "5000")
    assert v1.text("cpu.cfs_quota_us", "a") == "5000"


def test_an_uncached_update_always_reads_the_file(v1):
    v1.put("cpu.cfs_quota_us", "a", "-1")
    v1.update("cpu.cfs_quota_us", "a", "5000", cached=False)
    v1.put("cpu.cfs_quota_us", "a", "1")
    v1.update("cpu.cfs_quota_us", "a", "5000", cached=False)
    assert v1.text("cpu.cfs_quota_us", "a") == "5000"


def test_a_missing_file_is_not_an_error_and_is_tried_again(v1):
    assert not v1.update("cpu.cfs_quota_us", "a", "5000")
    v1.put("cpu.cfs_quota_us", "a", "-1")
    assert v1.update("cpu.cfs_quota_us", "a", "5000")


@pytest.mark.parametrize(
    ("name", "value"), [("cpu.idle", "2"), ("cpuset.cpus", "x"), ("memory.min", "-1"), ("cpu.idle", "on")]
)
def test_a_value_that_the_kernel_would_refuse_is_not_written(v1, name, value):
    v1.put(name, "a", "0")
    with pytest.raises(InvalidValueError):
        v1.update(name, "a", value)
    assert v1.text(name, "a") == "0"


def test_equal_cpu_sets_are_not_rewritten(v1):
    v1.put("cpuset.cpus", "a", "0,1,2\n")
    v1.update("cpuset.cpus", "a", "0-2")
    assert v1.text("cpuset.cpus", "a") == "0,1,2\n"


def test_v2_has_max_for_unlimited_and_weights_for_shares(v2):
    v2.put("cpu.cfs_quota_us", "a", "5000 100000")
    v2.put("cpu.shares", "a", "100")
    v2.update("cpu.cfs_quota_us", "a", "-1")
    v2.update("cpu.shares", "a", "1024")
    assert v2.files.path("cpu.cfs_quota_us", "a").name == "cpu.max"
    assert v2.text("cpu.cfs_quota_us", "a") == "max"
    assert v2.text("cpu.shares", "a") == "39"


@pytest.mark.parametrize("content", ["max 100000", "5000 100000"])
def test_v2_quota_reads_as_on_v1(v2, content):
    v2.put("cpu.cfs_quota_us", "a", content)
    assert v2.files.cfs_quota("a") == (-1 if content.startswith("max") else 5000)
    assert v2.files.cfs_period("a") == 100000


def test_a_tree_shrinks_from_the_leaves_and_grows_from_the_root(v1):
    for directory in ("p", "p/c"):
        v1.put("cpu.cfs_quota_us", directory, "5000")
    order = []
    write = v1.files.write

    def noting(name, directory, text):
        order.append(directory)
        return write(name, directory, text)

    v1.files.write = noting
    levels = [[Update("cpu.cfs_quota_us", d, "3000")] for d in ("p", "p/c")]
    v1.executor.leveled_update_batch(levels)
    levels = [[Update("cpu.cfs_quota_us", d, "9000")] for d in ("p", "p/c")]
    v1.executor.leveled_update_batch(levels)
    assert order == ["p/c", "p", "p", "p/c"]
    assert v1.text("cpu.cfs_quota_us", "p") == "9000"


def test_one_failure_in_a_batch_does_not_stop_the_rest(v1):
    for name in ("a", "b"):
        v1.put("cpu.idle", name, "0")
    v1.executor.update_batch([Update("cpu.idle", "a", "7"), Update("cpu.idle", "b", "1")])
    assert (v1.text("cpu.idle", "a"), v1.text("cpu.idle", "b")) == ("0", "1")


def test_a_value_that_someone_else_wrote_is_replaced_within_seconds(v1):
    v1.put("cpu.cfs_quota_us", "a", "-1")
    v1.update("cpu.cfs_quota_us", "a", "5000")
    v1.put("cpu.cfs_quota_us", "a", "1")
    v1.clock.advance(6)
    assert v1.update("cpu.cfs_quota_us", "a", "5000")
    assert v1.text("cpu.cfs_quota_us", "a") == "5000"


def test_cpu_sets_of_a_tree_overlap_on_the_way_and_are_exact_in_the_end(v1):
    for directory in ("p", "p/c"):
        v1.put("cpuset.cpus", directory, "0-1")
    seen = []
    write = v1.files.write

    def noting(name, directory, text):
        seen.append((directory, text))
        write(name, directory, text)

    v1.files.write = noting
    v1.executor.leveled_update_batch([[Update("cpuset.cpus", d, "1-2")] for d in ("p", "p/c")])
    assert seen == [("p", "0-2"), ("p/c", "0-2"), ("p/c", "1-2"), ("p", "1-2")]


def test_devices_of_one_file_are_cached_separately(v1):
    name = "blkio.throttle.read_bps_device"
    v1.put(name, "a", "")
    for device in ("8:0", "253:16"):
        assert v1.update(name, "a", f"{device} 2048")
    assert not v1.update(name, "a", "8:0 2048")


def test_a_resctrl_group_needs_the_file_system(tmp_path):
    files = CgroupFiles(tmp_path, Version.V1, sys_root=tmp_path)
    executor = Executor(files, FakeClock(datetime(2026, 1, 1, tzinfo=UTC)))
    with pytest.raises(UnsupportedError):
        executor.create_group("LS")
    (tmp_path / "fs/resctrl").mkdir(parents=True)
    (tmp_path / "fs/resctrl/schemata").write_text("")
    assert executor.create_group("LS")
    assert not executor.create_group("LS")


def test_the_revision_grows_with_what_is_not_in_place_yet(v1):
    v1.put("cpu.cfs_quota_us", "a", "-1")
    executor, seen = v1.executor, [v1.executor.revision]

    def has_grown():
        seen.append(executor.revision)
        return seen[-1] > seen[-2]

    v1.update("cpu.cfs_quota_us", "a", "5000")
    assert has_grown()
    v1.update("cpu.cfs_quota_us", "a", "5000")
    v1.clock.advance(6)
    v1.update("cpu.cfs_quota_us", "a", "5000")  # compared with the file
    assert not has_grown()
    v1.put("cpu.cfs_quota_us", "a", "1")  # by others
    v1.clock.advance(6)
    v1.update("cpu.cfs_quota_us", "a", "5000")
    assert has_grown()
    v1.update("cpu.cfs_quota_us", "gone", "5000")  # never in place
    assert has_grown()
    assert executor.of("plugin").revision == executor.revision
