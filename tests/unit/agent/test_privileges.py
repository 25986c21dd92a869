"""What the agent lacks of the privileges that its plugins need, for its log and its metrics."""

import logging
from pathlib import Path

import pytest

from koordpy.agent.cgroups.files import CgroupFiles
from koordpy.agent.cgroups.table import Version
from koordpy.agent.engine import privileges
from koordpy.agent.engine.agent import declared_flags
from koordpy.agent.engine.plugins import Installed
from koordpy.agent.engine.privileges import MISSING, Held, Missing
from koordpy.api.needs import Privilege, PrivilegeNeed
from koordpy.lib.feature_gates import FeatureGates

ALL_CAPABILITIES = "CapEff:\t000001ffffffffff\n"


@pytest.fixture
def node(tmp_path):
    """Return a function that tells what is missing on a node of these files."""
    for folder in ("cgroup", "proc/sys", "sys/fs", "own/self/ns", "own/1", "kubelet"):
        (tmp_path / folder).mkdir(parents=True)
    (tmp_path / "own/self/status").write_text("CapEff:\t0000000000000020\n")
    (tmp_path / "own/self/ns/pid").touch()
    (tmp_path / "own/self/cgroup").write_text("0::/\n")
    (tmp_path / "own/1/cgroup").write_text("0::/\n")

    def held(version=Version.V2):
        files = CgroupFiles(
            tmp_path / "cgroup", version, proc_root=tmp_path / "proc", sys_root=tmp_path / "sys"
        )
        return Held(files, tmp_path / "kubelet", tmp_path / "terway", tmp_path / "own")

    return held


def need(privilege, **options):
    return PrivilegeNeed(privilege=privilege, purpose="a purpose", without="nothing works", **options)


def test_capabilities_are_those_in_effect(node):
    assert node().lacks(Privilege.KILL) is None
    assert node().lacks(Privilege.SYS_PTRACE) == "the container does not have it"


def test_process_1_in_another_cgroup_is_the_nodes(node, tmp_path):
    assert node().lacks(Privilege.HOST_PID) == "the container has a PID namespace of its own"
    (tmp_path / "own/1/cgroup").write_text("0::/init.scope\n")
    assert node().lacks(Privilege.HOST_PID) is None


def test_the_first_pid_namespace_of_the_kernel_is_the_nodes():
    # Whether tests run in one or not, this says the same as the kernel.
    is_first = Path("/proc/self/ns/pid").stat().st_ino == 0xEFFFFFFC
    held = Held(CgroupFiles(Path("/sys/fs/cgroup"), Version.V1))
    assert not is_first or held.lacks(Privilege.HOST_PID) is None


def test_resctrl_must_be_mounted(node, tmp_path):
    assert node().lacks(Privilege.SYS_FS) == f"resctrl is not mounted at {tmp_path}/sys/fs/resctrl"
    (tmp_path / "sys/fs/resctrl/info/L3").mkdir(parents=True)
    (tmp_path / "sys/fs/resctrl/info/L3/cbm_mask").write_text("ff\n")
    assert node().lacks(Privilege.SYS_FS) is None


def test_folders_that_do_not_exist_are_named(node, tmp_path):
    assert node().lacks(Privilege.TERWAY) == f"{tmp_path}/terway: No such file or directory"
    assert node().lacks(Privilege.KUBELET) is None


def test_what_a_node_does_not_have_needs_no_privilege(node, tmp_path):
    needs = [
        need(Privilege.HOST_PID, cgroup_v1=True),
        need(Privilege.SYS_PTRACE, cpu_flag="cat_l3"),
        need(Privilege.SYS_RESOURCE, proc_file="sys/kernel/sched_core"),
    ]
    assert list(node().missing("p", needs)) == []
    (tmp_path / "proc/cpuinfo").write_text("flags\t\t: fpu cat_l3\n")
    (tmp_path / "proc/sys/kernel").mkdir()
    (tmp_path / "proc/sys/kernel/sched_core").touch()
    assert [each.need for each in node(Version.V1).missing("p", needs)] == needs


def wanted(gates, flags):
    installed = Installed.find()
    chosen = FeatureGates(installed.gate_specs(), gates)
    types = {type_.name: type_ for type_ in installed.types() if type_.is_switched_on(chosen)}
    found = privileges.needs(types, chosen, declared_flags(installed, flags))
    return {(name, each.privilege) for name, needs in found for each in needs if each.on_every_node is False}


def test_killing_takes_privileges_and_eviction_through_the_api_server_none():
    by_killing = wanted({"CPUEvict": True}, {}) - wanted({}, {})
    assert by_killing == {("CPUEvict", Privilege.HOST_PID), ("CPUEvict", Privilege.KILL)}
    assert wanted({"CPUEvict": True}, {"only-evict-by-api": True}) == wanted({}, {})


def test_what_is_missing_is_logged_and_exported(caplog):
    missing = Missing("OOMScoreAdj", need(Privilege.HOST_PID), "the container has its own")
    with caplog.at_level(logging.WARNING):
        privileges.warn([missing])
    assert caplog.messages == [
        "missing privilege: OOMScoreAdj lacks hostPID (the container has its own): nothing works"
    ]
    assert MISSING.labels("hostPID", "OOMScoreAdj")._value.get() == 1
    privileges.warn([])
    assert next(iter(MISSING.collect())).samples == []


@pytest.mark.parametrize("privilege", list(Privilege))
def test_every_privilege_can_be_looked_for(node, privilege):
    reason = node().lacks(privilege)
    assert reason is None or reason
