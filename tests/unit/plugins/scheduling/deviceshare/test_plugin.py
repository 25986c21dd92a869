"""DeviceShare at the points of a cycle: what it refuses, allocates, gives back and writes."""

import json

import pytest

from koordpy.api.core import Pod
from koordpy.api.device import Device
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import Code
from koordpy_plugins.scheduling.deviceshare.attempt.allocated import allocated_to
from koordpy_plugins.scheduling.deviceshare.waking import device_may_help, pod_may_help

from .clusters import NODE, PERCENT, Profile, cluster_of, minors, pod
from .nodes import device, gpu


def test_two_profiles_never_give_away_the_same_device() -> None:
    cluster = cluster_of(gpus=2)
    one, other = Profile(cluster), Profile(cluster)
    first, second, third = (pod(name, {PERCENT: "100"}) for name in "abc")
    assert all(profile.filter(each).is_success for profile in (one, other) for each in (first, second))
    state, status = one.reserve(first)
    assert status.is_success
    its_state, status = other.reserve(second)
    assert status.is_success
    held = [
        minors(allocated.devices)
        for allocated in (
            allocated_to(state, first.metadata.uid, NODE),
            allocated_to(its_state, second.metadata.uid, NODE),
        )
        if allocated is not None
    ]
    assert sorted(held) == [[0], [1]]
    _, status = one.reserve(third)
    assert status.code is Code.UNSCHEDULABLE


def test_reserve_validates_what_filter_saw() -> None:
    cluster = cluster_of(gpus=1)
    one, other = Profile(cluster), Profile(cluster)
    first, second = pod("a", {PERCENT: "60"}), pod("b", {PERCENT: "60"})
    state, _ = one.prepared(first)
    assert one.plugin.filter(state, first, one.node()).is_success
    assert other.reserve(second)[1].is_success
    assert one.plugin.reserve(state, first, NODE).reasons == ("Insufficient GPU Devices",)


def test_unreserve_gives_back_what_reserve_took() -> None:
    cluster = cluster_of(gpus=1)
    profile = Profile(cluster)
    first, second = pod("a", {PERCENT: "100"}), pod("b", {PERCENT: "100"})
    state, _ = profile.reserve(first)
    assert not profile.filter(second).is_success
    profile.plugin.unreserve(state, first, NODE)
    assert profile.filter(second).is_success


def test_a_forgotten_pod_gives_back_what_it_took() -> None:
    profile = Profile(cluster_of(gpus=1))
    first = pod("a", {PERCENT: "100"})
    profile.reserve(first)
    profile.handle.forget_pod(first, NODE)
    assert profile.filter(pod("b", {PERCENT: "100"})).is_success


def test_unreserve_of_an_attempt_that_took_nothing_leaves_what_others_have() -> None:
    profile = Profile(cluster_of(gpus=1))
    profile.place(pod("a", {PERCENT: "100"}))
    again = pod("a", {PERCENT: "100"})
    state, status = profile.reserve(again)
    assert not status.is_success
    profile.plugin.unreserve(state, again, NODE)
    assert not profile.filter(pod("b", {PERCENT: "100"})).is_success


def test_pods_whose_states_share_what_was_prepared_get_devices_of_their_own() -> None:
    profile = Profile(cluster_of(gpus=2))
    first, second = pod("a", {PERCENT: "100"}), pod("b", {PERCENT: "100"})
    state, _ = profile.prepared(first)
    assert profile.plugin.reserve(state, first, NODE).is_success
    assert profile.plugin.reserve(state, second, NODE).is_success
    held = [allocated_to(state, each.metadata.uid, NODE) for each in (first, second)]
    assert [minors(each.devices) for each in held if each is not None] == [[0], [1]]


def test_the_binding_names_the_devices_with_their_ids() -> None:
    profile = Profile(cluster_of(gpus=2))
    first = pod("a", {PERCENT: "50"})
    state, _ = profile.reserve(first)
    text = profile.written(state, first).annotations["scheduling.koordinator.sh/device-allocated"]
    assert text == (
        '{"gpu":[{"minor":0,"resources":{"koordinator.sh/gpu-core":"50","koordinator.sh/gpu-memory":"8Gi",'
        '"koordinator.sh/gpu-memory-ratio":"50"},"id":"GPU-0"}]}'
    )


async def test_a_device_that_is_gone_fails_the_binding() -> None:
    cluster = cluster_of(gpus=1)
    profile = Profile(cluster)
    first = pod("a", {PERCENT: "100"})
    state, _ = profile.reserve(first)
    cluster.store(Device).discard(NODE)
    status = await profile.plugin.pre_bind(state, first, NODE, Binding(first, NODE))
    assert status.code is Code.ERROR
    assert status.reasons == ('device.scheduling.koordinator.sh "n" not found',)


def test_a_node_without_any_known_device_is_left_to_kubelet() -> None:
    cluster = cluster_of(gpus=1)
    cluster.store(Device).discard(NODE)
    cluster.store(Device)
    profile = Profile(cluster)
    first = pod("a", {PERCENT: "100"})
    assert profile.filter(first).is_success
    state, status = profile.reserve(first)
    assert status.is_success
    assert not profile.written(state, first).annotations


def test_a_pod_that_requests_no_devices_is_skipped() -> None:
    profile = Profile(cluster_of())
    assert profile.prepared(pod("a", {"cpu": "1"}))[1].is_skip
    assert profile.plugin.sign_pod(pod("a", {"cpu": "1"})) == ()


@pytest.mark.parametrize(
    ("labels", "passes"),
    [({}, False), ({"koordinator.sh/gpu-isolation-provider": "HAMi-core"}, True)],
)
def test_shares_need_the_isolation_provider_that_the_pod_names(labels: dict[str, str], passes: bool) -> None:
    profile = Profile(cluster_of(labels=labels))
    wanted = {"koordinator.sh/gpu-isolation-provider": "HAMi-core"}
    status = profile.filter(pod("a", {PERCENT: "50"}, labels=wanted))
    assert status.is_success is passes
    # An Error would end the attempt for all nodes.
    assert passes or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert profile.filter(pod("b", {PERCENT: "100"}, labels=wanted)).is_success


def test_models_that_cannot_be_shared_are_given_whole() -> None:
    labels = {"node.koordinator.sh/gpu-vendor": "huawei", "node.koordinator.sh/gpu-model": "Duo"}
    models = [{"vendor": "huawei", "model": "Duo"}]
    profile = Profile(cluster_of(labels=labels), gpuShareUnsupportedModels=models)
    refused = profile.filter(pod("a", {PERCENT: "50"}))
    assert refused.reasons == ('model "Duo" of vendor "huawei" does not support GPU Share',)
    assert profile.filter(pod("b", {PERCENT: "100"})).is_success


def test_removing_a_pod_in_a_what_if_makes_room_and_adding_it_again_takes_it() -> None:
    cluster = cluster_of(gpus=1)
    profile = Profile(cluster)
    profile.place(pod("victim", {PERCENT: "100"}))
    victim = cluster.store(Pod).by_key("x/victim")
    assert victim is not None
    incoming = pod("a", {PERCENT: "100"})
    state, _ = profile.prepared(incoming)
    what_if = state.clone()
    profile.plugin.remove_pod(what_if, incoming, victim, profile.node())
    assert profile.plugin.filter(what_if, incoming, profile.node()).is_success
    assert not profile.plugin.filter(state, incoming, profile.node()).is_success
    profile.plugin.add_pod(what_if, incoming, victim, profile.node())
    assert not profile.plugin.filter(what_if, incoming, profile.node()).is_success


def test_a_pod_with_a_recorded_allocation_is_evaluated_alone() -> None:
    recorded = {"scheduling.koordinator.sh/device-allocated": "{}"}
    plugin = Profile(cluster_of()).plugin
    assert plugin.sign_pod(pod("a", {PERCENT: "50"}, annotations=recorded)) is None
    scoped = {"scheduling.koordinator.sh/device-allocate-hint": '{"gpu":{"requiredTopologyScope":"PCIe"}}'}
    signed = plugin.sign_pod(pod("b", {PERCENT: "50"}, annotations=scoped))
    assert signed != plugin.sign_pod(pod("c", {PERCENT: "50"}))


def test_the_rest_api_has_koordinators_paths_and_says_which_node_is_unknown() -> None:
    endpoints = Profile(cluster_of(gpus=1)).plugin.endpoints()
    found = endpoints["nodeDeviceSummaries"]()
    assert isinstance(found, dict)
    assert found[NODE]["deviceTotal"]["koordinator.sh/gpu-core"] == "100"
    assert found[NODE] == endpoints["nodeDeviceSummaries/{name}"](name=NODE)
    with pytest.raises(LookupError, match="cannot find node other"):
        endpoints["nodeDeviceSummaries/{name}"](name="other")


def test_a_broken_annotation_refuses_the_pod_alone() -> None:
    profile = Profile(cluster_of())
    broken = {"scheduling.koordinator.sh/device-allocate-hint": "{"}
    status = profile.filter(pod("a", {PERCENT: "50"}, annotations=broken))
    assert status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE
    assert status.message.startswith("invalid DeviceAllocateHint annotation, err: ")


def test_pods_are_woken_by_other_devices_and_by_pods_that_give_theirs_back() -> None:
    before = device([gpu(0)])
    assert not device_may_help(before, device([gpu(0)]))
    assert device_may_help(before, device([gpu(0, health=False)]))
    assert device_may_help(before, device([gpu(0)], labels={"a": "b"}))
    holder = pod("a", {}, annotations={"scheduling.koordinator.sh/device-allocated": json.dumps({})})
    assert pod_may_help(holder, None)
    assert not pod_may_help(holder, holder)
    assert not pod_may_help(pod("b", {}), None)


def test_pods_that_wait_for_devices_are_woken_when_a_pod_gives_its_own_back_before_it_is_bound() -> None:
    assert pod_may_help(pod("a", {PERCENT: "100"}), None)


def test_nothing_is_known_of_a_pod_that_was_never_placed() -> None:
    assert allocated_to(CycleState(), "uid", NODE) is None
