"""What is to be allocated to a pod on one node, and what it may use for that.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/plugin.go` (`getResourceOptions`) and
`resource_manager.go` (`ResourceOptions`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from koordpy.api import extension
from koordpy.api.amplification import amplify_list
from koordpy.api.core import Node, Pod
from koordpy.api.quantity import Quantity
from koordpy.api.resource_amounts import Amounts
from koordpy.api.resource_list import Quantities
from koordpy.scheduling.interface import NUMATopologyHint

from ..attempt.node_policies import NodePolicies
from ..attempt.pod_state import PodState
from ..attempt.preemptible import NodePreemptible, NUMAResources
from ..cpus import policies
from ..cpus.accumulator import AllocatedCPU
from ..state.node_allocation import NodeAllocation
from ..topology.cpu_topology import CPUTopology, InvalidTopology
from ..topology.options import TopologyOptions, amplified

_NO_CPUS: Final[frozenset[int]] = frozenset()
_NO_ALLOCATION: Final = NodeAllocation()


@dataclass(eq=False)
class Offer:
    """What an allocation may use besides what is free, and what there is then for a request.

    `reusable` amounts by NUMA node do not count as allocated. `given_back` are sets of CPUs that count as
    held by one pod less for each set that has them; those in `preferred` are taken first. If `required` has
    NUMA nodes, amounts come from it alone, whatever the node has left; it is trimmed in place.

    What there is does not depend on the affinity of the request: it is found out once for all sets of NUMA
    nodes that are tried.
    """

    request: "Request"
    reusable: NUMAResources = field(default_factory=dict)
    preferred: frozenset[int] = _NO_CPUS
    given_back: tuple[frozenset[int], ...] = ()
    required: dict[int, Quantities] | None = None

    @cached_property
    def topology(self) -> CPUTopology | None:
        """The CPU topology, without which there are no CPUs. Raises InvalidTopology for one without CPUs."""
        topology = self.request.options.cpu_topology
        if topology is not None and not topology.is_valid:
            raise InvalidTopology
        return topology

    @cached_property
    def _cpus(self) -> tuple[frozenset[int], Mapping[int, AllocatedCPU]]:
        if self.topology is None:
            return _NO_CPUS, {}
        return self.request.held.available_cpus(self.request.options, *self.given_back)

    @property
    def allocated_cpus(self) -> Mapping[int, AllocatedCPU]:
        """How allocated CPUs count."""
        return self._cpus[1]

    @cached_property
    def suitable_cpus(self) -> frozenset[int]:
        """The available CPUs, of which a required bind policy may allow only some."""
        return self._suitable(self._cpus[0])

    @cached_property
    def amounts(self) -> dict[int, Quantities]:
        """What there is by NUMA node: of cpu no more than CPUs that a required bind policy allows.

        Raises InvalidTopology.
        """
        request = self.request
        found = self.required
        if not found:
            found = request.held.available_numa_resources(request.options, self.reusable)[0]
        if request.is_required:
            self._trim(found)
        return found

    def _trim(self, amounts: dict[int, Quantities]) -> None:
        topology = self.topology
        for node, of_node in amounts.items():
            cpu = of_node.get(extension.CPU)
            if cpu is None or cpu.is_zero:
                continue
            count = 0
            if topology is not None:
                count = len(self._suitable(self._cpus[0] & topology.cpus_of_node(node)))
            if count * 1000 < cpu.milli_value():
                of_node[extension.CPU] = Quantity.of_milli(count * 1000, cpu.format)

    def _suitable(self, cpus: frozenset[int]) -> frozenset[int]:
        if self.topology is None or not self.request.is_required:
            return cpus
        return policies.filter_by_required(self.topology, cpus, self.request.bind_policy)


@dataclass(slots=True)
class Request:
    """What a pod asks of a node, with the policies that hold there.

    `requests` has cpu amplified if the pod gets CPUs of its own on an amplified node; `pod_requests` never.
    `affinity` is the mask of NUMA nodes to allocate from, None for no NUMA nodes in particular.
    """

    pod: Pod
    node: Node
    state: PodState
    options: TopologyOptions
    held: NodeAllocation
    strategy: str
    bind: bool
    bind_policy: str
    is_required: bool
    requests: Amounts
    affinity: int | None = None
    preemptible: NodePreemptible | None = None
    offers: dict[str | None, Offer] = field(default_factory=dict)
    """Offers that hold for any affinity: of reservations by UID, and of the node (None)."""
    offer: Offer = field(init=False)
    """The offer of the last try."""

    def __post_init__(self) -> None:
        """Begin with what is free."""
        self.offer = Offer(self)

    @property
    def pod_requests(self) -> Quantities:
        """What the pod requests."""
        return self.state.requests

    @property
    def num_cpus(self) -> int:
        """How many CPUs the pod needs."""
        return self.state.num_cpus

    @property
    def cpu_ratio(self) -> float:
        """The amplification ratio of cpu, 0 if there is none."""
        return _ratio(self.options.amplification_ratios)

    def made_by(self, offer: Offer) -> Offer:
        """Remember the offer of a try, and return it."""
        self.offer = offer
        return offer


def _ratio(ratios: Mapping[str, float] | None) -> float:
    return (ratios or {}).get(extension.CPU, 0.0)


def request_of(
    pod: Pod,
    node: Node,
    state: PodState,
    options: TopologyOptions,
    held: NodeAllocation | None,
    *,
    bind: bool,
    strategy: str,
    affinity: NUMATopologyHint | None = None,
) -> Request:
    """Return what a pod asks of a node; `strategy` holds unless the node's label names another one.

    Raises ValueError if the node's amplification ratios cannot be read.
    """
    options = amplified(options, node.metadata.annotations)
    ratios = options.amplification_ratios
    requests: Amounts = state.requests
    if bind and _ratio(ratios) > 1:
        cpu = {name: amount for name, amount in requests.items() if name == extension.CPU}
        requests = {**requests, **amplify_list(cpu, ratios)}
    bind_policy, is_required = NodePolicies.of(node, options).bind_policy(state)
    preemptible = state.preemptible.get(node.metadata.name)
    return Request(
        pod=pod,
        node=node,
        state=state,
        options=options,
        held=_NO_ALLOCATION if held is None else held,
        strategy=node.metadata.labels.get(extension.LABEL_NODE_NUMA_ALLOCATE_STRATEGY) or strategy,
        bind=bind,
        bind_policy=bind_policy,
        is_required=is_required,
        requests=requests,
        affinity=None if affinity is None else affinity.affinity,
        preemptible=preemptible,
    )
