"""Each privilege of the agent's container is taken away: what fails then is said, and nothing else fails.

With it, the same works. Capabilities, PID namespaces and read-only mounts are real ones, where the machine
lets a test have them.
"""

import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests import privileged
from tests.cgroups.tree import CgroupTree
from tests.eventually import eventually
from tests.privileged import needs_root

pytestmark = needs_root

POD = "kubepods/besteffort/pod0c2b11f2"
CONTAINER = f"{POD}/id-a"

NOBODY = 65534

Start = Callable[[int], "subprocess.Popen[bytes]"]


@pytest.fixture
def start() -> Iterator[Start]:
    """Return a function that starts a process of a user, which sleeps until it is killed."""
    started: list[subprocess.Popen[bytes]] = []

    def sleeping(user: int) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(["sleep", "600"], user=user)
        started.append(process)
        return process

    yield sleeping
    for process in started:
        process.kill()
        process.wait()


# --- killing containers: hostPID, CAP_KILL ---------------------------------------------------------

KILL = """
import logging, sys
from pathlib import Path
from koordpy.agent.cgroups.containers import KILLED, ContainerKiller
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.interface import CgroupLayout
from koordpy.api.core import Pod
from koordpy.api.scheme import decode

logging.basicConfig()
status = {"name": "a", "containerID": "containerd://id-a", "state": {"running": {}}}
pod = decode(Pod, {
    "metadata": {"name": "p", "namespace": "d", "uid": "0c2b11f2"},
    "spec": {"containers": [{"name": "a"}]},
    "status": {"qosClass": "BestEffort", "containerStatuses": [status]},
})
files = CgroupFiles(Path(sys.argv[1]))
ContainerKiller(files, CgroupLayout(systemd=False)).kill(pod, "test")
for result in ("killed", "failed"):
    print(result, int(KILLED.labels(result)._value.get()))
"""


@pytest.fixture
def victim(node_cgroups: CgroupTree, start: Start) -> "subprocess.Popen[bytes]":
    """A container's process of another user, on cgroup v1."""
    if not node_cgroups.real or node_cgroups.files.unified:
        pytest.skip("needs real cgroups v1")
    node_cgroups.make(POD)
    node_cgroups.make(CONTAINER)
    process = start(NOBODY)
    node_cgroups.attach(CONTAINER, process.pid)
    return process


def test_without_cap_kill_containers_of_other_users_live_and_the_log_says_why(
    node_cgroups: CgroupTree, victim: "subprocess.Popen[bytes]"
) -> None:
    said = privileged.run(KILL, node_cgroups.root)
    assert "the agent needs CAP_KILL" in said
    assert "failed 1" in said
    assert victim.poll() is None
    assert "killed 1" in privileged.run(KILL, node_cgroups.root, capabilities=["KILL"])
    assert eventually(lambda: victim.poll() is not None)


def test_without_host_pid_no_container_is_killed_on_v1_and_the_log_says_why(
    node_cgroups: CgroupTree, victim: "subprocess.Popen[bytes]"
) -> None:
    said = privileged.run(KILL, node_cgroups.root, capabilities=["KILL"], own_pids=True)
    assert "the agent needs hostPID" in said
    assert "failed 1" in said
    assert victim.poll() is None


def test_cgroup_v2_kills_containers_without_any_privilege(v2_cgroups: CgroupTree, start: Start) -> None:
    if not v2_cgroups.real or not (v2_cgroups.root / "cgroup.kill").exists():
        pytest.skip("needs real cgroups v2 and Linux 5.14")
    v2_cgroups.make(POD)
    v2_cgroups.make(CONTAINER)
    process = start(NOBODY)
    v2_cgroups.attach(CONTAINER, process.pid)
    assert "killed 1" in privileged.run(KILL, v2_cgroups.root, own_pids=True)
    assert eventually(lambda: process.poll() is not None)


# --- processes of containers: hostPID ----------------------------------------------------------------

PROCESSES = """
import sys
from pathlib import Path
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.interface import CgroupError

files = CgroupFiles(Path(sys.argv[1]))
for ids in (files.processes, files.threads):
    try:
        print("found", *ids(sys.argv[2]))
    except CgroupError as error:
        print(error)
"""


def test_without_host_pid_processes_are_an_error_and_never_the_agent_itself(
    v2_cgroups: CgroupTree, start: Start
) -> None:
    # To prctl and to resctrl the process 0, which cgroup v2 shows then, is the caller.
    if not v2_cgroups.real:
        pytest.skip("needs real cgroups v2")
    process = start(0)
    v2_cgroups.attach("kubepods", process.pid)
    assert f"found {process.pid}" in privileged.run(PROCESSES, v2_cgroups.root, "kubepods")
    said = privileged.run(PROCESSES, v2_cgroups.root, "kubepods", own_pids=True)
    assert said.count("the agent needs hostPID") == 2


# --- OOM scores: CAP_DAC_OVERRIDE, CAP_SYS_RESOURCE --------------------------------------------------

WRITE = """
import sys
from pathlib import Path
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.engine.privileges import Held
from koordpy.agent.interface import CgroupError, Update
from koordpy.api.needs import Privilege
from koordpy.lib.clock import SystemClock

root, proc, resource, directory, value, privilege = sys.argv[1:]
files = CgroupFiles(Path(root), proc_root=Path(proc), sys_root=Path(proc).parent / "sys")
print("lacks", Held(files).lacks(Privilege(privilege)))
try:
    print("written", Executor(files, SystemClock()).update(Update(resource, directory, value)))
except CgroupError as error:
    print(error)
"""


def score(process: "subprocess.Popen[bytes]") -> str:
    return Path(f"/proc/{process.pid}/oom_score_adj").read_text().strip()


def test_without_cap_dac_override_scores_of_other_users_stay(tmp_path: Path, start: Start) -> None:
    process = start(NOBODY)
    before = score(process)
    of_process = (tmp_path, "/proc", "oom_score_adj", process.pid, 900, "CAP_DAC_OVERRIDE")
    said = privileged.run(WRITE, *of_process)
    assert "lacks the container does not have it" in said
    assert "Permission denied" in said
    assert score(process) == before
    said = privileged.run(WRITE, *of_process, capabilities=["DAC_OVERRIDE"])
    assert "lacks None\nwritten True" in said
    assert score(process) == "900"


def test_without_cap_sys_resource_scores_are_not_lowered(tmp_path: Path, start: Start) -> None:
    process = start(NOBODY)
    before = score(process)
    of_process = (tmp_path, "/proc", "oom_score_adj", process.pid, -900, "CAP_SYS_RESOURCE")
    said = privileged.run(WRITE, *of_process, capabilities=["DAC_OVERRIDE"])
    assert "lacks the container does not have it" in said
    assert "Permission denied" in said
    assert score(process) == before
    if privileged.held("SYS_RESOURCE"):
        said = privileged.run(WRITE, *of_process, capabilities=["DAC_OVERRIDE", "SYS_RESOURCE"])
        assert "lacks None\nwritten True" in said
        assert score(process) == "-900"


# --- counting cycles: CAP_PERFMON --------------------------------------------------------------------

COUNT = """
import os, sys
from pathlib import Path
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.engine.privileges import Held
from koordpy.api.needs import Privilege
from koordpy_plugins.collectors.cpi.perf_events import Counters, Event, explain

print("lacks", Held(CgroupFiles(Path("/sys/fs/cgroup"))).lacks(Privilege.PERFMON))
cgroup = os.open(sys.argv[1], os.O_RDONLY | os.O_DIRECTORY)
cpu = min(os.sched_getaffinity(0))
try:
    counters = Counters(cgroup, cpu, [Event(1, 0)], grouped=False)  # the clock of the CPU
    print("counted", counters.read())
    counters.close()
except OSError as error:
    print(explain(error, "2"))
"""


def test_without_cap_perfmon_nothing_is_counted_and_the_reason_names_it(v2_cgroups: CgroupTree) -> None:
    group = v2_cgroups.root / "kubepods"
    counts = v2_cgroups.real and "\nperf_event\t" in Path("/proc/cgroups").read_text()
    paranoid = int(Path("/proc/sys/kernel/perf_event_paranoid").read_text())
    said = privileged.run(COUNT, group)
    assert "lacks the container does not have it" in said
    if counts and paranoid > 0:  # otherwise everybody may count
        assert "the agent may not count: it needs CAP_PERFMON" in said
    if privileged.held("PERFMON"):
        said = privileged.run(COUNT, group, capabilities=["PERFMON"])
        assert "lacks None" in said
        assert ("counted [" in said) is counts


# --- folders of the node -----------------------------------------------------------------------------


def test_with_cgroups_mounted_read_only_nothing_is_enforced_and_each_failure_is_an_error(
    node_cgroups: CgroupTree,
) -> None:
    files = node_cgroups.files
    of_quota = (node_cgroups.root, "/proc", "cpu.shares", "kubepods/besteffort", 512, "/sys/fs/cgroup")
    top = node_cgroups.root if files.unified else (node_cgroups.root / "cpu").resolve()
    said = privileged.run(WRITE, *of_quota, read_only=str(top))
    assert "Read-only file system" in said
    assert files.cpu_shares("kubepods/besteffort") == 1024
    assert "written True" in privileged.run(WRITE, *of_quota)
    assert files.cpu_shares("kubepods/besteffort") == 512


@pytest.mark.parametrize(
    ("privilege", "file", "resource", "value"),
    [
        ("/proc", "proc/sys/vm/min_free_kbytes", "vm.min_free_kbytes", 20000),
        ("/sys", "sys/kernel/mm/memcg_reaper/reap_background", "memcg_reaper.reap_background", 1),
    ],
)
def test_kernel_settings_in_a_read_only_folder_are_not_written(
    tmp_path: Path, privilege: str, file: str, resource: str, value: int
) -> None:
    for folder in ("cgroup", "proc/sys", "sys"):
        (tmp_path / folder).mkdir(parents=True)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("0\n")
    of_setting = (tmp_path / "cgroup", tmp_path / "proc", resource, "", value, privilege)
    said = privileged.run(WRITE, *of_setting, read_only=str(tmp_path))
    assert "is mounted read-only" in said
    assert "Read-only file system" in said
    assert path.read_text() == "0\n"
    assert "lacks None\nwritten True" in privileged.run(WRITE, *of_setting)
    assert path.read_text().strip() == str(value)


RESCTRL = """
import sys
from pathlib import Path
from koordpy.agent.cgroups.executor import Executor
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.engine.privileges import Held
from koordpy.agent.interface import CgroupError
from koordpy.api.needs import Privilege
from koordpy.lib.clock import SystemClock

files = CgroupFiles(Path(sys.argv[1]), sys_fs_root=Path(sys.argv[2]))
print("lacks", Held(files).lacks(Privilege.SYS_FS))
try:
    print("created", Executor(files, SystemClock()).create_group("BE"))
except CgroupError as error:
    print(error)
"""


def test_resctrl_groups_need_the_mount_and_cap_dac_override(tmp_path: Path) -> None:
    root = tmp_path / "fs" / "resctrl"
    root.mkdir(parents=True)
    said = privileged.run(RESCTRL, tmp_path, tmp_path / "fs")
    assert "is not mounted" in said
    assert "is no resctrl file system" in said
    (root / "info" / "L3").mkdir(parents=True)
    (root / "info" / "L3" / "cbm_mask").write_text("ff\n")
    (root / "schemata").write_text("L3:0=ff\n")
    root.chmod(0o555)  # as the kernel's
    said = privileged.run(RESCTRL, tmp_path, tmp_path / "fs")
    assert "lacks None" in said
    assert "Permission denied" in said
    assert not (root / "BE").exists()
    assert "created True" in privileged.run(RESCTRL, tmp_path, tmp_path / "fs", capabilities=["DAC_OVERRIDE"])


NAMESPACE = """
from pathlib import Path
from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.engine.privileges import Held
from koordpy.api.needs import Privilege
print(Held(CgroupFiles(Path("/sys/fs/cgroup"))).lacks(Privilege.HOST_PID))
"""


def test_a_pid_namespace_of_its_own_is_found() -> None:
    assert "PID namespace of its own" in privileged.run(NAMESPACE, own_pids=True)


# --- the node's traffic: CAP_NET_ADMIN ----------------------------------------------------------------

TRAFFIC = """
import asyncio
from koordpy_plugins.hooks.tcnetworkqos import traffic

try:
    print("removed", asyncio.run(traffic.remove()))
except Exception as error:
    print(traffic.explain(error))
"""


def test_without_cap_net_admin_no_traffic_is_shaped_and_the_log_says_why() -> None:
    if not privileged.held("NET_ADMIN"):
        pytest.skip("needs CAP_NET_ADMIN to take it away")
    said = privileged.run(TRAFFIC, capabilities=["NET_ADMIN"], own_network=True)
    if "the kernel lacks" in said:
        pytest.skip("needs nf_tables")
    assert "removed False" in said
    assert "the agent lacks the privilege CAP_NET_ADMIN" in privileged.run(TRAFFIC, own_network=True)
