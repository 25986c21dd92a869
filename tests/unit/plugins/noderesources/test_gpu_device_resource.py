"""GPUs of a Device as resources and labels of its node."""

from typing import Any

import pytest

from koordpy.api import extension
from koordpy.api.device import Device
from koordpy.controllers.noderesource.interface import PluginError
from koordpy.controllers.slo.node_state import NodeState
from koordpy_plugins.noderesources.gpudeviceresource.plugin import GATE, GPUDeviceResource

from .one_node import OneNode, node

CORE, MEMORY, RATIO = extension.GPU_CORE, extension.GPU_MEMORY, extension.GPU_MEMORY_RATIO


def gpu(minor: int, *, health: bool = True) -> dict[str, Any]:
    amounts = {CORE: "100", MEMORY: "16Gi", RATIO: "100"}
    return {"id": f"gpu-{minor}", "minor": minor, "type": "gpu", "health": health, "resources": amounts}


def stage(*devices: dict[str, Any], shared: bool = False, **labels: str) -> OneNode[GPUDeviceResource]:
    made: OneNode[GPUDeviceResource] = OneNode(GPUDeviceResource, gates={GATE: shared})
    named = {f"node.koordinator.sh/{name.replace('_', '-')}": value for name, value in labels.items()}
    made.put(Device, metadata={"labels": named}, spec={"devices": list(devices)})
    return made


def test_healthy_gpus_are_summed_up_and_others_left_out() -> None:
    made = stage(gpu(0), gpu(1, health=False), gpu(2), {"id": "nic", "type": "rdma", "health": True})
    found = made.prepared(node())
    assert found.allocatable == found.capacity
    assert found.allocatable is not None
    assert {name: found.allocatable[name] for name in (CORE, MEMORY, RATIO, extension.GPU)} == {
        CORE: "200",
        MEMORY: "32Gi",
        RATIO: "200",
        extension.GPU: "200",
    }
    assert extension.GPU_SHARED not in found.allocatable


@pytest.mark.parametrize(("vendor", "has_gpu"), [("", True), ("nvidia", True), ("huawei", False)])
def test_the_resource_gpu_is_of_nvidia_or_unknown_cards_alone(vendor: str, *, has_gpu: bool) -> None:
    made = stage(gpu(0), gpu_vendor=vendor)
    assert (extension.GPU in made.calculate(node()).quantities) is has_gpu


def test_the_gate_adds_a_hundred_shares_for_each_healthy_card() -> None:
    made = stage(gpu(0), gpu(1), gpu(2, health=False), shared=True)
    found = made.prepared(node())
    assert (found.allocatable or {})[extension.GPU_SHARED] == "200"


def test_without_a_device_or_a_healthy_card_all_resources_go() -> None:
    had = node(gpu="100", gpu_core="100", gpu_memory="16Gi", gpu_memory_ratio="100")
    absent: OneNode[GPUDeviceResource] = OneNode(GPUDeviceResource)
    for made in (absent, stage(gpu(0, health=False)), stage({"id": "nic", "type": "rdma", "health": True})):
        assert made.prepared(had).allocatable == {"cpu": "8", "memory": "16Gi"}
        assert set(made.calculate(had).messages.values()) == {"reset node gpu resources"}


def test_a_resource_that_the_cards_do_not_list_any_more_stays() -> None:
    card = gpu(0)
    del card["resources"][RATIO]
    found = stage(card).prepared(node(gpu_memory_ratio="200"))
    assert (found.allocatable or {})[RATIO] == "200"


def test_a_resource_that_is_not_known_is_computed_and_not_written() -> None:
    card = gpu(0)
    card["resources"]["example.com/tiles"] = "4"
    made = stage(card)
    assert "example.com/tiles" in made.calculate(node()).quantities
    assert "example.com/tiles" not in (made.prepared(node()).allocatable or {})


def test_labels_are_copied_and_never_removed() -> None:
    made = stage(gpu(0), gpu_model="A100", gpu_vendor="nvidia")
    before = node({extension.LABEL_GPU_DRIVER_VERSION: "550", "other": "x"})
    found = made.prepared(before)
    assert found.labels == {
        extension.LABEL_GPU_MODEL: "A100",
        extension.LABEL_GPU_VENDOR: "nvidia",
        extension.LABEL_GPU_DRIVER_VERSION: "550",
        "other": "x",
    }
    reason = made.plugin.need_sync_meta(made.strategy, before, found)
    assert reason == f"gpu device label {extension.LABEL_GPU_VENDOR} changed"
    assert made.plugin.need_sync_meta(made.strategy, found, made.prepared(found)) == ""


@pytest.mark.parametrize(
    ("before", "is_due"),
    [
        ({}, True),
        ({"gpu": "200", "gpu_core": "200", "gpu_memory": "32Gi", "gpu_memory_ratio": "200"}, False),
        ({"gpu": "200", "gpu_core": "200", "gpu_memory": "30Gi", "gpu_memory_ratio": "200"}, False),
        ({"gpu": "200", "gpu_core": "200", "gpu_memory": "28Gi", "gpu_memory_ratio": "200"}, True),
    ],
)
def test_a_write_is_due_where_an_amount_differs_by_more_than_the_threshold(
    before: dict[str, str], *, is_due: bool
) -> None:
    made, had = stage(gpu(0), gpu(1)), node({}, {}, **before)
    reason = made.plugin.need_sync(made.strategy, had, made.prepared(had))
    assert reason == ("gpu resource diff is big than threshold" if is_due else "")


def test_a_node_without_allocatable_resources_is_refused() -> None:
    with pytest.raises(PluginError, match="missing essential arguments"):
        stage(gpu(0)).calculate(NodeState("n"))


def test_devices_that_come_change_and_go_have_their_node_reconciled() -> None:
    made = stage(gpu(0))
    assert made.enqueued == ["n"]
    made.put(Device, metadata={"annotations": {"a": "b"}}, spec={"devices": [gpu(0)]})
    assert made.enqueued == ["n"]
    made.put(Device, spec={"devices": [gpu(0, health=False)]})
    assert made.enqueued == ["n", "n"]
    made.cluster.store(Device).discard("n")
    assert made.enqueued == ["n", "n", "n"]
