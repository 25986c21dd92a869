"""Clusters with devices, and DeviceShare in one or more profiles, for tests."""

import asyncio
import json
from collections.abc import Mapping
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.device import Device
from koordpy.api.device_allocations import DeviceAllocations, of
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import Status
from koordpy_plugins.scheduling.deviceshare.args import DeviceShareArgs
from koordpy_plugins.scheduling.deviceshare.plugin import DeviceShare

from .nodes import device, gpu

NODE = "n"
PERCENT = "koordinator.sh/gpu"


def pod(name: str, requests: Mapping[str, str], **more: Any) -> Pod:
    """A pod with requests; further metadata by name."""
    return decode(
        Pod,
        {
            "metadata": {"name": name, "namespace": "x", "uid": f"uid-{name}", **more},
            "spec": {"containers": [{"name": "c", "resources": {"requests": dict(requests)}}]},
        },
    )


def cluster_of(
    gpus: int = 2, labels: Mapping[str, str] | None = None, device_labels: Mapping[str, str] | None = None
) -> Cluster:
    """A cluster with one node that has GPUs."""
    cluster = Cluster()
    node = {"metadata": {"name": NODE, "uid": NODE, "labels": dict(labels or {})}}
    cluster.store(Node).apply(decode(Node, node))
    listed = [gpu(minor, id=f"GPU-{minor}") for minor in range(gpus)]
    cluster.store(Device).apply(device(listed, labels=dict(device_labels or {})))
    return cluster


class Profile:
    """DeviceShare in one profile of a cluster."""

    def __init__(self, cluster: Cluster, **args: Any) -> None:
        self.cluster = cluster
        self.handle = Handle(cluster)
        self.plugin = DeviceShare(DeviceShareArgs.model_validate(args), self.handle)

    def node(self) -> NodeInfo:
        return NodeInfo(self.cluster.nodes.select([NODE])[0], 0)

    def prepared(self, pod: Pod) -> tuple[CycleState, Status]:
        state = CycleState()
        return state, self.plugin.pre_filter(state, pod, self.cluster.nodes.all())[1]

    def filter(self, pod: Pod) -> Status:
        state, status = self.prepared(pod)
        return self.plugin.filter(state, pod, self.node()) if status.is_success else status

    def reserve(self, pod: Pod) -> tuple[CycleState, Status]:
        state, _ = self.prepared(pod)
        return state, self.plugin.reserve(state, pod, NODE)

    def written(self, state: CycleState, pod: Pod) -> Binding:
        binding = Binding(pod, NODE)
        status = asyncio.run(self.plugin.pre_bind(state, pod, NODE, binding))
        assert status.is_success, status
        return binding

    def place(self, pod: Pod) -> DeviceAllocations:
        """Reserve and write; let the cluster see the bound pod."""
        state, status = self.reserve(pod)
        assert status.is_success, status
        annotations = dict(self.written(state, pod).annotations)
        document = {
            "metadata": {"name": pod.metadata.name, "namespace": "x", "uid": pod.metadata.uid}
            | {"annotations": annotations},
            "spec": {"nodeName": NODE},
        }
        self.cluster.store(Pod).apply(decode(Pod, document))
        return of(annotations)


def minors(allocations: DeviceAllocations, type_: str = "gpu") -> list[int]:
    return [each.minor for each in allocations.get(type_, ())]


def hint(**hints: Any) -> dict[str, dict[str, str]]:
    """The annotation device-allocate-hint."""
    return {"annotations": {"scheduling.koordinator.sh/device-allocate-hint": json.dumps(hints)}}
