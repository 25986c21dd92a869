"""Nodes with CPUs and NUMA nodes, pods that ask for them, and profiles with the plugin."""

import asyncio
import json
from typing import Any

from koordpy.api import extension
from koordpy.api.core import Pod
from koordpy.api.koordinator import NodeResourceTopology
from koordpy.api.resource_status import ResourceStatus
from koordpy.api.resource_status import of as status_of
from koordpy.api.scheme import decode
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import Binding
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.status import Status
from koordpy_plugins.scheduling.nodenumaresource.plugin import NodeNUMAResource

from ....scheduling.worlds import framework as framework_of
from ....scheduling.worlds import node, pod_document, world


def topology(name: str, *, numa_nodes: int = 2, cores: int = 4, **annotations: Any) -> NodeResourceTopology:
    """A node with a socket for each NUMA node, and two CPUs for each core: 0-1 are the first core."""
    detail = [
        {"id": cpu, "core": cpu // 2 % cores, "socket": cpu // (2 * cores), "node": cpu // (2 * cores)}
        for cpu in range(2 * cores * numa_nodes)
    ]
    amounts = {"cpu": str(2 * cores), "memory": "16Gi"}
    zones = [
        {
            "name": f"node-{zone}",
            "type": "Node",
            "resources": [
                {"name": key, "allocatable": each, "capacity": each, "available": each}
                for key, each in amounts.items()
            ],
        }
        for zone in range(numa_nodes)
    ]
    return decode(
        NodeResourceTopology,
        {
            "metadata": {
                "name": name,
                "annotations": {
                    extension.ANNOTATION_NODE_CPU_TOPOLOGY: json.dumps({"detail": detail}),
                    **annotations,
                },
            },
            "zones": zones,
        },
    )


def cluster_of(*names: str, labels: dict[str, str] | None = None, **shape: Any) -> Cluster:
    """A cluster of such nodes."""
    cluster = world([node(name, cpu="16", labels=labels or {}) for name in names])
    for name in names:
        cluster.store(NodeResourceTopology).apply(topology(name, **shape))
    return cluster


def bound_pod(
    name: str,
    cpu: str = "2",
    *,
    qos: str = "LSR",
    annotations: dict[str, str] | None = None,
    labels: dict[str, str] | None = None,
    node_name: str = "",
) -> Pod:
    """A pod that asks for CPUs of its own."""
    document = pod_document(name, cpu, "1Gi", node_name, priority=9500)
    document["metadata"]["labels"] = {extension.LABEL_POD_QOS: qos, **(labels or {})}
    document["metadata"]["annotations"] = annotations or {}
    return decode(Pod, document)


def spec(**fields: str) -> dict[str, str]:
    """The annotation resource-spec."""
    return {extension.ANNOTATION_RESOURCE_SPEC: json.dumps(fields)}


def profile(cluster: Cluster) -> tuple[Framework, NodeNUMAResource]:
    """A profile with the plugin."""
    made = framework_of(cluster, NodeNUMAResource)
    return made, next(each for each in made.plugins if isinstance(each, NodeNUMAResource))


def filtered(made: Framework, pod: Pod, name: str = "a") -> tuple[CycleState, Status]:
    """Run PreFilter and Filter on a node."""
    nodes, _ = made.handle.nodes.select([name])
    state = made.new_state()
    outcome = made.run_pre_filter(state, pod, nodes)
    if not outcome.status.is_success:
        return state, outcome.status
    result = made.run_filters(state, pod, nodes)
    return state, result.error or result.status(0)


def reserved(made: Framework, pod: Pod, name: str = "a") -> tuple[CycleState, Status]:
    """Run Filter and Reserve on a node."""
    state, status = filtered(made, pod, name)
    return state, made.run_reserve(state, pod, name) if status.is_success else status


def written(plugin: NodeNUMAResource, state: CycleState, pod: Pod, name: str = "a") -> dict[str, str]:
    """Run PreBind; return the annotations."""
    binding = Binding(pod, name)
    status = asyncio.run(plugin.pre_bind(state, pod, name, binding))
    assert status.is_success, status
    return binding.annotations


def allocated(plugin: NodeNUMAResource, state: CycleState, pod: Pod, name: str = "a") -> ResourceStatus:
    """Return what the annotation says that a pod got."""
    return status_of(written(plugin, state, pod, name))
