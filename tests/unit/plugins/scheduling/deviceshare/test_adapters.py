"""What device plugins of vendors are told (gate DevicePluginAdaption)."""

import asyncio
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from koordpy.api.core import Node, Pod
from koordpy.api.device_allocations import AllocatedFunction, DeviceAllocation
from koordpy.api.extension import ANNOTATION_GPU_MINORS, ANNOTATION_RDMA_ADDRESSES
from koordpy.api.scheme import decode
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.gates import SPECS
from koordpy.scheduling.interface.status import Status
from koordpy_plugins.scheduling.deviceshare.adapters.environment import environment_of
from koordpy_plugins.scheduling.deviceshare.adapters.node_locks import NodeLocks
from koordpy_plugins.scheduling.deviceshare.adapters.vendors import VENDORS, AdaptionError
from koordpy_plugins.scheduling.deviceshare.plugin import DeviceShare
from koordpy_plugins.scheduling.deviceshare.rights import ADAPTION_GATE

from .clusters import NODE, PERCENT, Profile, cluster_of, pod
from .nodes import amounts

SHARE = {"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory": "1Gi"}
NOW = datetime(2026, 3, 1, 12, tzinfo=UTC)


def allocated(
    minor: int, texts: dict[str, str] | None = None, *, id: str = "", template: str = ""
) -> DeviceAllocation:
    return DeviceAllocation(minor, amounts(SHARE if texts is None else texts), id, template=template)


def bound(vendor: str, **labels: str) -> tuple[Binding, Status]:
    """Allocate two GPUs with the gate on; return what is written."""
    profile = Profile(cluster_of(device_labels={"node.koordinator.sh/gpu-vendor": vendor}))
    profile.handle.gates = FeatureGates({**SPECS, **DeviceShare.feature_gates}, {ADAPTION_GATE: True})
    first = pod("a", {PERCENT: "200"}, labels=labels)
    state, status = profile.reserve(first)
    assert status.is_success
    binding = Binding(first, NODE)
    return binding, asyncio.run(profile.plugin.pre_bind(state, first, NODE, binding))


def test_every_device_plugin_learns_the_time_and_the_minors() -> None:
    binding, status = bound("nvidia", **{"koordinator.sh/gpu-isolation-provider": "HAMi-core"})
    assert status.is_success
    assert binding.annotations["scheduling.koordinator.sh/gpu-minors"] == "0,1"
    assert int(binding.annotations["scheduling.koordinator.sh/bind-timestamp"]) > 10**18
    assert binding.labels == {"hami.io/vgpu-node": NODE}


def test_huaweis_learns_whole_npus_or_a_template() -> None:
    annotate = VENDORS["huawei"].annotate
    two = (allocated(0), allocated(3))
    assert annotate(two, "Ascend-910B", 7) == {"predicate-time": "7", "huawei.com/npu-core": "0,3"}
    part = (allocated(2, template="vir01"),)
    assert annotate(part, "Ascend-310P", 7)["huawei.com/npu-core"] == "2-vir01"
    duo = annotate(two, "Ascend-310P3-300I-DUO", 7)
    assert duo == {"predicate-time": "7", "huawei.com/Ascend310P": "Ascend310P-0,Ascend310P-3"}


def test_cambricons_learns_one_share_in_its_units() -> None:
    annotate = VENDORS["cambricon"].annotate
    assert annotate((allocated(1),), "", 7) == {
        "CAMBRICON_DSMLU_ASSIGHED": "false",
        "CAMBRICON_DSMLU_PROFILE": "1_30_4",
    }
    with pytest.raises(AdaptionError, match="multiple gpu share is not supported on device side"):
        annotate((allocated(0), allocated(1)), "", 7)
    small = {"koordinator.sh/gpu-core": "30", "koordinator.sh/gpu-memory": "255Mi"}
    with pytest.raises(AdaptionError, match="gpu memory must not be less than 268435456 bytes"):
        annotate((allocated(0, small),), "", 7)
    with pytest.raises(AdaptionError, match="gpu core resource is required"):
        annotate((allocated(0, {"koordinator.sh/gpu-memory": "1Gi"}),), "", 7)


def test_metaxs_learns_the_ids() -> None:
    found = VENDORS["metax"].annotate((allocated(0, id="GPU-0"),), "", 7)
    text = '[[{"uuid":"GPU-0","compute":30,"vRam":1024}]]'
    assert found == {"metax-tech.com/gpu-devices-allocated": text}


def test_a_failure_names_the_vendor() -> None:
    _, status = bound("cambricon")
    assert status.reasons == (
        'failed to adapt for GPU device plugin of vendor "cambricon": multiple gpu share is not supported on '
        "device side",
    )


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (f"{NOW:%Y-%m-%dT%H:%M:%SZ},x,holder", 'node "n" has been locked'),
        (f"{NOW:%Y-%m-%dT%H:%M:%SZ},x,gone", ""),
        (f"{NOW - timedelta(minutes=6):%Y-%m-%dT%H:%M:%SZ},x,holder", ""),
        ("nonsense", 'invalid node lock value "nonsense"'),
        ("today,x,holder", "not an RFC 3339 time"),
        ("2026-03-01T25:00:00Z,x,holder", "not an RFC 3339 time"),
        ("2026-03-01 12:00:00Z,x,gone", "not an RFC 3339 time"),
        ("20200301T120000Z,x,holder", "not an RFC 3339 time"),
        ("2020-03-01T12:00:00,x,holder", "not an RFC 3339 time"),
        ("2020-03-01T12:00:00.5+08:00,x,holder", ""),
    ],
)
def test_a_node_stays_locked_while_the_pod_exists_and_the_lock_is_fresh(value: str, problem: str) -> None:
    cluster = cluster_of()
    cluster.store(Pod).apply(pod("holder", {}))
    locks = cluster.shared(NodeLocks)
    node = decode(Node, {"metadata": {"name": NODE, "annotations": {"hami.io/mutex.lock": value}}})
    if not problem:
        locks.check(node, "hami.io/mutex.lock", NOW)
        return
    with pytest.raises(AdaptionError, match=problem):
        locks.check(node, "hami.io/mutex.lock", NOW)


def environment(
    annotations: dict[str, str], allocations: dict[str, tuple[DeviceAllocation, ...]]
) -> dict[str, str]:
    return environment_of(annotations, allocations)


BOTH = {ANNOTATION_GPU_MINORS: "void", ANNOTATION_RDMA_ADDRESSES: ""}


def test_containers_read_minors_of_gpus_and_addresses_of_cards_and_functions() -> None:
    functions = (AllocatedFunction("0000:1f:00.2"), AllocatedFunction("0000:1f:00.3"))
    cards = (
        allocated(0, id="0000:0f:00.0"),
        replace(allocated(1, id="0000:1f:00.0"), virtual_functions=functions),
        allocated(2),
    )
    assert environment(BOTH, {"gpu": (allocated(0), allocated(3)), "rdma": cards}) == {
        ANNOTATION_GPU_MINORS: "0,3",
        ANNOTATION_RDMA_ADDRESSES: "0000:0f:00.0,0000:1f:00.2,0000:1f:00.3",
    }


def test_only_annotations_that_the_pod_has_are_written_and_only_for_what_it_got() -> None:
    assert environment({}, {"gpu": (allocated(0),)}) == {}
    assert environment(BOTH, {"rdma": (allocated(0, id="a"),)}) == {ANNOTATION_RDMA_ADDRESSES: "a"}
    assert environment(BOTH, {"gpu": ()}) == {}


def test_the_minors_are_written_at_the_bind_without_a_gate() -> None:
    profile = Profile(cluster_of())
    first = pod("a", {PERCENT: "200"}, annotations={ANNOTATION_GPU_MINORS: "void"})
    state, status = profile.reserve(first)
    assert status.is_success
    binding = Binding(first, NODE)
    assert asyncio.run(profile.plugin.pre_bind(state, first, NODE, binding)).is_success
    assert binding.annotations[ANNOTATION_GPU_MINORS] == "0,1"
    assert "scheduling.koordinator.sh/bind-timestamp" not in binding.annotations
