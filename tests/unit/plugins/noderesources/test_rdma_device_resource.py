"""RDMA cards of a Device as a resource of its node."""

from typing import Any

import pytest

from koordpy.api import extension
from koordpy.api.device import Device
from koordpy.controllers.noderesource.interface import PluginError
from koordpy.controllers.slo.node_state import NodeState
from koordpy_plugins.noderesources.rdmadeviceresource.plugin import RDMADeviceResource

from .one_node import OneNode, node


def card(minor: int, *, health: bool = True, type_: str = "rdma") -> dict[str, Any]:
    return {"id": f"{type_}-{minor}", "minor": minor, "type": type_, "health": health}


def stage(*devices: dict[str, Any]) -> OneNode[RDMADeviceResource]:
    made: OneNode[RDMADeviceResource] = OneNode(RDMADeviceResource)
    made.put(Device, spec={"devices": list(devices)})
    return made


def test_each_healthy_card_is_a_hundred() -> None:
    found = stage(card(0), card(1), card(2, health=False), card(3, type_="gpu")).prepared(node())
    assert (found.allocatable or {})[extension.RDMA] == "200"
    assert found.capacity == found.allocatable


def test_without_a_healthy_card_the_resource_goes() -> None:
    absent: OneNode[RDMADeviceResource] = OneNode(RDMADeviceResource)
    for made in (absent, stage(), stage(card(0, health=False)), stage(card(0, type_="gpu"))):
        found = made.prepared(node(rdma="100"))
        assert extension.RDMA not in (found.allocatable or {})
        assert extension.RDMA not in (found.capacity or {})


@pytest.mark.parametrize(
    ("cards", "had", "is_due"), [(1, "100", False), (2, "100", True), (0, "100", True), (11, "1000", False)]
)
def test_a_write_is_due_beyond_the_threshold(cards: int, had: str, *, is_due: bool) -> None:
    made, before = stage(*map(card, range(cards))), node(rdma=had)
    reason = made.plugin.need_sync(made.strategy, before, made.prepared(before))
    assert bool(reason) is is_due


def test_a_node_without_allocatable_resources_is_refused() -> None:
    with pytest.raises(PluginError, match="missing essential arguments"):
        stage(card(0)).calculate(NodeState("n"))


def test_only_changed_devices_have_their_node_reconciled() -> None:
    made = stage(card(0))
    made.put(Device, metadata={"labels": {"a": "b"}}, spec={"devices": [card(0)]})
    assert made.enqueued == ["n"]
    made.put(Device, spec={"devices": [card(0), card(1)]})
    assert made.enqueued == ["n", "n"]
