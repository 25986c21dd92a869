"""What selectors select of a node's devices, and that what is remembered of it is bounded."""

from typing import Any

from koordpy.api.label_selector import of_labels
from koordpy_plugins.scheduling.deviceshare.state.device_labels import device_labels
from koordpy_plugins.scheduling.deviceshare.state.free_functions import NO_FUNCTIONS, free_functions

from ..nodes import card, gpu, node

LONG = {"a": "b" * 40_000}


def groups(count: int, labels: dict[str, str]) -> list[dict[str, Any]]:
    return [{"labels": labels, "vfs": [{"busID": str(at)}]} for at in range(count)]


def test_labels_of_all_devices_count() -> None:
    found = device_labels(node([gpu(0, labels={"a": "b"}), gpu(3, labels={"a": "b"}), gpu(4)]), "gpu")
    assert found is not None
    assert found.of(of_labels({"a": "b"})) == (0b1001, 2)
    assert found.of(of_labels({})) == (0b11001, 3)


def test_equal_groups_of_functions_are_remembered_once() -> None:
    found = free_functions(node([card(1, vfGroups=groups(5_000, {"a": "b"}))]), "rdma")
    assert found == (True, ((1, ((("a", "b"),),)),))


def test_a_type_without_functions_has_none() -> None:
    assert free_functions(node([card(1)]), "rdma") is NO_FUNCTIONS


def test_labels_that_are_too_large_are_not_remembered() -> None:
    assert device_labels(node([gpu(0, labels=LONG)]), "gpu") is None
    assert device_labels(node([gpu(at) for at in range(1_000)]), "gpu") is None
    assert free_functions(node([card(0, vfGroups=groups(1, LONG))]), "rdma") is None
