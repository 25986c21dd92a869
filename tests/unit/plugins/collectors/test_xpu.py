"""Accelerators that files describe."""

import json
import os
from typing import Any

import pytest

from koordpy.agent.interface.facts import XPU_DEVICES, DeviceStatus, PeerLink, XPUDevice, XPUTopology
from koordpy_plugins.collectors.xpu.plugin import XPU
from tests.unit.plugins.collectors.node_files import NodeFiles

NPU: dict[str, Any] = {
    "vendor": "huawei",
    "model": "Ascend-910B",
    "uuid": "u-1",
    "minor": "1",
    "resources": {"huawei.com/npu-core": "32", "gpu-memory": "32Gi"},
    "topology": {
        "p2pLinks": [{"peerMinor": "0,2", "type": "HCCS"}],
        "mustHonorPartition": True,
        "socketID": "0",
        "nodeID": "1",
        "pcieID": "pci0000:08",
        "busID": "0000:08:00.0",
    },
    "status": {"healthy": False, "errCode": "-8001", "errMessage": "too hot"},
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "infos").mkdir()
    return tmp_path / "infos"


@pytest.fixture
def node(tmp_path, folder):
    return NodeFiles(tmp_path, XPU, flags={"xpu-device-infos-dir": str(folder)})


def devices(node):
    node.collect()
    return node.fact(XPU_DEVICES)


def uuids(node):
    return [device.uuid for device in devices(node)]


def test_a_described_device(node, folder):
    (folder / "npus.json").write_text(json.dumps([NPU]))
    topology = XPUTopology(1, "pci0000:08", "0000:08:00.0", (PeerLink("0,2", "HCCS"),), True)
    status = DeviceStatus(False, "-8001", "too hot")
    expected = XPUDevice("huawei", "Ascend-910B", "u-1", 1, NPU["resources"], topology, status)
    assert devices(node) == (expected,)


def test_what_is_left_out_is_unknown(node, folder):
    (folder / "npus.json").write_text('[{"uuid": "u", "minor": "0", "topology": {}, "more": 1}]')
    [device] = devices(node)
    assert (device.topology, device.status, device.resources) == (XPUTopology(), None, {})


def test_files_are_read_in_their_order_and_folders_ignored(node, folder):
    (folder / "b.json").write_text('[{"uuid": "2", "minor": "2"}]')
    (folder / "a.json").write_text('[{"uuid": "3", "minor": "3"}]')
    (folder / "c.json").write_text("null")
    (folder / "d").mkdir()
    assert uuids(node) == ["3", "2"]
    (folder / "a.json").unlink()
    assert uuids(node) == ["2"]


def test_a_file_that_cannot_be_read_counts_as_it_last_was(node, folder, caplog):
    file = folder / "npus.json"
    file.write_text('[{"uuid": "1", "minor": "1"}]')
    (folder / "other.json").write_text('{"uuid": "no list"}')
    assert uuids(node) == ["1"]
    assert "other.json: not a list of devices" in caplog.text
    file.write_text('[{"uuid": "1", "mi')
    assert uuids(node) == ["1"]
    assert "npus.json: not a list of devices" in caplog.text
    caplog.clear()
    assert uuids(node) == ["1"]
    assert not caplog.text
    file.write_text('[{"uuid": "22", "minor": "2"}]')
    assert uuids(node) == ["22"]


@pytest.mark.parametrize("minor", ["x", "", "-1", "2147483648", "9" * 5000])
def test_a_device_without_a_minor_is_left_out_and_named(node, folder, caplog, minor):
    (folder / "npus.json").write_text(f'[{{"uuid": "1", "minor": "{minor}"}}, {{"uuid": "2", "minor": "2"}}]')
    assert uuids(node) == ["2"]
    assert "device '1' is left out: got minor" in caplog.text


@pytest.mark.parametrize("text", [b'[{"x":' * 100_000, b'[{"uuid":"\xff"}]', b"", b"[null]", b"[[]]"])
def test_hostile_files_are_named(node, folder, caplog, text):
    (folder / "npus.json").write_bytes(text)
    assert devices(node) == ()
    assert "npus.json: " in caplog.text


def test_a_pipe_among_the_files_is_not_waited_for(node, folder, caplog):
    os.mkfifo(folder / "pipe")
    assert devices(node) == ()
    assert "pipe: expected a regular file" in caplog.text


def test_a_numa_node_that_is_no_number_is_unknown(node, folder, caplog):
    (folder / "npus.json").write_text('[{"uuid": "1", "minor": "0", "topology": {"nodeID": "first"}}]')
    [device] = devices(node)
    assert device.topology == XPUTopology()
    assert "got nodeID 'first'" in caplog.text


def test_a_file_that_is_too_large_is_not_read(node, folder, caplog):
    (folder / "npus.json").write_text("[" + " " * (1 << 20) + "]")
    assert devices(node) == ()
    assert "are too many, expected at most 1048576" in caplog.text


def test_without_a_folder_there_are_no_devices(tmp_path):
    node = NodeFiles(tmp_path, XPU, flags={"xpu-device-infos-dir": str(tmp_path / "missing")})
    assert node.collector.idle_reason() is None
    assert devices(node) == ()
