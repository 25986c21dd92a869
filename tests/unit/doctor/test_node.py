import os

import pytest

from koordpy.agent.cgroups import kernel
from koordpy.agent.engine.plugins import Installed
from koordpy.doctor.node import examine
from koordpy.settings import Settings

V2_FILES = {
    "cpu.weight": "100",
    "cpu.max": "max 100000",
    "cpu.max.burst": "0",
    "memory.max": "max",
    "memory.min": "0",
    "memory.high": "max",
    "cpuset.cpus": "",
}


@pytest.fixture
def node(tmp_path):
    """Return a function that examines a v2 node with a systemd kubelet."""
    group = tmp_path / "cgroup" / "kubepods.slice"
    group.mkdir(parents=True)
    (tmp_path / "cgroup" / "cgroup.controllers").write_text("cpu memory")
    for name, text in V2_FILES.items():
        (group / name).write_text(text)
    (tmp_path / "proc/sys/vm").mkdir(parents=True)
    (tmp_path / "proc/sys/vm/min_free_kbytes").write_text("67584")
    (tmp_path / "kubelet").mkdir()

    def run(gates=None, flags=None):
        folders = {"var-lib-kubelet-dir": "kubelet", "changes-dir": "changes"}
        agent = {
            "cgroupRoot": str(tmp_path / "cgroup"),
            "procRoot": str(tmp_path / "proc"),
            "sysRoot": str(tmp_path / "sys"),
            "flags": {**{name: str(tmp_path / folder) for name, folder in folders.items()}, **(flags or {})},
        }
        report = examine(Settings.model_validate({"agent": agent, "featureGates": gates or {}}))
        return {(finding.area, finding.subject): finding for finding in report.findings}

    return run


def test_features_are_named_with_the_plugins_that_need_them(node):
    found = node()
    assert found["Kernel", "CPU burst"].state == "ok"
    assert "CPUBurst" in found["Kernel", "CPU burst"].message
    identity = found["Kernel", "group identity"]
    assert (identity.state, "GroupIdentity" in identity.message) == ("note", True)
    assert "Anolis" in identity.fix
    assert found["Kernel", "cache and memory bandwidth allocation"].state == "note"
    assert found["Node", "cgroup driver"].message == "systemd"


def test_the_plugins_that_need_a_feature_exist():
    named = {name for feature in kernel.FEATURES for name in feature.plugins}
    assert named - {name for name, _ in Installed.find()} <= {"coldmemoryresource", "performance"}


def test_files_that_may_not_be_written_are_missing_rights(node, monkeypatch):
    monkeypatch.setattr(os, "access", lambda path, mode: "cpu.max" not in str(path))
    found = node()
    problem = found["Rights", "CFS quota"]
    assert problem.state == "problem"
    assert "CPUSuppresss" in problem.message
    assert ("Kernel", "CFS quota") not in found


def test_memory_protection_that_the_kubelet_writes_is_left_alone(node, tmp_path):
    (tmp_path / "kubelet" / "config.yaml").write_text("featureGates:\n  MemoryQoS: true\n")
    note = node()["Files of others", "MemoryQoS"]
    assert (note.state, "memory.high" in note.message) == ("note", True)


def test_a_node_without_groups_of_pods_is_examined_anyway(node, tmp_path):
    (tmp_path / "cgroup" / "kubepods.slice").rename(tmp_path / "cgroup" / "system.slice")
    found = node()
    assert found["Node", "cgroup driver"].state == "warning"
    assert found["Kernel", "CPU burst"].state == "ok"
