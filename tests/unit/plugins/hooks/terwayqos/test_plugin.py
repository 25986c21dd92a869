import json

import pytest

from koordpy.agent.interface import StateType
from koordpy_plugins.hooks.terwayqos.plugin import FOLDER_FLAG, NODE_FILE, POD_FILE, TerwayQoS
from tests.hooks.node import HookNode

SPEC = {"containers": [{"name": "c0"}]}
LIMITS = '{"ingressLimit": "80M", "egressLimit": "8M"}'


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "terway"


@pytest.fixture
def node(node_cgroups, folder):
    return HookNode(node_cgroups, TerwayQoS, flags={FOLDER_FLAG: str(folder)})


def network(node, policy="terway-qos", **ls):
    node.node_slo(
        systemStrategy={"totalNetworkBandwidth": "10G"},
        resourceQOSStrategy={
            "policies": {"netQOSPolicy": policy},
            "lsClass": {"networkQOS": {"enable": True, **ls}},
        },
    )


def test_the_files_name_bandwidths_in_bytes_and_priorities_of_pods(node, folder):
    node.pod("a", SPEC, qos="LS", annotations={"koordinator.sh/networkQOS": LIMITS})
    node.pod("b", SPEC)
    node.pod("c", SPEC, annotations={"koordinator.sh/networkQOS": "{"})
    network(node, egressLimit="800M", ingressRequest="80M")
    lines = dict(line.split() for line in (folder / NODE_FILE).read_text().splitlines())
    assert lines["hw_tx_bps_max"] == "1250000000"
    assert (lines["offline_l1_tx_bps_max"], lines["offline_l1_rx_bps_min"]) == ("100000000", "10000000")
    pods = json.loads((folder / POD_FILE).read_text())
    assert {uid: pod["prio"] for uid, pod in pods.items()} == {"a": 1, "b": 2}
    assert pods["a"]["qosConfig"] == {"ingressBandwidth": 10_000_000, "egressBandwidth": 1_000_000}


def test_pods_that_come_later_are_written(node, folder):
    network(node)
    node.pod("a", SPEC)
    node.send(StateType.ALL_PODS)
    assert set(json.loads((folder / POD_FILE).read_text())) == {"a"}


def test_another_policy_removes_the_files(node, folder):
    network(node)
    network(node, policy="tc")
    assert list(folder.iterdir()) == []


def test_an_invalid_bandwidth_keeps_the_old_one(node, folder):
    network(node, egressLimit="8M")
    before = (folder / NODE_FILE).read_text()
    network(node, egressLimit="900G")
    assert (folder / NODE_FILE).read_text() == before


def test_nothing_is_written_before_a_node_slo(node, folder):
    node.pod("a", SPEC)
    node.send(StateType.ALL_PODS)
    assert not folder.exists()
