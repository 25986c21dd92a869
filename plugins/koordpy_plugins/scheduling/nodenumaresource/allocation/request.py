"""What is to be allocated to a pod on one node, and what it may use for that.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/plugin.go` (`getResourceOptions`) and
`resource_manager.go` (`ResourceOptions`).
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from koordpy.api import extension
from koordpy.api.amplification import amplify_list
from koordpy.api.core import Node, Pod
from koordpy.api.resource_amounts import Amounts
from koordpy.api.resource_list import Quantities
from koordpy.scheduling.interface import NUMATopologyHint

from ..attempt.node_policies import NodePolicies
from ..attempt.pod_state import PodState
from ..attempt.preemptible import NodePreemptible, NUMAResources
from ..state.node_allocation import NodeAllocation
from ..topology.options import TopologyOptions, amplified

_NO_CPUS: Final[frozenset[int]] = frozenset()
_NO_ALLOCATION: Final = NodeAllocation()


@dataclass(frozen=True, slots=True)
class Offer:
    """What an allocation may use besides what is free.

    `reusable` amounts by NUMA node do not count as allocated. `given_back` are sets of CPUs that count as
    held by one pod less for each set that has them; those in `preferred` are taken first. If `required` has
    NUMA nodes, amounts come from it alone, whatever the node has left; it is trimmed in place.
    """

    reusable: NUMAResources = field(default_factory=dict)
    preferred: frozenset[int] = _NO_CPUS
    given_back: tuple[frozenset[int], ...] = ()
    required: dict[int, Quantities] | None = None


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
    offer: Offer = field(default_factory=Offer)
    """The offer of the last try."""

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
