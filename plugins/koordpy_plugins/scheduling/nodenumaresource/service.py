"""The response of `/apis/v1/plugins/NodeNUMAResource/nodes/<name>`.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/service.go`.
"""

from collections.abc import Mapping
from typing import Any

from koordpy.api.core import Node
from koordpy.api.resource_amounts import Amounts
from koordpy.lib import cpuset

from .attempt.node_policies import NodePolicies
from .cpus.accumulator import AllocatedCPU
from .state.ledger import CPULedger
from .state.node_allocation import NodeAllocation
from .topology.cpu_topology import CPU, UNKNOWN, CPUTopology
from .topology.options import TopologyOptions, amplified

_NONE_HELD = NodeAllocation()


def node_allocations(ledger: CPULedger, node: Node) -> dict[str, Any]:
    """Return the CPUs and NUMA nodes of a node and what is allocated.

    Raises LookupError, which becomes a 404 (in Koordinator a 500), if the node has no valid CPU topology, or
    its amplification ratios cannot be read.
    """
    name = node.metadata.name
    options = ledger.options(name)
    topology = options.cpu_topology
    if topology is None or not topology.is_valid:
        raise LookupError("invalid topology, please check the NodeResourceTopology object")
    try:
        options = amplified(options, node.metadata.annotations)
    except ValueError as error:
        raise LookupError(f"failed to amplify NUMANode Resources, err: {error}") from None
    held = ledger.node(name) or _NONE_HELD
    cpus, allocated = held.available_cpus(options)
    left, used = held.available_numa_resources(options, {})
    return {
        "name": name,
        "cpuTopology": _topology(topology),
        "reservedCPUs": cpuset.render(options.reserved_cpus),
        "maxRefCount": options.max_ref_count,
        "policy": _policy(options),
        "numaTopologyPolicy": NodePolicies.of(node, options).numa,
        "numaNodeResources": _resources(options.numa_resources),
        "amplificationRatios": {
            key: round(ratio, 2) for key, ratio in sorted((options.amplification_ratios or {}).items())
        },
        "remainingNUMANodeResources": _resources(left),
        "allocatedNUMANodeResources": _resources(used),
        "availableCPUs": cpuset.render(cpus),
        "allocatedCPUs": _cpus(topology, allocated),
        "allocatedPods": [
            {
                "uid": each.uid,
                "namespace": each.namespace,
                "name": each.name,
                "cpuset": cpuset.render(each.cpus),
                "cpuExclusivePolicy": each.exclusive_policy,
                "numaNodeResources": _resources(each.numa_resources),
            }
            for each in sorted(held.pods.values(), key=lambda each: (each.namespace, each.name, each.uid))
        ],
    }


def _topology(topology: CPUTopology) -> dict[str, Any]:
    return {
        "numCPUs": topology.num_cpus,
        "numCores": topology.num_cores,
        "numNodes": topology.num_nodes,
        "numSockets": topology.num_sockets,
        "cpuDetails": {str(cpu): _cpu(each, 0, "") for cpu, each in topology.cpus.items()},
    }


def _policy(options: TopologyOptions) -> dict[str, Any] | None:
    kubelet = options.kubelet_policy
    if kubelet is None:
        return None
    document: dict[str, Any] = {"policy": kubelet.policy, "reservedCPUs": kubelet.reserved_cpus}
    document["options"] = dict(kubelet.options or {})
    return {key: value for key, value in document.items() if value}


def _resources(by_node: Mapping[int, Amounts]) -> list[dict[str, Any]]:
    return [
        {"node": node, "resources": {name: str(by_node[node][name]) for name in sorted(by_node[node])}}
        for node in sorted(by_node)
    ]


def _cpus(topology: CPUTopology, allocated: Mapping[int, AllocatedCPU]) -> dict[str, Any]:
    return {
        str(cpu): _cpu(
            topology.cpus.get(cpu, UNKNOWN), allocated[cpu].ref_count, allocated[cpu].exclusive, cpu
        )
        for cpu in sorted(allocated)
    }


def _cpu(each: CPU, ref_count: int, exclusive: str, cpu: int | None = None) -> dict[str, Any]:
    return {
        "cpuID": each.cpu if cpu is None else cpu,
        "coreID": each.core,
        "nodeID": each.node,
        "socketID": each.socket,
        "refCount": ref_count,
        "exclusivePolicy": exclusive,
    }
