"""Whether the audit finds devices and virtual functions that are handed out twice."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from koordpy.api import extension
from tests.unit.audit.books import (
    device,
    findings,
    gpu,
    gpus,
    held,
    names,
    node,
    only,
    pod,
    report,
    reservation,
    topology,
)

VFS: dict[str, Any] = {
    "type": "rdma",
    "minor": 1,
    "resources": {extension.RDMA: "100"},
    "vfGroups": [{"vfs": [{"minor": 0, "busID": "0:1.1"}, {"minor": 1, "busID": "0:1.2"}]}],
}


def rdma(address: str, share: int = 1) -> dict[str, Any]:
    extra = {"vfs": [{"minor": 0, "busID": address}]}
    return {"rdma": [{"minor": 1, "resources": {extension.RDMA: str(share)}, "extension": extra}]}


def test_shares_that_fit_are_clean() -> None:
    parts = [pod(name, devices={"gpu": [gpu(0, 50)]}) for name in "ab"]
    assert findings(node(), gpus(1), *parts) == []


def test_a_gpu_of_two_pods_names_both_for_every_resource() -> None:
    parts = [pod("a", devices={"gpu": [gpu(0, 60)]}), pod("b", devices={"gpu": [gpu(0, 50)]})]
    found = findings(node(), gpus(2), *parts)
    assert [item.what for item in found] == [
        f"gpu 0 {name}" for name in (extension.GPU_CORE, extension.GPU_MEMORY, extension.GPU_MEMORY_RATIO)
    ]
    assert [(item.held, item.limit) for item in found] == [("110", "100"), ("88Gi", "80Gi"), ("110", "100")]
    assert all(names(item) == ["Pod default/a", "Pod default/b"] for item in found)
    assert str(found[1].owners[0]) == "Pod default/a (48Gi)"


def test_one_gigabyte_too_much_is_found() -> None:
    parts = [
        pod(name, devices={"gpu": [{"minor": 0, "resources": {extension.GPU_MEMORY: amount}}]})
        for name, amount in (("a", "40Gi"), ("b", "41Gi"))
    ]
    assert only(node(), gpus(1), *parts).held == "81Gi"


def test_owners_use_the_devices_of_their_reservation() -> None:
    kept = reservation("r", owners=("a",), annotations=held(devices={"gpu": [gpu(0)]}))
    owner = pod("a", devices={"gpu": [gpu(0, 50)]}, reservation="r")
    assert findings(node(), gpus(1), kept, owner) == []
    found = findings(node(), gpus(1), kept, owner, pod("b", devices={"gpu": [gpu(0, 25)]}))
    assert len(found) == 3
    assert set(names(found[0])) == {"Reservation r", "Pod default/a", "Pod default/b"}


def test_a_minor_that_is_unhealthy_is_a_warning_and_still_adds_up() -> None:
    parts = [pod(name, devices={"gpu": [gpu(0, 60)]}) for name in "ab"]
    assert [item.severity for item in findings(node(), gpus(1, health=False), *parts)] == ["error"] * 3 + [
        "warning"
    ]


def test_a_minor_that_is_not_in_the_device() -> None:
    found = only(node(), gpus(1), pod("a", devices={"gpu": [gpu(3)]}))
    assert (found.what, found.problem, found.severity) == (
        "gpu 3",
        "handed out, and not in the Device",
        "error",
    )


def test_a_node_without_a_device_is_a_warning() -> None:
    assert only(node(), pod("a", devices={"gpu": [gpu(0)]})).severity == "warning"


def test_nothing_is_said_of_devices_that_could_not_be_read() -> None:
    shares = [pod(name, devices={"gpu": [gpu(0, 60)]}) for name in "ab"]
    assert report(node(), shares[0], Device="none in the dump").findings == []
    found = report(node(), *shares, Device="none in the dump")
    assert {(each.severity.value, each.what) for each in found.findings} == {
        ("error", f"gpu 0 {name}") for name in (extension.GPU_CORE, extension.GPU_MEMORY_RATIO)
    }


def test_a_resource_that_the_device_does_not_list_is_not_limited() -> None:
    part = {"minor": 0, "resources": {extension.GPU_SHARED: "1"}}
    assert findings(node(), gpus(1), *(pod(name, devices={"gpu": [part]}) for name in "ab")) == []


def test_a_virtual_function_of_two_pods() -> None:
    found = only(node(), device("n1", VFS), *(pod(name, devices=rdma("0:1.1")) for name in "ab"))
    assert found.what == "rdma 1 virtual function 0:1.1"
    assert names(found) == ["Pod default/a", "Pod default/b"]


def test_virtual_functions_of_a_reservation_are_its_owners() -> None:
    kept = reservation("r", annotations=held(devices=rdma("0:1.1")))
    owner = pod("a", devices=rdma("0:1.1"), reservation="r")
    assert findings(node(), device("n1", VFS), kept, owner, check="devices") == []
    assert len(findings(node(), device("n1", VFS), kept, pod("b", devices=rdma("0:1.1")))) == 1


def test_a_virtual_function_that_does_not_exist() -> None:
    found = only(node(), device("n1", VFS), pod("a", devices=rdma("0:9.9")))
    assert found.problem == "handed out, and not in the Device"


def test_memory_and_share_of_memory_that_differ_are_a_warning() -> None:
    part = gpu(0, 50)
    part["resources"][extension.GPU_MEMORY] = "20Gi"
    found = only(node(), gpus(1), pod("a", devices={"gpu": [part]}))
    assert (found.severity, found.held, found.limit) == ("warning", "20Gi", "40Gi")


def test_a_share_that_was_computed_from_memory_is_rounded_down() -> None:
    part = gpu(0, 3)
    part["resources"][extension.GPU_MEMORY] = "3Gi"  # 3.75 percent
    assert findings(node(), gpus(1), pod("a", devices={"gpu": [part]})) == []


def test_what_was_checked_is_counted() -> None:
    checked = next(
        item
        for item in report(node(), device("n1", VFS), pod("a", devices=rdma("0:1.1"))).checks
        if item.check == "devices"
    )
    assert checked.counts == {"nodes": 1, "allocations": 1, "devices": 1, "virtual functions": 1}


@given(st.lists(st.integers(1, 100), min_size=4, max_size=4), st.integers(0, 3), st.integers(1, 100))
def test_any_share_beyond_a_device_is_found(shares: list[int], minor: int, more: int) -> None:
    pods = [pod(f"p{at}", devices={"gpu": [gpu(at, share)]}) for at, share in enumerate(shares)]
    assert findings(node(), gpus(4), *pods) == []
    found = findings(node(), gpus(4), *pods, pod("thief", devices={"gpu": [gpu(minor, more)]}))
    if shares[minor] + more > 100:
        assert {item.what.split()[1] for item in found} == {str(minor)}
        assert all(set(names(item)) == {f"Pod default/p{minor}", "Pod default/thief"} for item in found)
        assert len(found) == 3
    else:
        assert found == []


def test_what_is_negative_hides_nothing() -> None:
    shares = {"a": 100, "b": 60, "c": -60}
    found = findings(
        node(), gpus(1), *(pod(name, devices={"gpu": [gpu(0, share)]}) for name, share in shares.items())
    )
    assert [(each.severity, each.held) for each in found] == [
        ("error", "160"),
        ("error", "128Gi"),
        ("error", "160"),
        ("warning", ""),
    ]
    assert names(found[0]) == ["Pod default/a", "Pod default/b"]
    assert names(found[3]) == ["Pod default/c"]


@pytest.mark.parametrize("written", ["", " "])
def test_what_is_beside_a_negative_amount_counts(written: str) -> None:
    parts = {"gpu": [gpu(0, -60), gpu(1)]}
    if written:
        parts["gpu"][0]["unusual"] = written
    found = findings(node(), gpus(2), pod("a", devices=parts), pod("b", devices={"gpu": [gpu(1, 50)]}))
    assert {(each.severity, each.what.rpartition(" ")[0]) for each in found} == {
        ("error", "gpu 1"),
        ("warning", ""),
    }
    assert names(found[0]) == ["Pod default/a", "Pod default/b"]


def test_a_negative_part_of_a_numa_node_is_left_out_alone() -> None:
    full = pod("a", cpuset="0", zones={"0": {"cpu": "8"}})
    found = findings(
        node(), topology(), full, pod("b", cpuset="0", zones={"0": {"cpu": "-8", "memory": "1"}})
    )
    assert [(each.severity, each.what) for each in found] == [("error", "CPU 0"), ("warning", "allocation")]
    assert found[1].problem.endswith(": a negative amount")


def test_without_a_device_more_than_a_whole_gpu_is_still_handed_out_twice() -> None:
    pods = [pod(name, devices={"gpu": [gpu(0, 60)]}) for name in "ab"]
    found = findings(node(), *pods)
    assert [(each.severity, each.held) for each in found] == [
        ("error", "120"),
        ("error", "120"),
        ("warning", ""),
    ]
    assert [each.severity for each in findings(node(), pods[0])] == ["warning"]


def test_a_virtual_function_that_one_pod_has_twice() -> None:
    function = {"minor": 0, "resources": {}, "extension": {"vfs": [{"minor": -1, "busID": "0000:01:00.1"}]}}
    one = pod("a", devices={"rdma": [function, function]})
    found = [each for each in findings(node(), one) if each.severity == "error"]
    assert [names(each) for each in found] == [["Pod default/a", "Pod default/a"]]
