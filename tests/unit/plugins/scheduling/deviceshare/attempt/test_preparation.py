"""When a recorded allocation binds an attempt, and which requests are kube-scheduler's."""

import json

import pytest

from koordpy.api.device_class import DeviceClass
from koordpy.api.scheme import decode
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import INLINE_BATCH_SCHEDULE, SPECS
from koordpy.scheduling.interface.plan import PLANNED_NODE
from koordpy.scheduling.interface.status import Code
from koordpy.scheduling.toolkit.scheduling_hint import SCHEDULING_HINT, SchedulingHintState
from koordpy_plugins.scheduling.deviceshare.attempt.prepared import PREPARED
from koordpy_plugins.scheduling.deviceshare.plugin import DeviceShare

from ..clusters import NODE, PERCENT, Profile, cluster_of, pod

RECORDED = json.dumps({"gpu": [{"minor": 1, "resources": {"koordinator.sh/gpu-core": "100"}}]})


def is_bound(*, hinted: str = "DeviceShare", gate: bool = False, planned: bool = False) -> bool:
    """Return whether the recorded allocation alone will do."""
    profile = Profile(cluster_of())
    profile.handle.gates = FeatureGates({**SPECS, **DeviceShare.feature_gates}, {INLINE_BATCH_SCHEDULE: gate})
    state = CycleState()
    if hinted:
        state.write(SCHEDULING_HINT, SchedulingHintState(extensions={hinted: None}))
    if planned:
        state.write(PLANNED_NODE, NODE)
    recorded = {"scheduling.koordinator.sh/device-allocated": RECORDED}
    incoming = pod("a", {PERCENT: "100"}, annotations=recorded)
    assert profile.plugin.pre_filter(state, incoming, profile.cluster.nodes.all())[1].is_success
    prepared = state.read(PREPARED)
    assert prepared is not None
    return prepared.designated is not None


def test_a_recorded_allocation_binds_an_attempt_whose_hint_names_the_plugin() -> None:
    assert is_bound()
    assert not is_bound(hinted="")
    assert not is_bound(hinted="NodeNUMAResource")


@pytest.mark.parametrize(
    ("gate", "planned", "bound"), [(True, True, False), (True, False, True), (False, True, True)]
)
def test_it_does_not_bind_the_attempts_of_a_batch(gate: bool, planned: bool, bound: bool) -> None:
    assert is_bound(gate=gate, planned=planned) is bound


def test_a_resource_of_a_device_class_is_kube_schedulers_as_long_as_the_class_exists() -> None:
    profile = Profile(cluster_of())
    incoming = pod("a", {"nvidia.com/gpu": "1"})
    classes = profile.cluster.store(DeviceClass)
    made = decode(
        DeviceClass, {"metadata": {"name": "gpus"}, "spec": {"extendedResourceName": "nvidia.com/gpu"}}
    )
    assert profile.prepared(incoming)[1].is_success
    classes.apply(made)
    assert profile.prepared(incoming)[1].code is Code.SKIP
    assert profile.plugin.pre_filter(CycleState(), incoming, profile.cluster.nodes.all())[1].code is Code.SKIP
    classes.discard("gpus")
    assert profile.prepared(incoming)[1].is_success
