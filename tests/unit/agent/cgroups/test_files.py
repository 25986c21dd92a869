import pytest

from koordpy.agent.cgroups.files import CgroupFiles, Version
from koordpy.agent.interface import CgroupError, UnsupportedError

STAT_V1 = "cache 9\ntotal_cache 1\ntotal_rss 2\ntotal_inactive_anon 5\ntotal_active_anon 6\n" + (
    "total_inactive_file 3\ntotal_active_file 4\ntotal_unevictable 7\n"
)
STAT_V2 = "anon 2\nfile 1\ninactive_anon 5\nactive_anon 6\ninactive_file 3\nactive_file 4\nunevictable 7\n"


class Tree(CgroupFiles):
    def put(self, name, directory, text):
        path = self.path(name, directory)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


@pytest.fixture(params=[Version.V1, Version.V2], ids=["v1", "v2"])
def tree(request, tmp_path):
    return Tree(tmp_path, request.param, proc_root=tmp_path / "proc", sys_root=tmp_path / "sys")


def test_shares_quota_and_period_read_as_on_v1(tree):
    v2 = tree.unified
    tree.put("cpu.shares", "a", "39" if v2 else "1024")
    tree.put("cpu.cfs_period_us", "a", "7000 50000" if v2 else "50000")
    if not v2:
        tree.put("cpu.cfs_quota_us", "a", "7000")
    assert tree.cpu_shares("a") == (998 if v2 else 1024)
    assert (tree.cfs_quota("a"), tree.cfs_period("a")) == (7000, 50000)


def test_memory_reads_as_on_v1(tree):
    tree.put("memory.stat", "a", STAT_V2 if tree.unified else STAT_V1)
    tree.put("memory.limit_in_bytes", "a", "max" if tree.unified else "9223372036854771712")
    stat = tree.memory_stat("a")
    assert (stat.cache, stat.rss, stat.inactive_file, stat.active_file) == (1, 2, 3, 4)
    assert (stat.usage, stat.usage_with_page_cache, tree.memory_in_use("a")) == (18, 3, 18)
    assert tree.memory_limit("a") == -1


def test_numa_memory_is_in_pages(tree):
    text = "anon N0=4096 N1=8192\nfile N0=4096 N1=0\n" if tree.unified else "total=4 N0=2 N1=2\nfile=1 N0=1\n"
    tree.put("memory.numa_stat", "a", text)
    assert tree.numa_memory("a") == {0: 2, 1: 2}


def test_pressure_may_lack_the_line_full(tree):
    tree.put("cpu.pressure", "a", "some avg10=1.50 avg60=2.00 avg300=0.10 total=77\n")
    stall = tree.pressure("cpu", "a")
    assert (stall.some.avg10, stall.some.total_us, stall.full) == (1.5, 77, None)


def test_broken_files_are_named(tree):
    tree.put("cpu.pressure", "a", "none\n")
    tree.put("memory.stat", "a", "\n")
    for read in (lambda: tree.pressure("cpu", "a"), lambda: tree.memory_stat("a")):
        with pytest.raises(CgroupError, match=str(tree.root)):
            read()


def test_ids_are_sorted(tree):
    tree.put("cgroup.procs", "a", "30\n4\n")
    assert tree.processes("a") == (4, 30)


def test_files_outside_of_cgroups_are_resources(tree, tmp_path):
    assert tree.path("vm.min_free_kbytes", "") == tmp_path / "proc/sys/vm/min_free_kbytes"
    assert tree.path("oom_score_adj", "77") == tmp_path / "proc/77/oom_score_adj"
    assert tree.path("resctrl.schemata", "LS") == tmp_path / "sys/fs/resctrl/LS/schemata"
    assert tree.path("kidled.use_hierarchy", "") == tmp_path / "sys/kernel/mm/kidled/use_hierarchy"


def test_what_the_parent_of_all_pods_has_is_supported(tree):
    assert "kubepods" in tree.path("cpu.idle", "kubepods").parts
    assert tree.supported("cpu.idle", "kubepods/a") is not None
    tree.put("cpu.idle", "kubepods", "0")
    assert tree.supported("cpu.idle", "kubepods/a") is None
    assert tree.supported("cpu.bvt_warp_ns", "kubepods/a") is not None
    assert tree.supported("cpu.shares", "kubepods/a") is None
    assert tree.supported("nonsense") == "resource type nonsense not registered"


def test_a_cgroup_that_ended_is_unsupported(tree):
    with pytest.raises(UnsupportedError):
        tree.cpu_shares("gone")


def test_an_empty_value_is_written_as_an_empty_line(tree):
    tree.put("cpuset.cpus", "a", "0-3")
    tree.write("cpuset.cpus", "a", "")
    assert tree.path("cpuset.cpus", "a").read_text() == "\n"


def test_ids_are_appended_for_moving_tasks(tree):
    tree.put("cgroup.procs", "a", "")
    for number in ("7", "8"):
        tree.write("cgroup.procs", "a", number)
    assert tree.processes("a") == (7, 8)
