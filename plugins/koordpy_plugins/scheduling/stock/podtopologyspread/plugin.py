"""Spread the pods of a workload evenly over topology domains.

Source: Kubernetes, `framework/plugins/podtopologyspread`.
"""

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from koordpy.api import node_affinity
from koordpy.api.core import Node, Pod, ReplicaSet, ReplicationController, Service, StatefulSet
from koordpy.api.label_selector import Selector, SelectorError
from koordpy.api.needs import Needs
from koordpy.api.node_affinity import ANY_NODE
from koordpy.api.taints import find_untolerated
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.pod_counts import PodCounts
from koordpy.lib.bounded_cache import cached
from koordpy.scheduling.interface import (
    MAX_NODE_SCORE,
    Filter,
    Plugin,
    PreFilter,
    PreScore,
    Reach,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Code, Codes, Keys, Status, Verdict
from koordpy.scheduling.toolkit.node_memo import MemoCache
from koordpy.scheduling.toolkit.taint_sets import TaintSets
from koordpy.scheduling.toolkit.topology import DomainCounts, Topology

from .args import DO_NOT_SCHEDULE, SCHEDULE_ANYWAY, PodTopologySpreadArgs
from .constraints import Constraint, read
from .default_selector import DefaultSelectors

REASON = "node(s) didn't match pod topology spread constraints"
REASON_LABEL = f"{REASON} (missing required label)"

_NO_DOMAIN = (1 << 31) - 1
_IGNORED = -1
"""The raw score of nodes that lack a label."""


class _Spread:
    """The present spread of the pods that a constraint selects."""

    __slots__ = ("_counted", "constraint", "counts")

    def __init__(self, constraint: Constraint, counts: DomainCounts, counted: Bool) -> None:
        self.constraint, self.counts, self._counted = constraint, counts, counted

    @property
    def least(self) -> int:
        """The minimum number of pods in a domain, 0 with fewer domains than `minDomains`."""
        counted = np.flatnonzero(self._counted)
        if len(counted) < self.constraint.min_domains:
            return 0
        return int(self.counts.values[counted].min()) if len(counted) else _NO_DOMAIN

    def add(self, number: int, amount: int) -> None:
        """Add pods to a domain, or remove them."""
        self.counts.add(number, amount)
        missing = len(self.counts.values) - len(self._counted)
        self._counted = np.concatenate([self._counted, np.zeros(missing, np.bool_)])
        self._counted[number] = True

    def clone(self) -> "_Spread":
        return _Spread(self.constraint, self.counts.clone(), self._counted)


@dataclass(slots=True)
class _Filtered:
    """The counts of PreFilter, by constraint."""

    spreads: Sequence[_Spread]

    def clone(self) -> "_Filtered":
        """Return a copy for a what-if."""
        return _Filtered([spread.clone() for spread in self.spreads])


@dataclass(frozen=True, slots=True)
class _Scored:
    """The counts of PreScore."""

    constraints: Sequence[Constraint]
    counts: Sequence[DomainCounts | Int64]
    """By domain; by row where every node is a separate domain."""
    weights: Sequence[float]
    needs_all_labels: bool


_PRE_FILTER: StateKey[_Filtered] = StateKey("PreFilterPodTopologySpread")
_PRE_SCORE: StateKey[_Scored] = StateKey("PreScorePodTopologySpread")


class PodTopologySpread(Plugin, PreFilter, Filter, PreScore, Score, SignPlugin):
    """Refuses nodes where a pod would exceed the maximum skew; lower skew scores higher."""

    name = "PodTopologySpread"
    reach = Reach.NOWHERE
    reads_requests = False
    is_separable = True
    needs = Needs(later=(ReplicaSet, ReplicationController, Service, StatefulSet))
    args: PodTopologySpreadArgs

    def __init__(self, args: PodTopologySpreadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._defaults = args.defaults
        self._is_system = args.is_system
        self._selectors = DefaultSelectors(handle.cluster)
        self._topology = handle.cluster.shared(Topology)
        self._taints = TaintSets(handle.nodes)
        self._allowed = MemoCache(handle.nodes, np.bool_)

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """The feasible nodes of a pod with constraints depend on the pods of all nodes."""
        if pod.spec.topology_spread_constraints:
            return None
        return () if not self._defaults or self._selectors.of(pod).is_empty else None

    def _constraints(self, pod: Pod, when_unsatisfiable: str) -> Sequence[Constraint]:
        """Return a pod's own constraints of one kind, or else the default ones. Raises SelectorError."""
        if pod.spec.topology_spread_constraints:
            return read(pod.spec.topology_spread_constraints, pod, when_unsatisfiable)
        defaults = read(self._defaults, pod, when_unsatisfiable)
        if not defaults:
            return ()
        selector = self._selectors.of(pod)
        return () if selector.is_empty else _selecting((selector, defaults))

    # --- filter ----------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Count the pods that the constraints select, by domain. Skip pods without such constraints."""
        try:
            constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        except SelectorError as error:
            return None, Status.failed(error)
        if not constraints:
            return None, Status.skip()
        state.write(_PRE_FILTER, self._count(constraints, pod, nodes))
        return None, SUCCESS

    def needs_rerun(self, state: CycleState, pod: Pod, nodes: NodeSet) -> bool:
        """Return whether the pod's constraints count any hidden pod."""
        if not self.handle.nodes.hidden:
            return False
        try:
            constraints = self._constraints(pod, DO_NOT_SCHEDULE)
        except SelectorError:
            return True
        matches = [constraint.match(pod.metadata.namespace) for constraint in constraints]
        counts = self.handle.cluster.shared(PodCounts) if any(matches) else None
        return counts is not None and any(match is not None and counts.hides(match) for match in matches)

    def _count(self, constraints: Sequence[Constraint], pod: Pod, nodes: NodeSet) -> _Filtered:
        everywhere = nodes.table.all()
        labelled = self._topology.having_all((item.topology_key for item in constraints), everywhere)
        spreads = []
        for constraint in constraints:
            counts = DomainCounts(self._topology.domains(constraint.topology_key))
            counting = labelled & self._counts_nodes(constraint, pod, everywhere)
            numbers = counts.domains.of(everywhere)[counting]
            pods = self._pods(constraint, pod, nodes)
            if pods is not None:
                counts.add_all(numbers, pods[everywhere.rows[counting]])
            counted = np.zeros(len(counts.values), np.bool_)
            counted[numbers] = True
            spreads.append(_Spread(constraint, counts, counted))
        return _Filtered(spreads)

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Compare a node's domain with the minimum of all domains, constraint by constraint."""
        filtered = state.read(_PRE_FILTER)
        if filtered is None:
            filtered = self._count(self._constraints(pod, DO_NOT_SCHEDULE), pod, nodes)
        codes: Codes = np.zeros(len(nodes), np.int8)
        keys: Keys = np.zeros(len(nodes), np.int64)
        for spread in filtered.spreads:
            constraint, counts = spread.constraint, spread.counts
            numbers = counts.domains.of(nodes)
            own = int(constraint.selector.matches(pod.metadata.labels))
            uneven = counts.at(numbers) + own - spread.least > constraint.max_skew
            undecided = codes == 0
            missing = undecided & (numbers == 0)
            codes[missing], keys[missing] = Code.UNSCHEDULABLE_AND_UNRESOLVABLE, 1
            codes[undecided & uneven & ~missing] = Code.UNSCHEDULABLE
        return Verdict.keyed(codes, keys, ((REASON,), (REASON_LABEL,)))

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Add a pod on a node."""
        return self._recount(state, pod, added, node.node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Remove a pod from a node."""
        return self._recount(state, pod, removed, node.node, -1)

    def _recount(self, state: CycleState, pod: Pod, other: Pod, node: Node, sign: int) -> Status:
        filtered = state.read(_PRE_FILTER)
        if filtered is None or other.metadata.namespace != pod.metadata.namespace:
            return SUCCESS
        labels = node.metadata.labels
        if all(spread.constraint.topology_key in labels for spread in filtered.spreads):
            for spread in filtered.spreads:
                constraint = spread.constraint
                if constraint.selector.matches(other.metadata.labels) and _counts_node(constraint, pod, node):
                    spread.add(spread.counts.domains.of_node(node), sign)
        return SUCCESS

    # --- score -----------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Count the pods in the domains of the feasible nodes. Skip pods without such constraints."""
        try:
            constraints = self._constraints(pod, SCHEDULE_ANYWAY)
        except SelectorError as error:
            return Status.failed(error)
        if not constraints:
            return Status.skip()
        needs_all = bool(pod.spec.topology_spread_constraints) or not self._is_system
        everywhere = nodes.table.all()
        keys = [item.topology_key for item in constraints]
        counting = np.ones(len(everywhere), np.bool_)
        ranked = nodes
        if needs_all:
            counting = self._topology.having_all(keys, everywhere)
            ranked = nodes.subset(self._topology.having_all(keys, nodes))
        counts: list[DomainCounts | Int64] = []
        weights = []
        pods, selector = None, None
        for constraint in constraints:
            if constraint.selector is not selector:  # that of all default constraints is the same
                pods, selector = self._pods(constraint, pod, nodes), constraint.selector
            if constraint.is_per_node:
                size = len(ranked)
                counts.append(np.zeros(nodes.table.capacity, np.int64) if pods is None else pods.copy())
            else:
                of_domains = DomainCounts(self._topology.domains(constraint.topology_key))
                size = int(np.count_nonzero(np.bincount(self._domain_numbers(of_domains, ranked))))
                here = counting & self._counts_nodes(constraint, pod, everywhere)
                numbers = self._domain_numbers(of_domains, everywhere)[here]
                if pods is not None:
                    of_domains.add_all(numbers, pods[everywhere.rows[here]])
                counts.append(of_domains)
            weights.append(float(np.log(size + 2)))
        state.write(_PRE_SCORE, _Scored(constraints, counts, weights, needs_all))
        return SUCCESS

    @staticmethod
    def _domain_numbers(counts: DomainCounts, nodes: NodeSet) -> Int64:
        """(n,) the domains of nodes; those without the label form one domain."""
        numbers = counts.domains.of(nodes)
        if np.count_nonzero(numbers) == len(numbers):
            return numbers
        return np.where(numbers == 0, counts.domains.number(""), numbers)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Sum the counts of each constraint in a node's domain, weighted by the number of domains."""
        scored = state.read(_PRE_SCORE)
        if scored is None:
            return np.zeros(len(nodes), np.int64)
        total: NDArray[np.float64] = np.zeros(len(nodes))
        ranked = np.ones(len(nodes), np.bool_)
        for constraint, counts, weight in zip(scored.constraints, scored.counts, scored.weights, strict=True):
            if isinstance(counts, DomainCounts):
                numbers = counts.domains.of(nodes)
                pods = counts.at(numbers)
            else:
                numbers = self._topology.domains(constraint.topology_key).of(nodes)
                pods = counts[nodes.rows]
            total += np.where(numbers > 0, pods * weight + float(constraint.max_skew - 1), 0.0)
            ranked &= numbers > 0
        whole = np.floor(total)
        scores: Int64 = (whole + (total - whole >= 0.5)).astype(np.int64)
        return np.where(ranked, scores, _IGNORED) if scored.needs_all_labels else scores

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
        """Score the nodes with the fewest pods highest, and those that lack a label with 0."""
        ranked = scores != _IGNORED
        if not ranked.any():
            return np.zeros_like(scores)
        least, most = int(scores[ranked].min()), int(scores[ranked].max())
        if most == 0:
            return np.where(ranked, MAX_NODE_SCORE, 0)
        return np.where(ranked, MAX_NODE_SCORE * (most + least - scores) // most, 0)

    # --- nodes and pods --------------------------------------------------------------------------

    def _counts_nodes(self, constraint: Constraint, pod: Pod, nodes: NodeSet) -> Bool:
        """(n,) whether a constraint counts nodes."""
        counting = np.ones(len(nodes), np.bool_)
        required = node_affinity.required(pod.spec)
        if constraint.honors_affinity and required is not ANY_NODE:
            counting &= self._allowed.of(required, required.matches_node).of(nodes).astype(np.bool_)
        if constraint.honors_taints:
            numbers = self._taints.of(nodes)
            if numbers.any():
                tolerations = pod.spec.tolerations
                counting &= self._taints.each(
                    numbers, lambda taints: find_untolerated(taints, tolerations) is None
                ).astype(np.bool_)
        return counting

    def _pods(self, constraint: Constraint, pod: Pod, nodes: NodeSet) -> Int64 | None:
        """(rows of the table,) the pods that a constraint selects; None when it selects none."""
        match = constraint.match(pod.metadata.namespace)
        return None if match is None else self.handle.cluster.shared(PodCounts).by_row(match, nodes)


@cached("default_spread", 1 << 20)
def _selecting(parts: tuple[Selector, tuple[Constraint, ...]]) -> tuple[Constraint, ...]:
    """Return constraints with a selector: the same ones for all pods of a workload."""
    selector, constraints = parts
    return tuple(replace(item, selector=selector) for item in constraints)


def _counts_node(constraint: Constraint, pod: Pod, node: Node) -> bool:
    """Return whether a constraint counts a node."""
    if constraint.honors_affinity and not node_affinity.required(pod.spec).matches_node(node):
        return False
    return not constraint.honors_taints or find_untolerated(node.spec.taints, pod.spec.tolerations) is None
