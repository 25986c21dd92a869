"""What a NodeResourceTopology says of a node: pure functions over its processors, memory, pods and kubelet.

Rules: Koordinator, `pkg/koordlet/statesinformer/impl/states_noderesourcetopology.go` (spec section 9.1).
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import msgspec

from koordpy.agent.interface.facts import NodeCPUInfo, NodeNUMAInfo, Processor
from koordpy.agent.interface.states import PodMeta
from koordpy.agent.reporting.cpu_reservation import take_by_topology
from koordpy.agent.reporting.kubelet_cpu_state import KubeletCPUs
from koordpy.agent.reporting.topology_zones import Zone, zones_of
from koordpy.api import extension, qos, quantity, resource_status
from koordpy.api.core import Node
from koordpy.lib import cpuset

LABEL_NUMA_RESERVATION: Final = "node.koordinator.sh/enable-numa-reservation"
MANAGED_ANNOTATIONS: Final = (
    "node.koordinator.sh/cpu-basic-info",
    extension.ANNOTATION_KUBELET_CPU_MANAGER_POLICY,
    extension.ANNOTATION_NODE_CPU_SHARED_POOLS,
    extension.ANNOTATION_NODE_BE_CPU_SHARED_POOLS,
    extension.ANNOTATION_NODE_CPU_TOPOLOGY,
    extension.ANNOTATION_NODE_POD_CPU_ALLOCS,
    extension.ANNOTATION_NODE_RESERVATION,
    extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE,
)
_NO_POLICY: Final = "None"
_POLICIES: Final = {
    ("container", "single-numa-node"): "SingleNUMANodeContainerLevel",
    ("container", "restricted"): "RestrictedContainerLevel",
    ("container", "best-effort"): "BestEffortContainerLevel",
    ("pod", "single-numa-node"): "SingleNUMANodePodLevel",
    ("pod", "restricted"): "RestrictedPodLevel",
    ("pod", "best-effort"): "BestEffortPodLevel",
}


@dataclass(frozen=True)
class NodeTopology:
    """What the agent manages in the NodeResourceTopology of its node."""

    annotations: Mapping[str, str]
    labels: Mapping[str, str] = field(default_factory=dict)
    policy: str = _NO_POLICY
    zones: tuple[Zone, ...] = ()


def topology_of(
    node: Node,
    cpus: NodeCPUInfo,
    numa: NodeNUMAInfo,
    pods: Iterable[PodMeta],
    kubelet: KubeletCPUs,
) -> NodeTopology:
    """Return what is to be reported. Raises ValueError for input that does not fit together."""
    pods = list(pods)
    annotations = node.metadata.annotations
    processors = {processor.cpu: processor for processor in cpus.processors}
    kubelet_pods = kubelet.allocations(pods)
    shared = dict(processors)
    for allocation in kubelet_pods:
        for cpu in cpuset.parse(allocation["cpuset"]):
            shared.pop(cpu, None)
    reservation = _reservation(annotations, cpus.processors)
    system = _system_qos(annotations)
    withheld = _cpus(reservation.get("reservedCPUs", "")) | _exclusive(system)
    ls_pools, be_pools = _shared_pools(shared, pods, withheld)
    basic = {
        "cpuModel": cpus.basic.cpu_model,
        "hyperThreadEnabled": cpus.basic.hyper_thread_enabled,
        "turboEnabled": cpus.basic.turbo_enabled,
        "catL3CbmMask": cpus.basic.cat_l3_cbm_mask,
        "vendorID": cpus.basic.vendor_id,
    }
    detail = [
        {"id": each.cpu, "core": each.core, "socket": each.socket, "node": each.node}
        for each in sorted(cpus.processors, key=lambda processor: processor.cpu)
    ]
    values: tuple[Any, ...] = (
        {name: value for name, value in basic.items() if value},
        kubelet.policy(cpus.processors),
        ls_pools or None,
        be_pools or None,
        {"detail": detail},
        kubelet_pods or None,
        reservation,
        system,
    )
    reserve = node.metadata.labels.get(LABEL_NUMA_RESERVATION, "")
    return NodeTopology(
        annotations={
            name: msgspec.json.encode(value).decode()
            for name, value in zip(MANAGED_ANNOTATIONS, values, strict=True)
        },
        labels={LABEL_NUMA_RESERVATION: reserve} if reserve else {},
        policy=_POLICIES.get((kubelet.topology_scope, kubelet.topology_policy), _NO_POLICY),
        zones=zones_of(node, cpus, numa, reserve=reserve == "true"),
    )


def _shared_pools(
    shared: Mapping[int, Processor], pods: Iterable[PodMeta], withheld: frozenset[int]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Return the pools of LS pods, and those of BE pods, which also may use CPUs of LSR pods."""
    exclusive: set[int] = set()
    exclusive_of_lse: set[int] = set()
    for meta in pods:
        try:
            allocated = cpuset.parse(resource_status.of(meta.pod.metadata.annotations).cpuset)
        except ValueError:
            continue
        exclusive |= allocated
        if qos.qos_class_raw(meta.pod) == "LSE":
            exclusive_of_lse |= allocated
    return _pools(shared, exclusive, withheld), _pools(shared, exclusive_of_lse, withheld)


def _pools(
    shared: Mapping[int, Processor], exclusive: set[int], withheld: frozenset[int]
) -> list[dict[str, Any]]:
    """Return a pool for each NUMA node that has shared CPUs; reservations may leave it empty."""
    by_node: dict[int, list[int]] = {}
    for cpu in sorted(shared.keys() - exclusive):
        by_node.setdefault(shared[cpu].node, []).append(cpu)
    pools = []
    for node, cpus in by_node.items():
        pool: dict[str, Any] = {"socket": shared[cpus[0]].socket, "node": node}
        if left := cpuset.render(set(cpus) - withheld):
            pool["cpuset"] = left
        pools.append(pool)
    return sorted(pools, key=lambda pool: (pool["socket"], pool["node"]))


def _reservation(annotations: Mapping[str, str], processors: Iterable[Processor]) -> dict[str, Any]:
    """Return the node's reservation, with concrete CPUs for an amount of cpu; empty if it is invalid."""
    found = _object(annotations.get(extension.ANNOTATION_NODE_RESERVATION, ""))
    if found is None:
        return {}
    known = ("resources", "reservedCPUs", "applyPolicy")
    kept = {name: found[name] for name in known if found.get(name)}
    try:
        if reserved := kept.get("reservedCPUs"):
            kept["reservedCPUs"] = cpuset.render(cpuset.parse(reserved))
        else:
            milli = quantity.milli_value(kept.get("resources", {}).get("cpu", 0))
            if milli > 0:
                taken = take_by_topology(processors, math.ceil(milli / 1000))
                kept["reservedCPUs"] = cpuset.render(taken)
    except (ValueError, TypeError, AttributeError):
        return {}
    return {name: value for name, value in kept.items() if value}


def _system_qos(annotations: Mapping[str, str]) -> dict[str, Any]:
    """Return the annotation of system QoS. Raises ValueError if it is no JSON object."""
    text = annotations.get(extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE)
    if text is None:
        return {}
    found = _object(text)
    if found is None:
        name = extension.ANNOTATION_NODE_SYSTEM_QOS_RESOURCE
        raise ValueError(f"annotation {name}: got {text!r}, expected a JSON object")
    return {name: found[name] for name in ("cpuset", "cpusetExclusive") if found.get(name) not in (None, "")}


def _exclusive(system: Mapping[str, Any]) -> frozenset[int]:
    return _cpus(system.get("cpuset", "")) if system.get("cpusetExclusive", True) else frozenset()


def _cpus(text: str) -> frozenset[int]:
    try:
        return cpuset.parse(text)
    except ValueError:
        return frozenset()


def _object(text: str) -> dict[str, Any] | None:
    try:
        return msgspec.json.decode(text, type=dict[str, Any])
    except msgspec.DecodeError:
        return None
