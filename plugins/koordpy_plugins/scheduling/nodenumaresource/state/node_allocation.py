"""What is allocated on one node, and what is left of it.

Two of Koordinator's rules make answers depend on what happened before, not only on the pods that are there.
The exclusive policy of a CPU is that of the last pod that got it, and stays when that pod is gone and others
have the CPU. And a NUMA node on which amounts were allocated once counts as having allocations, of amounts 0,
when they are released; on a node whose cpu is amplified only such NUMA nodes are charged for CPUs of pods
without amounts. Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/node_allocation.go`.
"""

from collections import Counter
from collections.abc import Mapping, Set
from typing import Final

from koordpy.api import extension
from koordpy.api.amplification import amplify
from koordpy.api.quantity import ZERO, Quantity
from koordpy.api.resource_amounts import Amounts, is_zero, minus, minus_not_negative, plus
from koordpy.api.resource_list import Quantities
from koordpy.scheduling.toolkit.topology_manager.policy import NumaNodeStatus

from ..cpus.accumulator import AllocatedCPU
from ..topology.cpu_topology import NO_TOPOLOGY, UNKNOWN, CPUTopology
from ..topology.options import TopologyOptions
from .pod_allocation import PodAllocation

MOST_TRACES: Final = 64
"""How many NUMA nodes without amounts, and resources of amount 0 on one, are remembered."""


class NodeAllocation:
    """The allocations on a node with a CPU topology."""

    __slots__ = (
        "_cpus_on_node",
        "_shared",
        "_single",
        "_topology",
        "allocated_cpus",
        "allocated_resources",
        "pods",
    )

    def __init__(self, topology: CPUTopology = NO_TOPOLOGY) -> None:
        self._topology = topology
        self.pods: dict[str, PodAllocation] = {}
        """By UID."""
        self.allocated_cpus: dict[int, AllocatedCPU] = {}
        """The CPUs that pods have."""
        self.allocated_resources: dict[int, Quantities] = {}
        """Sums by NUMA node; they may be 0."""
        self._cpus_on_node: Counter[int] = Counter()
        self._shared: dict[int, set[str]] = {}
        self._single: dict[int, set[str]] = {}

    def moved_to(self, topology: CPUTopology, *, with_traces: bool = True) -> "NodeAllocation":
        """Return the same allocations on a node with another CPU topology."""
        if topology is self._topology and with_traces:
            return self
        moved = NodeAllocation(topology)
        for allocation in self.pods.values():
            moved.add(allocation)
        if with_traces and self._topology.is_valid:
            for node, amounts in self.allocated_resources.items():
                zeros = dict.fromkeys(amounts, ZERO)
                moved.allocated_resources[node] = {**zeros, **moved.allocated_resources.get(node, {})}
        return moved

    # --- changes ---------------------------------------------------------------------------------

    def update(self, allocation: PodAllocation) -> None:
        """Replace what a pod has."""
        self.release(allocation.uid)
        self.add(allocation)

    def add(self, allocation: PodAllocation) -> None:
        """Add what a pod has, unless there is something of it already."""
        uid = allocation.uid
        if uid in self.pods:
            return
        self.pods[uid] = allocation
        alone = AllocatedCPU(1, allocation.exclusive_policy)
        for cpu in allocation.cpus:
            known = self.allocated_cpus.get(cpu)
            if known is None:
                self._cpus_on_node[self._node_of(cpu)] += 1
                self.allocated_cpus[cpu] = alone
            else:
                self.allocated_cpus[cpu] = AllocatedCPU(known.ref_count + 1, allocation.exclusive_policy)
        nodes = {self._node_of(cpu) for cpu in allocation.cpus}
        users = self._shared if len(nodes) > 1 else self._single
        for node in nodes:
            users.setdefault(node, set()).add(uid)
        for node, amounts in allocation.numa_resources.items():
            self.allocated_resources[node] = plus(self.allocated_resources.get(node, {}), amounts)

    def release(self, uid: str) -> PodAllocation | None:
        """Remove what a pod has, and return it; None if it has nothing."""
        allocation = self.pods.pop(uid, None)
        if allocation is None:
            return None
        for cpu in allocation.cpus:
            known = self.allocated_cpus[cpu]
            if known.ref_count > 1:
                self.allocated_cpus[cpu] = AllocatedCPU(known.ref_count - 1, known.exclusive)
                continue
            del self.allocated_cpus[cpu]
            node = self._node_of(cpu)
            self._cpus_on_node[node] -= 1
            if not self._cpus_on_node[node]:
                del self._cpus_on_node[node]
        for node in {self._node_of(cpu) for cpu in allocation.cpus}:
            for users in (self._shared, self._single):
                users.get(node, _NOBODY).discard(uid)
                if node in users and not users[node]:
                    del users[node]
        for node, amounts in allocation.numa_resources.items():
            self._subtract(node, amounts)
        return allocation

    def _subtract(self, node: int, amounts: Amounts) -> None:
        """Leave the sum of what the other pods have.

        It may be negative, as annotations may be. Koordinator raises such a sum to 0, and then keeps what
        no pod has when the pod with negative amounts goes.
        """
        left = minus(self.allocated_resources.get(node, {}), amounts)
        if len(left) > MOST_TRACES:
            left = {name: amount for name, amount in left.items() if not amount.is_zero}
        if is_zero(left) and len(self.allocated_resources) > MOST_TRACES:
            self.allocated_resources.pop(node, None)
        else:
            self.allocated_resources[node] = left

    def _node_of(self, cpu: int) -> int:
        return self._topology.cpus.get(cpu, UNKNOWN).node

    # --- reading ---------------------------------------------------------------------------------

    def get(self, uid: str) -> PodAllocation | None:
        """Return what a pod has."""
        return self.pods.get(uid)

    @property
    def is_empty(self) -> bool:
        """Whether no pod has anything."""
        return not self.pods

    def allocated_count(self, node: int | None = None) -> int:
        """Return how many CPUs pods have, on all NUMA nodes or on one; shared ones count once."""
        return len(self.allocated_cpus) if node is None else self._cpus_on_node.get(node, 0)

    def numa_status(self, count: int) -> tuple[NumaNodeStatus, ...]:
        """Return the status of the NUMA nodes 0 to count - 1."""
        return tuple(map(self._status, range(count)))

    def statuses(self) -> dict[int, NumaNodeStatus]:
        """Return the status of the NUMA nodes that are not idle."""
        return {node: self._status(node) for node in self._single.keys() | self._shared.keys()}

    def _status(self, node: int) -> NumaNodeStatus:
        if node in self._shared:
            return NumaNodeStatus.SHARED
        return NumaNodeStatus.SINGLE if node in self._single else NumaNodeStatus.IDLE

    def available_cpus(
        self, options: TopologyOptions, *given_back: Set[int]
    ) -> tuple[frozenset[int], Mapping[int, AllocatedCPU]]:
        """Return the CPUs that another pod can get, and how those that are allocated count for it.

        CPUs of the sets in `given_back` count as held by one pod less for each set that has them. Reserved
        CPUs are never available. Without a valid CPU topology there are none.
        """
        topology = options.cpu_topology
        allocated: Mapping[int, AllocatedCPU] = self.allocated_cpus
        if any(given_back):
            allocated = _without(self.allocated_cpus, given_back)
        most = options.max_ref_count
        taken: Set[int] = allocated.keys()
        if most > 1:
            taken = {cpu for cpu, each in allocated.items() if each.ref_count >= most}
        if topology is None:
            return _NO_CPUS, allocated
        return topology.cpu_ids.difference(taken, options.reserved_cpus), allocated

    def available_numa_resources(
        self, options: TopologyOptions, reusable: Mapping[int, Amounts]
    ) -> tuple[dict[int, Quantities], dict[int, Quantities]]:
        """Return by NUMA node what is left of its resources, and what is allocated.

        `reusable` amounts do not count as allocated. Only NUMA nodes with traces of allocations are among
        those allocated.
        """
        available: dict[int, Quantities] = {}
        total: dict[int, Quantities] = {}
        ratio = (options.amplification_ratios or {}).get(extension.CPU, 0.0)
        for node, amounts in options.numa_resources.items():
            allocated: Amounts = self.allocated_resources.get(node, _NOTHING)
            if node in self.allocated_resources:
                if ratio > 1:
                    allocated = self._amplified(node, allocated, ratio)
                total[node] = minus_not_negative(allocated, reusable.get(node, _NOTHING))
                allocated = total[node]
            available[node] = minus_not_negative(amounts, allocated)
        return available, total

    def _amplified(self, node: int, allocated: Amounts, ratio: float) -> Quantities:
        """Return what is allocated, with CPUs that pods have counted as often as they are amplified."""
        cpus = 1000 * self.allocated_count(node)
        cpu = allocated.get(extension.CPU, ZERO).milli_value() - cpus + amplify(cpus, ratio)
        return {**allocated, extension.CPU: Quantity.of_milli(cpu)}


_NO_CPUS: Final[frozenset[int]] = frozenset()
_NOTHING: Final[Amounts] = {}
_NOBODY: Final[set[str]] = set()


def _without(
    allocated: Mapping[int, AllocatedCPU], given_back: tuple[Set[int], ...]
) -> dict[int, AllocatedCPU]:
    left = dict(allocated)
    for cpus in given_back:
        for cpu in cpus:
            known = left.get(cpu)
            if known is None:
                continue
            if known.ref_count == 1:
                del left[cpu]
            else:
                left[cpu] = AllocatedCPU(known.ref_count - 1, known.exclusive)
    return left
