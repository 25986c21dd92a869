"""The policies by which CPUs are chosen, and what a required bind policy demands of a set of CPUs.

Source: Koordinator, `apis/extension/numa_aware.go`, and
`pkg/scheduler/plugins/nodenumaresource/resource_manager.go`.
"""

from collections.abc import Collection
from typing import Final

from ..topology.cpu_topology import CPUTopology

DEFAULT: Final = "Default"
FULL_PCPUS: Final = "FullPCPUs"
SPREAD_BY_PCPUS: Final = "SpreadByPCPUs"

PCPU_LEVEL: Final = "PCPULevel"
NUMA_NODE_LEVEL: Final = "NUMANodeLevel"

MOST_ALLOCATED: Final = "MostAllocated"
LEAST_ALLOCATED: Final = "LeastAllocated"
"""Strategies; any other one is like LeastAllocated."""

NODE_NONE: Final = "None"
NODE_FULL_PCPUS_ONLY: Final = "FullPCPUsOnly"
NODE_SPREAD_BY_PCPUS: Final = SPREAD_BY_PCPUS
"""Bind policies of nodes."""


def node_bind_policy(label: str, *, is_kubelet_full_pcpus_only: bool) -> str:
    """Return the bind policy of a node from its label; that of kubelet comes first."""
    if label == NODE_FULL_PCPUS_ONLY or is_kubelet_full_pcpus_only:
        return NODE_FULL_PCPUS_ONLY
    return label if label == NODE_SPREAD_BY_PCPUS else NODE_NONE


def filter_by_required(topology: CPUTopology, cpus: Collection[int], policy: str) -> frozenset[int]:
    """Return which of the available CPUs a pod with a required bind policy may get.

    FullPCPUs leaves the CPUs of cores that are wholly available, SpreadByPCPUs the first CPU of each core.
    """
    if policy not in (FULL_PCPUS, SPREAD_BY_PCPUS):
        return frozenset(cpus)
    if policy == FULL_PCPUS:
        return frozenset().union(*topology.whole_cores(frozenset(cpus)))
    core_of = topology.core_of
    known = topology.cpu_ids.intersection(cpus)
    return frozenset({core_of[cpu]: cpu for cpu in sorted(known, reverse=True)}.values())


def satisfies_required(topology: CPUTopology, cpus: Collection[int], policy: str) -> bool:
    """Return whether chosen CPUs are whole cores (FullPCPUs), or each of another core (SpreadByPCPUs)."""
    if policy not in (FULL_PCPUS, SPREAD_BY_PCPUS):
        return True
    cores = len({topology.core_of[cpu] for cpu in cpus if cpu in topology.core_of})
    return cores * (topology.cpus_per_core if policy == FULL_PCPUS else 1) == len(cpus)


def unsatisfied_message(policy: str) -> str:
    """Return why a pod does not get the CPUs that were chosen for it."""
    return f"insufficient CPUs to satisfy required cpu bind policy {policy}"
