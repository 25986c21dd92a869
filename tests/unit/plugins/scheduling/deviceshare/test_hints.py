"""Which NUMA nodes are hinted at for a pod's devices."""

import json
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import Status

from .clusters import NODE, PERCENT, Profile, pod
from .nodes import card, device, gpu


def cluster_of(gpus: int = 8, cards: int = 0, used: int = 0) -> Cluster:
    """A node with GPUs, four on each NUMA node, of which the first ones are used; two cards on each."""
    cluster = Cluster()
    cluster.store(Node).apply(decode(Node, {"metadata": {"name": NODE, "uid": NODE}}))
    cluster.store(Device).apply(device([*map(gpu, range(gpus)), *map(card, range(cards))], name=NODE))
    whole = {"koordinator.sh/gpu-core": "100", "koordinator.sh/gpu-memory-ratio": "100"}
    held = json.dumps({"gpu": [{"minor": minor, "resources": whole} for minor in range(used)]})
    if used:
        annotations = {"scheduling.koordinator.sh/device-allocated": held}
        meta = {"name": "holder", "namespace": "x", "uid": "h", "annotations": annotations}
        cluster.store(Pod).apply(decode(Pod, {"metadata": meta, "spec": {"nodeName": NODE}}))
    return cluster


def hints_of(cluster: Cluster, incoming: Pod, **args: Any) -> tuple[dict[str, Any], Status]:
    """Return (mask, preferred, score) of the hints by type."""
    profile, state = Profile(cluster, **args), CycleState()
    _, status = profile.plugin.pre_filter(state, incoming, cluster.nodes.all())
    assert status.is_success
    found, status = profile.plugin.pod_topology_hints(state, incoming, profile.node())
    return {
        type_: [(hint.affinity, hint.preferred, hint.score) for hint in hints or ()]
        for type_, hints in found.items()
    }, status


def test_each_numa_node_with_enough_gpus_is_preferred_to_both() -> None:
    found, status = hints_of(cluster_of(), pod("a", {PERCENT: "400"}))
    assert status.is_success
    assert [hint[:2] for hint in found["gpu"]] == [(0b01, True), (0b10, True), (0b11, False)]


def test_hints_to_the_gpus_that_all_numa_nodes_would_give_score_best() -> None:
    found, _ = hints_of(cluster_of(used=4), pod("a", {PERCENT: "400"}))
    assert found["gpu"] == [(0b10, True, 500), (0b11, False, 500)]


def test_gpus_of_two_numa_nodes_are_hinted_at_where_one_has_too_few() -> None:
    found, _ = hints_of(cluster_of(used=1), pod("a", {PERCENT: "500"}))
    assert found["gpu"] == [(0b11, True, 500)]


def test_a_failure_is_that_of_all_numa_nodes() -> None:
    found, status = hints_of(cluster_of(used=4), pod("a", {PERCENT: "500"}))
    assert found == {}
    assert status.reasons == ("Insufficient GPU Devices",)


def test_types_have_the_same_hints() -> None:
    requested = {PERCENT: "100", "koordinator.sh/rdma": "100"}
    found, _ = hints_of(cluster_of(cards=4, used=4), pod("a", requested))
    assert found["gpu"] == found["rdma"]
    assert [hint[:2] for hint in found["gpu"]] == [(0b10, True), (0b11, False)]


def test_no_hints_where_too_many_sets_of_numa_nodes_would_have_to_be_tried() -> None:
    cluster = cluster_of()
    listed = [gpu(minor, topology={"nodeID": minor % 12}) for minor in range(17)]
    cluster.store(Device).apply(device(listed, name=NODE))
    found, status = hints_of(cluster, pod("a", {PERCENT: "100"}))
    assert (found, status.is_success) == ({}, True)


def test_no_hints_where_the_arguments_leave_devices_out_of_the_alignment() -> None:
    found, status = hints_of(
        cluster_of(), pod("a", {PERCENT: "100"}), disableDeviceNUMATopologyAlignment=True
    )
    assert (found, status.is_success) == ({}, True)
