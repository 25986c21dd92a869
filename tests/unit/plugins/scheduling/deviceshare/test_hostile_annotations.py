"""Annotations that a tenant writes on a pod: the ledger stays right, and what they cost is bounded."""

import json
from typing import Any

import pytest

from koordpy.api.core import Pod
from koordpy.api.device import Device
from koordpy.api.scheme import decode
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT, SchedulingHintState
from koordpy_plugins.scheduling.deviceshare.attempt.allocated import allocated_to
from koordpy_plugins.scheduling.deviceshare.requests.annotations import MOST_REQUIREMENTS
from koordpy_plugins.scheduling.deviceshare.requests.prepare import requests_of

from .clusters import NODE, PERCENT, Profile, cluster_of, minors, pod
from .nodes import WHOLE

PREFIX = "scheduling.koordinator.sh/"
ALLOCATED = f"{PREFIX}device-allocated"
HINT = f"{PREFIX}device-allocate-hint"
JOINT = f"{PREFIX}device-joint-allocate"
PARTITION = f"{PREFIX}gpu-partition-spec"
RDMA = "koordinator.sh/rdma"

BROKEN = ("", "{", "[]", "1", '"x"', "[" * 100_000, '{"gpu": 1}', '{"gpu": [1]}')


def held(text: str, name: str = "holder") -> Pod:
    """A pod on the node that requests no devices, with an annotation of its own."""
    meta = {"name": name, "namespace": "x", "uid": f"uid-{name}", "annotations": {ALLOCATED: text}}
    return decode(Pod, {"metadata": meta, "spec": {"nodeName": NODE}})


def devices(**types: list[dict[str, Any]]) -> str:
    return json.dumps(types)


def refused(name: str, text: str, requests: dict[str, str] | None = None) -> Status:
    return Profile(cluster_of()).filter(pod("a", requests or {PERCENT: "100"}, annotations={name: text}))


@pytest.mark.parametrize("text", BROKEN)
@pytest.mark.parametrize("name", [ALLOCATED, HINT, JOINT, PARTITION])
def test_an_annotation_that_cannot_be_read_refuses_the_pod_and_no_other(name: str, text: str) -> None:
    profile = Profile(cluster_of(gpus=1))
    status = profile.filter(pod("a", {PERCENT: "100"}, annotations={name: text}))
    assert status.is_success or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert profile.filter(pod("b", {PERCENT: "100"})).is_success


def test_a_selector_with_very_many_requirements_is_refused() -> None:
    def hint(count: int) -> str:
        expressions = [{"key": f"k{at}", "operator": "DoesNotExist"} for at in range(count - 1)]
        selector = {"matchLabels": {"a": "b"}, "matchExpressions": expressions}
        return json.dumps({"gpu": {"selector": selector}})

    few, many = (refused(HINT, hint(count)) for count in (MOST_REQUIREMENTS, MOST_REQUIREMENTS + 1))
    assert few.reasons == ("Insufficient GPU Devices",)
    assert many.reasons == (
        "invalid DeviceAllocateHint annotation, err: gpu.selector: more than 64 requirements",
    )


def test_types_that_are_named_again_are_allocated_once() -> None:
    text = json.dumps({"deviceTypes": ["gpu", "rdma", "gpu", "fpga", "rdma"] * 5000})
    asked = pod("a", {PERCENT: "100", RDMA: "1"}, annotations={JOINT: text})
    found = requests_of(asked, lambda _: {}, ())
    assert found is not None
    assert found.joint is not None
    assert found.joint.types == ("gpu", "rdma", "gpu")


@pytest.mark.parametrize(
    "text",
    [
        devices(gpu=[{"minor": 0, "resources": {"koordinator.sh/gpu-core": "-100"}}]),
        devices(gpu=[{"minor": 2**31, "resources": WHOLE}]),
        devices(gpu=[{"minor": 0, "resources": {"koordinator.sh/gpu-core": "1e99999"}}]),
        devices(gpu=[{"minor": minor, "resources": WHOLE} for minor in range(1025)]),
        json.dumps({f"type-{number}": [] for number in range(1025)}),
    ],
)
def test_what_no_scheduler_would_have_recorded_takes_nothing(text: str) -> None:
    profile = Profile(cluster_of(gpus=1))
    profile.cluster.store(Pod).apply(held(text))
    assert profile.filter(pod("b", {PERCENT: "100"})).is_success


def test_amounts_that_devices_do_not_have_are_taken_and_given_back_exactly() -> None:
    profile = Profile(cluster_of(gpus=2))
    before = profile.plugin.ledger.snapshot()
    amounts = {"koordinator.sh/gpu-core": "9223372036854775808", "koordinator.sh/gpu-memory": "1e3000"}
    text = devices(gpu=[{"minor": 0, "resources": amounts}, {"minor": -5, "resources": WHOLE}])
    profile.cluster.store(Pod).apply(held(text))
    assert minors(profile.place(pod("b", {PERCENT: "100"}))) == [1]
    assert not profile.filter(pod("c", {PERCENT: "1"})).is_success
    for key in ("x/holder", "x/b"):
        profile.cluster.store(Pod).discard(key)
    assert profile.plugin.ledger.snapshot() == before


@pytest.mark.parametrize(("minor", "given"), [(0, []), (1, [1]), (7, []), (-1, [])])
def test_a_recorded_allocation_gives_no_more_than_is_free(minor: int, given: list[int]) -> None:
    profile = Profile(cluster_of(gpus=2))
    profile.place(pod("a", {PERCENT: "100"}))
    text = devices(gpu=[{"minor": minor, "resources": dict.fromkeys(WHOLE, "1e30")}])
    asking, state = pod("b", {PERCENT: "100"}, annotations={ALLOCATED: text}), CycleState()
    state.write(SCHEDULING_HINT, SchedulingHintState(extensions={"DeviceShare": {}}))
    assert profile.plugin.pre_filter(state, asking, profile.cluster.nodes.all())[1].is_success
    status = profile.plugin.reserve(state, asking, NODE)
    assert status.is_success is bool(given)
    found = allocated_to(state, asking.metadata.uid, NODE)
    assert (minors(found.devices) if found is not None else []) == given
    assert profile.filter(pod("c", {PERCENT: "100"})).is_success is not bool(given)


def test_a_pod_that_requests_no_devices_cannot_keep_a_claim_to_them() -> None:
    profile = Profile(cluster_of())
    text = devices(gpu=[{"minor": minor, "resources": WHOLE} for minor in range(2)])
    asking, other = pod("a", {"cpu": "1"}, annotations={ALLOCATED: text}), pod("b", {"cpu": "1"})
    assert profile.written(profile.reserve(asking)[0], asking).annotations == {ALLOCATED: "{}"}
    assert not profile.written(profile.reserve(other)[0], other).annotations


def test_a_pod_whose_devices_kubelet_chooses_keeps_what_it_says() -> None:
    cluster = cluster_of()
    cluster.store(Device).discard(NODE)
    profile = Profile(cluster)
    asking = pod("a", {PERCENT: "100"}, annotations={ALLOCATED: devices(gpu=[{"minor": 0}])})
    state, status = profile.reserve(asking)
    assert status.is_success
    assert not profile.written(state, asking).annotations
