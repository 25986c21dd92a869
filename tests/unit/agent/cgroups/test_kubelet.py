import pytest

from koordpy.agent.cgroups import detection, kubelet

CONFIG = "cgroupDriver: cgroupfs\nfeatureGates:\n  Other: false\n  MemoryQoS: true\n"


@pytest.fixture
def proc(tmp_path):
    """Return a procfs with a kubelet, to whose arguments a test may add."""
    process = tmp_path / "proc" / "77"
    (process / "root" / "etc").mkdir(parents=True)
    (process / "comm").write_text("kubelet\n")
    (process / "cmdline").write_text("kubelet\0--v=2\0")
    return tmp_path / "proc"


def add(proc, *arguments):
    (proc / "77" / "cmdline").write_text("\0".join(["kubelet", *arguments, ""]))


def test_a_configuration_in_the_kubelets_folder_is_read(tmp_path, proc):
    (tmp_path / "config.yaml").write_text(CONFIG)
    found = kubelet.find(tmp_path, proc)
    assert (found.memory_qos, found.cgroup_driver) == (True, "cgroupfs")
    assert set(found.left_alone) == {"memory.min", "memory.low", "memory.high"}
    assert str(tmp_path / "config.yaml") in found.left_alone["memory.high"]


def test_the_command_line_names_a_configuration_in_the_kubelets_own_root(tmp_path, proc):
    (proc / "77" / "root" / "etc" / "kubelet.json").write_text('{\n"featureGates": {\n"MemoryQoS": true}}')
    add(proc, "--config", "/etc/kubelet.json")
    assert kubelet.find(tmp_path, proc).memory_qos is True


def test_the_command_line_overrides_configurations(tmp_path, proc):
    (tmp_path / "config.yaml").write_text(CONFIG)
    add(proc, "--feature-gates=Other=true,MemoryQoS=false", "--cgroup-driver=systemd")
    found = kubelet.find(tmp_path, proc)
    assert (found.memory_qos, found.cgroup_driver, found.left_alone) == (False, "systemd", {})


def test_later_drop_ins_override_the_main_configuration(tmp_path, proc):
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / "config.json.d").mkdir()
    (tmp_path / "config.json.d" / "10.conf").write_text("featureGates:\n  MemoryQoS: false\n")
    assert kubelet.find(tmp_path, proc).memory_qos is False


def test_a_commented_gate_and_no_kubelet_at_all_are_unknown(tmp_path):
    (tmp_path / "config.yaml").write_text("# MemoryQoS: true\n")
    found = kubelet.find(tmp_path, tmp_path / "none")
    assert (found.memory_qos, found.cgroup_driver, found.source) == (None, None, "")


@pytest.mark.parametrize(
    ("folder", "driver", "systemd"),
    [("kubepods", "systemd", False), (None, "cgroupfs", False), (None, None, True)],
)
def test_existing_groups_decide_over_the_kubelets_driver(tmp_path, folder, driver, systemd):
    if folder:
        (tmp_path / "cpu" / folder).mkdir(parents=True)
    assert detection.detect(tmp_path, driver).systemd is systemd
    assert detection.found(tmp_path) is bool(folder)
