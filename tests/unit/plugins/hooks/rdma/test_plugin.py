import json

import pytest

from koordpy.agent.interface.hook import (
    ContainerRequest,
    HookError,
    PodRequest,
    Response,
    Stage,
)
from koordpy_plugins.hooks.rdma import plugin
from koordpy_plugins.hooks.rdma.plugin import RDMADeviceInject
from tests.hooks.node import HookNode

PHYSICAL, VIRTUAL = "0000:3b:00.0", "0000:3b:00.2"


@pytest.fixture
def hook(node_cgroups, tmp_path, monkeypatch):
    for address, name in ((PHYSICAL, "uverbs0"), (VIRTUAL, "uverbs2")):
        (tmp_path / "sys/bus/pci/devices" / address / "infiniband_verbs" / name).mkdir(parents=True)
    (tmp_path / "dev").mkdir()
    for name in ("rdma_cm", "uverbs0", "uverbs2"):
        (tmp_path / "dev" / name).touch()
    monkeypatch.setattr(plugin, "DEVICES", tmp_path / "dev")
    node = HookNode(node_cgroups, RDMADeviceInject, roots=(tmp_path, tmp_path / "sys"))
    return node.hooks[RDMADeviceInject]


def devices(hook, *allocations):
    annotations = {"scheduling.koordinator.sh/device-allocated": json.dumps({"rdma": list(allocations)})}
    response = Response()
    hook.container(ContainerRequest(PodRequest("d", "p", "u", {}, annotations, ""), "c"), response)
    return [device.path.rpartition("/")[2] for device in response.devices]


def test_a_container_gets_the_verbs_devices_of_its_allocation(hook):
    functions = {"minor": 1, "id": PHYSICAL, "extension": {"vfs": [{"minor": 2, "busID": VIRTUAL}]}}
    assert devices(hook, functions) == ["rdma_cm", "uverbs2"]
    assert devices(hook, {"minor": 0, "id": PHYSICAL}) == ["rdma_cm", "uverbs0"]


def test_a_container_without_an_allocation_gets_none(hook):
    assert devices(hook) == []


@pytest.mark.parametrize("address", ["0000:00:00.0", "../../etc", ""])
def test_an_unknown_device_is_an_error(hook, address):
    with pytest.raises(HookError, match="RDMA device"):
        devices(hook, {"minor": 0, "id": address})


def test_it_runs_before_a_container_is_created_and_is_refused_where_nothing_calls_it(hook):
    assert [each.stage for each in hook.stages()] == [Stage.PRE_CREATE_CONTAINER]
    assert "no container runtime" in str(hook.refusal())
