"""Network cards with RDMA, read from a folder that looks like sysfs."""

import pytest

from koordpy.agent.interface.facts import RDMA_DEVICES, RDMADevice
from koordpy_plugins.collectors.rdma.plugin import RDMA
from tests.unit.plugins.collectors.node_files import NodeFiles
from tests.unit.plugins.collectors.pci_devices import PCIDevices

ON = {"Accelerators": True, "RDMADevices": True}


@pytest.fixture
def node(tmp_path):
    return NodeFiles(tmp_path, RDMA, gates=ON)


@pytest.fixture
def pci(node):
    return PCIDevices(node.sys)


def cards(node) -> tuple[RDMADevice, ...]:
    node.collect()
    return node.fact(RDMA_DEVICES)


def test_a_card_with_its_place_health_and_virtual_functions(node, pci):
    card = pci.add("0000:3b:00.0", numa_node=1)
    pci.add_rdma(card, "mlx5_1", "4: ACTIVE", "4: ACTIVE")
    pci.add_functions(card, "0000:3b:00.3", "0000:3b:00.2")
    pci.add_rdma(node.sys / "bus/pci/devices/0000:3b:00.2", "mlx5_2", "4: ACTIVE")
    assert cards(node) == (
        RDMADevice("0000:3b:00.0", 1, 1, "pci0000:3a", True, ("0000:3b:00.2", "0000:3b:00.3")),
    )


def test_a_card_is_healthy_if_all_of_its_ports_are_up(node, pci):
    pci.add_rdma(pci.add("0000:3b:00.0", numa_node=-1), "mlx5_0", "4: ACTIVE", "1: DOWN")
    pci.add_rdma(pci.add("0000:3c:00.0"), "mlx5_1")
    first, second = cards(node)
    assert (first.healthy, second.healthy) == (False, False)
    assert first.numa_node == 0  # as in Koordinator, no NUMA node counts as node 0
    assert first.virtual_functions is None


def test_what_is_no_network_card_is_left_out(node, pci):
    pci.add_rdma(pci.add("0000:3b:00.0", class_=0x030200), "mlx5_0", "4: ACTIVE")
    assert cards(node) == ()


def test_a_name_without_minor_and_a_card_without_numa_node_are_named(node, pci, caplog):
    pci.add_rdma(pci.add("0000:3b:00.0"), "rocep59s0", "4: ACTIVE")
    broken = pci.add("0000:3c:00.0")
    (broken / "numa_node").write_text("?\n")
    pci.add_rdma(broken, "mlx5_4", "4: ACTIVE")
    pci.add_rdma(pci.add("0000:3d:00.0"), "mlx5_3", "4: ACTIVE")
    assert [card.minor for card in cards(node)] == [3]
    assert "RDMA device rocep59s0 is not reported" in caplog.text
    assert "numa_node: got '?', expected a number" in caplog.text
    caplog.clear()
    node.collect()
    assert not caplog.text


def test_a_node_without_rdma_has_no_cards(node):
    assert node.collector.idle_reason() is None
    assert cards(node) == ()


def test_cards_are_not_looked_for_while_devices_are_not_reported(tmp_path):
    node = NodeFiles(tmp_path, RDMA, gates={"RDMADevices": True})
    assert node.collector.idle_reason() == "devices are reported only with the feature gate Accelerators"
    node = NodeFiles(tmp_path, RDMA, gates=ON, flags={"node-topology-sync-interval": "0s"})
    assert "--node-topology-sync-interval is 0" in node.collector.idle_reason()
