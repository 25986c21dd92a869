import pytest

from koordpy.agent.cgroups.table import Version
from koordpy_plugins.hooks.groupidentity.plugin import GroupIdentity
from tests.cgroups.tree import CgroupTree
from tests.hooks.node import HookNode

SPEC = {"containers": [{"name": "c0"}]}
ENABLED = {"lsrClass": 2, "lsClass": 2, "beClass": -1}


@pytest.fixture
def node(tmp_path):
    """A node whose kernel has group identity and a switch for it, in a folder."""
    switch = tmp_path / "proc" / "sys" / "kernel" / "sched_group_identity_enabled"
    switch.parent.mkdir(parents=True)
    switch.write_text("0")
    tree = CgroupTree(tmp_path, Version.V1, frozenset({"a controller that no kernel has"}))
    yield HookNode(tree, GroupIdentity, roots=(tmp_path / "proc", tmp_path / "sys"))
    tree.close()


def switch(node):
    return (node.handle.proc_root / "sys/kernel/sched_group_identity_enabled").read_text().strip()


def identities(node, *directories):
    root = node.tree.root / "cpu"
    return [(root / each / "cpu.bvt_warp_ns").read_text().strip() for each in directories]


def give_files(node, *directories):
    for each in ("kubepods", "kubepods/burstable", "kubepods/besteffort", *directories):
        (node.tree.root / "cpu" / each / "cpu.bvt_warp_ns").write_text("0")


def enable(node, **classes):
    node.node_slo(
        resourceQOSStrategy={
            name: {"cpuQOS": {"enable": True, "groupIdentity": value}} for name, value in classes.items()
        }
    )


def test_turning_on_switches_the_kernel_on_and_writes_everything_at_once(node):
    ls = node.pod("a", SPEC, qos="LS", kube_qos="Burstable")
    be = node.pod("b", SPEC, qos="BE")
    give_files(node, ls, f"{ls}/ac0", be, f"{be}/bc0")
    enable(node, **ENABLED)
    assert switch(node) == "1"
    assert identities(node, "kubepods", "kubepods/burstable", "kubepods/besteffort") == ["0", "2", "-1"]
    assert identities(node, ls, f"{ls}/ac0", be, f"{be}/bc0") == ["2", "2", "-1", "-1"]


def test_pods_that_the_agent_does_not_know_have_the_identity_of_their_directory(node):
    node.tree.make("kubepods/besteffort/podunknown")
    give_files(node, "kubepods/besteffort/podunknown")
    enable(node, **ENABLED)
    assert identities(node, "kubepods/besteffort/podunknown") == ["-1"]


def test_an_annotation_of_a_latency_sensitive_pod_counts_in_the_next_round(node):
    own = {"koordinator.sh/cpuQOS": '{"groupIdentity": 1, "enable": true}'}
    directory = node.pod("a", SPEC, qos="LS", kube_qos="Burstable", annotations=own)
    give_files(node, directory)
    enable(node, **ENABLED)
    node.runtime.round()
    assert identities(node, directory) == ["1"]


def test_nothing_is_written_while_it_is_off_here_and_in_the_kernel(node):
    directory = node.pod("a", SPEC, qos="LS")
    give_files(node, directory)
    node.node_slo()
    node.runtime.round()
    assert node.runtime.updates() == []


def test_turning_off_resets_identities_and_leaves_the_switch(node):
    directory = node.pod("a", SPEC, qos="LS", kube_qos="Burstable")
    give_files(node, directory)
    enable(node, **ENABLED)
    node.node_slo()
    node.runtime.round()
    assert identities(node, directory, "kubepods/besteffort") == ["0", "0"]
    assert switch(node) == "1"
