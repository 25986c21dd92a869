"""A pod on a node: what both ask for, and what is allocated there."""

from dataclasses import dataclass

from koordpy.api.core import Node, Pod
from koordpy.scheduling.interface import NUMATopologyHint
from koordpy.scheduling.interface.status import Status

from .allocation.request import Request, request_of
from .attempt.node_policies import NodePolicies
from .attempt.pod_state import PodState
from .state.ledger import CPULedger
from .state.node_allocation import NodeAllocation
from .topology.options import TopologyOptions


@dataclass(frozen=True, slots=True)
class Case:
    """A pod on a node. `numa` is the NUMA policy of both, empty if they have different ones."""

    pod: Pod
    node: Node
    state: PodState
    options: TopologyOptions
    held: NodeAllocation | None
    policies: NodePolicies
    strategy: str

    @property
    def numa(self) -> str:
        """The NUMA policy that holds."""
        return self.policies.merged_numa(self.state)

    def binds(self) -> tuple[bool, Status]:
        """Return whether the pod gets CPUs of its own here, and why it cannot."""
        return self.policies.binds(self.state)

    def request(self, *, bind: bool, affinity: NUMATopologyHint | None = None) -> Request:
        """Return the request. Raises ValueError if the node's amplification ratios cannot be read."""
        return request_of(
            self.pod,
            self.node,
            self.state,
            self.options,
            self.held,
            bind=bind,
            strategy=self.strategy,
            affinity=affinity,
        )


class Cases:
    """Makes cases from what is allocated at present. `strategy` is the NUMA allocate strategy by default."""

    def __init__(self, ledger: CPULedger, strategy: str) -> None:
        self.ledger, self._strategy = ledger, strategy

    def of(self, pod: Pod, state: PodState, node: Node) -> Case:
        """Return a pod on a node."""
        name = node.metadata.name
        options = self.ledger.options(name)
        policies = NodePolicies.of(node, options)
        return Case(pod, node, state, options, self.ledger.node(name), policies, self._strategy)
