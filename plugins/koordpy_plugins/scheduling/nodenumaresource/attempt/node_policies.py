"""What the policies of a node, its kubelet and a pod amount to.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/util.go`.
"""

from dataclasses import dataclass
from typing import Final

from koordpy.api import extension
from koordpy.api.core import Node
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.topology_manager.policy import (
    NumaTopologyExclusive,
    NUMATopologyPolicy,
)

from ..cpus import policies
from ..topology.options import TopologyOptions
from .pod_state import NOT_WHOLE_CPUS, PodState

POLICY_MISMATCH: Final = "node(s) NUMA Topology policy not match"
_IMPLIED: Final = {
    policies.NODE_FULL_PCPUS_ONLY: policies.FULL_PCPUS,
    policies.NODE_SPREAD_BY_PCPUS: policies.SPREAD_BY_PCPUS,
}


@dataclass(frozen=True, slots=True)
class NodePolicies:
    """The bind policy that a node's own policy requires, empty if none, and the node's NUMA policy."""

    bind: str
    numa: str

    @classmethod
    def of(cls, node: Node, options: TopologyOptions) -> "NodePolicies":
        """Return the policies of a node; its labels come before what its NodeResourceTopology says."""
        labels = node.metadata.labels
        kubelet = options.kubelet_policy
        bind = policies.node_bind_policy(
            labels.get(extension.LABEL_NODE_CPU_BIND_POLICY, ""),
            is_kubelet_full_pcpus_only=kubelet is not None and kubelet.is_full_pcpus_only,
        )
        numa = labels.get(extension.LABEL_NODE_NUMA_TOPOLOGY_POLICY) or options.policy
        return cls(_IMPLIED.get(bind, ""), numa)

    def binds(self, pod: PodState) -> tuple[bool, Status]:
        """Return whether the pod gets CPUs of its own; it is refused if these would not be whole ones."""
        if pod.bind:
            return True, SUCCESS
        if pod.milli_cpu == 0 or not self.bind:
            return False, SUCCESS
        if pod.milli_cpu % 1000:
            return False, Status.unresolvable(NOT_WHOLE_CPUS)
        return True, SUCCESS

    def bind_policy(self, pod: PodState) -> tuple[str, bool]:
        """Return the bind policy of a pod on the node, and whether it is required."""
        if pod.required_policy:
            return pod.required_policy, True
        return (self.bind, True) if self.bind else (pod.preferred_policy, False)

    def mismatches(self, pod: PodState) -> bool:
        """Return whether node and pod have different NUMA policies."""
        return bool(self.numa and pod.numa_policy and self.numa != pod.numa_policy)

    def merged_numa(self, pod: PodState) -> str:
        """Return the NUMA policy for a pod, empty if node and pod have different ones."""
        return "" if self.mismatches(pod) else pod.numa_policy or self.numa


def exclusive_of(pod: PodState) -> NumaTopologyExclusive:
    """Return a pod's exclusive policy: required by default if the pod, not the node, sets a NUMA policy."""
    if not pod.numa_exclusive and pod.numa_policy:
        return NumaTopologyExclusive.REQUIRED
    try:
        return NumaTopologyExclusive(pod.numa_exclusive)
    except ValueError:
        return NumaTopologyExclusive.NONE


def known_policy(name: str) -> NUMATopologyPolicy | None:
    """Return a NUMA policy by name, None for one that does not exist."""
    try:
        return NUMATopologyPolicy(name)
    except ValueError:
        return None
