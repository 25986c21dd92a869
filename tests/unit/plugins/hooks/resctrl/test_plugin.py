import pytest

from koordpy.agent.interface import StateType
from koordpy_plugins.hooks.resctrl.plugin import Resctrl
from tests.hooks.node import HookNode

SPEC = {"containers": [{"name": "c0"}]}
HALF = '{"llc": {"schemata": {"range": [0, 50]}}, "mb": {"schemata": {"percent": 30}}}'
ANNOTATION = "node.koordinator.sh/resctrl"


@pytest.fixture
def sys_root(tmp_path):
    root = tmp_path / "sys" / "fs" / "resctrl"
    (root / "info" / "L3").mkdir(parents=True)
    (root / "info" / "L3" / "cbm_mask").write_text("ff\n")
    (root / "schemata").write_text("    L3:0=ff;1=ff\n    MB:0=100;1=100\n")
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc" / "cpuinfo").write_text("vendor_id\t: GenuineIntel\nflags\t: cat_l3 mba\n")
    return root


@pytest.fixture
def node(node_cgroups, sys_root, tmp_path):
    return HookNode(node_cgroups, Resctrl, roots=(tmp_path / "proc", tmp_path / "sys"))


def group(sys_root, name):
    """Make a group with the files that the kernel makes."""
    (sys_root / name).mkdir()
    (sys_root / name / "schemata").write_text("L3:0=ff;1=ff\nMB:0=100;1=100\n")
    (sys_root / name / "tasks").write_text("")


def test_an_annotated_pod_gets_a_group_with_its_threads(node, sys_root):
    group(sys_root, "koordlet-p")
    directory = node.pod("p", SPEC, annotations={ANNOTATION: HALF})
    process = node.tree.hold(f"{directory}/pc0", 4096)
    node.runtime.round()
    text = (sys_root / "koordlet-p" / "schemata").read_text()
    assert "L3:0=f;1=f" in text or "MB:0=30;1=30" in text  # a folder keeps the last line only
    assert str(process.pid) in (sys_root / "koordlet-p" / "tasks").read_text()


def test_the_group_is_created_first(node, sys_root):
    node.pod("p", SPEC, annotations={ANNOTATION: HALF})
    node.runtime.round()
    assert (sys_root / "koordlet-p").is_dir()


def test_groups_of_pods_that_are_gone_are_removed_and_others_kept(node, sys_root):
    for name in ("koordlet-gone", "koordlet-p", "LSR"):
        (sys_root / name).mkdir()
    node.pod("p", SPEC, annotations={ANNOTATION: HALF})
    node.send(StateType.ALL_PODS)
    found = {path.name for path in sys_root.iterdir() if path.is_dir()}
    assert found == {"info", "koordlet-p", "LSR"}


def test_a_broken_annotation_gets_no_group(node, sys_root):
    node.pod("p", SPEC, annotations={ANNOTATION: "{"})
    node.runtime.round()
    assert not (sys_root / "koordlet-p").exists()


def test_a_node_without_the_file_system_refuses_the_hook(node_cgroups, tmp_path, caplog):
    node = HookNode(node_cgroups, Resctrl, roots=(tmp_path, tmp_path))
    assert node.runtime.hooks == []
    assert "cbm_mask does not exist" in caplog.text
