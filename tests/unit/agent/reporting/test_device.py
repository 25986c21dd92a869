"""The Device of a node: what it says, and when it is written."""

from typing import Any

import pytest

from koordpy.agent.interface.facts import (
    DeviceStatus,
    GPUDevice,
    GPUDriver,
    PeerLink,
    RDMADevice,
    XPUDevice,
    XPUTopology,
)
from koordpy.agent.reporting.device_object import created, updated
from koordpy.agent.reporting.device_spec import DeviceSpec, spec_of
from koordpy.api.core import Node
from koordpy.api.scheme import decode

NOW, LATER = "2026-01-01T00:00:00Z", "2026-01-01T00:01:00Z"
NODE = decode(Node, {"metadata": {"name": "n1", "uid": "u1"}})
GIB = 1 << 30
GPU = GPUDevice("GPU-1", 1, 80 * GIB, 0, "pci0000:3a", "0000:3b:00.0")
OTHER = GPUDevice("GPU-0", 0, 8000)
A100 = GPUDriver("A100-SXM4-80GB", "550.54")


def spec(gpus=(), xpus=(), cards=(), driver=A100, **kwargs) -> DeviceSpec:
    return spec_of(gpus, driver, tuple(xpus), cards, **kwargs)


def test_gpus_are_sorted_by_minor_and_have_all_of_their_resources():
    found = spec([GPU, OTHER])
    whole = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    common = {"type": "gpu", "health": True}
    assert found.devices == [
        {"id": "GPU-0", "minor": 0, "resources": whole | {"koordinator.sh/gpu-memory": "8000"}, **common},
        {
            "id": "GPU-1",
            "minor": 1,
            "resources": whole | {"koordinator.sh/gpu-memory": "80Gi"},
            "topology": {"socketID": -1, "nodeID": 0, "pcieID": "pci0000:3a", "busID": "0000:3b:00.0"},
            **common,
        },
    ]
    assert found.annotations == {}
    assert found.labels == {
        "node.koordinator.sh/gpu-vendor": "nvidia",
        "node.koordinator.sh/gpu-model": "A100-SXM4-80GB",
        "node.koordinator.sh/gpu-driver-version": "550.54",
    }


def test_an_unknown_model_has_no_label():
    assert spec([GPU], driver=GPUDriver()).labels == {"node.koordinator.sh/gpu-vendor": "nvidia"}
    assert spec().labels == {}


@pytest.mark.parametrize(
    ("status", "condition"),
    [
        (DeviceStatus(True), ("True", "DeviceHealthy", "device is healthy")),
        (DeviceStatus(False, "Xid48", "Xid error"), ("False", "Xid48", "Xid error")),
        (DeviceStatus(False), ("False", "Unknown", "device is unhealthy")),
        (DeviceStatus(False, "-8001"), ("False", "Unknown", "device is unhealthy (error code -8001)")),
        (DeviceStatus(False, "a b", "x" * 40000), ("False", "Unknown", "x" * 32768)),
    ],
)
def test_the_condition_says_what_is_known_of_the_health(status, condition):
    [device] = spec([GPUDevice("g", 0, 1, status=status)]).devices
    assert device["health"] is status.healthy
    [given] = device["conditions"]
    assert (given["type"], given["status"], given["reason"], given["message"]) == ("Healthy", *condition)


def test_rdma_cards_come_after_gpus_with_their_virtual_functions():
    cards = [
        RDMADevice("0000:3c:00.0", 1, 1, "pci0000:3a", False, ("0000:3c:00.2", "0000:3c:00.1")),
        RDMADevice("0000:3b:00.0", 0, 0, "", True),
        RDMADevice("0000:3d:00.0", 2, 0, "", True, ()),
    ]
    gpu, first, second, third = spec([OTHER], cards=cards).devices
    assert [gpu["type"], first["type"]] == ["gpu", "rdma"]
    assert first == {
        "id": "0000:3b:00.0",
        "minor": 0,
        "type": "rdma",
        "health": True,
        "resources": {"koordinator.sh/rdma": "100"},
        "topology": {"socketID": -1, "nodeID": 0, "pcieID": "", "busID": "0000:3b:00.0"},
    }
    functions = [{"minor": -1, "busID": "0000:3c:00.1"}, {"minor": -1, "busID": "0000:3c:00.2"}]
    assert (second["health"], second["vfGroups"]) == (False, [{"vfs": functions}])
    assert third["vfGroups"] == [{}]


def xpu(minor: int, *links: tuple[str, str], honor: bool = False, uuid: str = "", **kwargs: Any) -> XPUDevice:
    peers = tuple(PeerLink(*link) for link in links) or None
    topology = XPUTopology(0, "p", "b", peers, honor)
    fields = {"resources": {"huawei.com/npu-core": "32"}, "topology": topology, **kwargs}
    return XPUDevice("huawei", "Ascend-910B", uuid or f"u-{minor}", minor, **fields)


def test_described_accelerators_replace_gpus():
    found = spec([GPU], [xpu(0, uuid="b"), xpu(1, uuid="a")])
    assert [device["id"] for device in found.devices] == ["b", "a"]  # by minor in the end
    assert found.labels == {
        "node.koordinator.sh/gpu-vendor": "huawei",
        "node.koordinator.sh/gpu-model": "Ascend-910B",
    }
    assert spec([GPU], only_described=True) == DeviceSpec()


def test_resources_of_described_accelerators(caplog):
    resources = {"gpu-core": "100", "gpu-memory": "32768Mi", "huawei.com/npu-dvpp": "x"}
    [device] = spec(xpus=[xpu(0, resources=resources, topology=None)]).devices
    assert device["resources"] == {
        "koordinator.sh/gpu-memory-ratio": "100",
        "koordinator.sh/gpu-core": "100",
        "koordinator.sh/gpu-memory": "32Gi",
    }
    assert "topology" not in device
    assert "resource huawei.com/npu-dvpp of device u-0 is not reported" in caplog.text


def test_links_become_partitions_by_their_size():
    linked = [
        xpu(0, ("1,2,3,g," + "9" * 5000, "HCCS"), ("1", "HCCS"), honor=True),
        xpu(1, ("0,2,3", "HCCS"), ("", "X")),
    ]
    found = spec(xpus=linked)
    [table] = found.annotations.items()
    assert table == (
        "scheduling.koordinator.sh/gpu-partitions",
        '{"2":[{"minors":[0,1],"gpuLinkType":"HCCS","allocationScore":1}],'
        '"4":[{"minors":[0,1,2,3],"gpuLinkType":"HCCS","allocationScore":1}]}',
    )
    assert found.labels["node.koordinator.sh/gpu-partition-policy"] == "Honor"
    assert spec(xpus=[xpu(0, ("1", "HCCS"))]).labels["node.koordinator.sh/gpu-partition-policy"] == "Prefer"
    assert "node.koordinator.sh/gpu-partition-policy" not in spec(xpus=[xpu(0)]).labels


def test_a_label_that_the_api_server_would_refuse_is_left_out(caplog):
    found = spec([GPU], driver=GPUDriver("Quadro RTX 6000/8000", "550"))
    assert "node.koordinator.sh/gpu-model" not in found.labels
    assert found.labels["node.koordinator.sh/gpu-driver-version"] == "550"
    assert "label node.koordinator.sh/gpu-model of the Device is left out" in caplog.text


# --- the object ------------------------------------------------------------------------------------


def test_a_new_object_belongs_to_its_node():
    document = created(NODE, spec([GPU]), NOW)
    assert (document["apiVersion"], document["kind"]) == ("scheduling.koordinator.sh/v1alpha1", "Device")
    assert document["metadata"]["name"] == "n1"
    [owner] = document["metadata"]["ownerReferences"]
    expected = {"apiVersion": "v1", "kind": "Node", "name": "n1", "uid": "u1"}
    assert owner == expected | {"controller": True, "blockOwnerDeletion": True}
    assert created(NODE, spec(), NOW)["spec"] == {}


def test_an_object_that_says_the_same_is_not_written():
    found = created(NODE, spec([GPU, OTHER]), NOW)
    found["spec"]["devices"].reverse()
    found["spec"]["devices"][0] |= {"conditions": [], "labels": {}}
    assert updated(found, spec([GPU, OTHER]), LATER) is None


def test_labels_and_annotations_are_those_of_the_devices_as_in_koordinator():
    found = created(NODE, spec([GPU]), NOW)
    found["metadata"] |= {"resourceVersion": "7", "annotations": {"a": "b"}}
    changed = updated(found, spec([GPU]), LATER)
    assert changed is not None
    assert "annotations" not in changed["metadata"]
    assert changed["metadata"]["resourceVersion"] == "7"
    assert changed["metadata"]["labels"] == found["metadata"]["labels"]


def test_a_condition_keeps_its_time_until_the_status_changes():
    def gpu(status):
        return spec([GPUDevice("g", 0, 1, status=status)])

    def time(document):
        return document["spec"]["devices"][0]["conditions"][0]["lastTransitionTime"]

    found = created(NODE, gpu(DeviceStatus(False, "Xid48")), NOW)
    assert time(found) == NOW
    assert updated(found, gpu(DeviceStatus(False, "Xid48")), LATER) is None
    worse = updated(found, gpu(DeviceStatus(False, "Xid79")), LATER)
    assert worse is not None
    assert time(worse) == NOW
    better = updated(found, gpu(DeviceStatus(True)), LATER)
    assert better is not None
    assert time(better) == LATER
