"""The points that find the nodes a pod can go to, from PreFilter to what happens when there is none."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet

from .cycle_state import CycleState
from .forms import Forms, TwoForms
from .node_info import NodeInfo, each
from .outcome import FilterOutcome, PostFilterResult
from .plan import PlacementPlan
from .status import SUCCESS, Status, Verdict


class BeforePreFilter:
    """Transformer: may replace the pod before PreFilter. Runs where PreFilter is enabled."""

    def before_pre_filter(self, state: CycleState, pod: Pod) -> tuple[Pod | None, Status]:
        """Return a pod for the rest of PreFilter (None: the same); a failure ends the attempt."""
        raise NotImplementedError


class PreFilter:
    """Runs once per attempt, before any node is filtered.

    `node_local` means that add_pod and remove_pod change the answer of Filter for their node only: then
    preemption evaluates many nodes in one pass. `for_each_pod` means that PreFilter may reject a pod although
    it passed an identical one, because that one counts by now (quotas): then it runs for every pod, also
    where the nodes found for an identical pod are used again.
    """

    node_local: ClassVar[bool] = False
    for_each_pod: ClassVar[bool] = False

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Return the only node names that may fit (None: any) and a status.

        `nodes` are the candidates as the attempt sees them. Skip also skips this plugin's Filter.
        UnschedulableAndUnresolvable ends the attempt at once, Unschedulable after the other plugins have run.
        Any other code is an Error.
        """
        raise NotImplementedError

    def needs_rerun(self, state: CycleState, pod: Pod, nodes: NodeSet) -> bool:
        """Return whether PreFilter and Filter of an in-tree plugin have to run again after kube-scheduler.

        Called only where another plugin names this one in `reruns`, in place of PreFilter. Return False if
        kube-scheduler has seen everything that matters for this pod. That must be cheap, because it is the
        answer for almost all pods.
        """
        return True

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Update what pre_filter wrote as if `added` were on the node too."""
        return SUCCESS

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Update what pre_filter wrote as if `removed` were no longer on the node."""
        return SUCCESS


class AfterPreFilter:
    """Transformer: sees the result of PreFilter. Runs where PreFilter is enabled."""

    def after_pre_filter(self, state: CycleState, pod: Pod, node_names: frozenset[str] | None) -> Status:
        """Return Success, or a failure that ends the attempt."""
        raise NotImplementedError


class FindOneNode:
    """Places a pod, or the pods of a job together, by a plan; one per profile."""

    def find_one_node(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[str | PlacementPlan, Status]:
        """Return the one node to try, or a plan with the pod among others, or Skip.

        A failure ends the attempt. As long as a plan holds, its other pods are tried on their planned nodes
        alone, without another call. `node_names` are what PreFilter left to this pod (None: any node).
        """
        raise NotImplementedError


class PreferNodes:
    """Names nodes to be tried first; one per profile."""

    def prefer_nodes(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[Sequence[str], Status]:
        """Return names in order: the first that passes all filters is taken alone. Or Skip."""
        raise NotImplementedError


class NodeTransformer:
    """Transformer: changes the nodes that attempts see.

    What it returns is what PreFilter, Filter, PreScore and Score of all plugins get. Runs where these points
    are enabled, before their other transformers.
    """

    def transform_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NodeSet:
        """Return the nodes, same names and order, possibly overlaid.

        Called several times per attempt, also with the same nodes: cache what is expensive.
        """
        raise NotImplementedError


class BeforeFilter:
    """Transformer: may change the nodes that this attempt sees. Runs where Filter is enabled."""

    def before_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Verdict]:
        """Return the pod, the nodes (same names and order, possibly overlaid) and nodes already rejected."""
        raise NotImplementedError


class Filter(TwoForms):
    """Rejects nodes. Called after PreFilter, for the remaining nodes; a node's first rejection counts."""

    _forms: ClassVar[Forms] = (("filter", "filter_nodes"),)

    def filter(self, state: CycleState, pod: Pod, node: NodeInfo) -> Status:
        """Return Success, Unschedulable, UnschedulableAndUnresolvable; anything else fails the attempt."""
        return self.filter_nodes(state, pod, node.alone().nodes).status(0)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Return the same for all nodes at once."""
        return Verdict.of([self.filter(state, pod, node) for node in each(nodes)])


class PostFilter:
    """Called when no node was found, usually to preempt.

    Beside kube-scheduler, whose own preemption cannot help where koordpy alone rejects a pod, it is called
    after such a filter call if `beside_kube_scheduler`, in the process that holds the Lease.
    """

    beside_kube_scheduler: bool = False

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Return a nomination and a status.

        Success ends the phase; Unschedulable continues with the next plugin (reasons add up, the last
        overriding nomination counts); UnschedulableAndUnresolvable ends it; anything else is an Error.
        """
        raise NotImplementedError


@dataclass(slots=True)
class Victims:
    """Pods on one node that would be evicted for another pod."""

    pods: list[Pod]
    pdb_violations: int = 0


class Preempt:
    """Reviews the victims that kube-scheduler proposes. Runs where PostFilter is enabled, in its order."""

    def preempt(self, state: CycleState, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Return the resulting proposals by node name: nodes may be dropped, victims dropped or added."""
        raise NotImplementedError


class ExplainsFailure:
    """Explains why a pod fits nowhere beyond the reasons of each node, without acting on it.

    Beside kube-scheduler it replaces the message of PostFilter's status. Runs where PostFilter is
    enabled.
    """

    def reasons(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> Sequence[str]:
        """Return reasons, in order; empty if there is nothing to add."""
        raise NotImplementedError


class AfterPostFilter:
    """Transformer: observes the end of PostFilter. Runs where PostFilter is enabled, always."""

    def after_post_filter(self, state: CycleState, pod: Pod, outcome: FilterOutcome, status: Status) -> None:
        """Observe the result."""
        raise NotImplementedError
