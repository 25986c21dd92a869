"""Affinity and anti-affinity to other pods.

Source: Kubernetes, `framework/plugins/interpodaffinity`. For each domain of a node label it counts the pods
that match the pod's terms, and those with terms that match the pod. Hidden pods count like others; where
kube-scheduler has filtered already, they are the only reason to run the filter again.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from koordpy.api.core import Namespace, Pod
from koordpy.api.label_selector import NOTHING
from koordpy.cluster.columns import Bool, Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.cluster.pod_counts import PodCounts
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
from koordpy.scheduling.toolkit.topology import DomainCounts, Topology

from .args import InterPodAffinityArgs
from .bound_terms import BoundTerms, MatchedTerm, TermIndex
from .terms import NO_LABELS, NO_TERMS, PodTerms, Term, all_of, has_preferred, read

REASON_AFFINITY = "node(s) didn't match pod affinity rules"
REASON_ANTI_AFFINITY = "node(s) didn't match pod anti-affinity rules"
REASON_EXISTING = "node(s) didn't satisfy existing pods anti-affinity rules"
_REASONS = ((REASON_AFFINITY,), (REASON_ANTI_AFFINITY,), (REASON_EXISTING,))

_Counts = dict[str, DomainCounts]
"""By the key of the nodes' label."""


@dataclass(slots=True)
class _Filtered:
    """The counts of PreFilter."""

    terms: PodTerms
    of_namespace: Mapping[str, str]
    """The labels of the pod's namespace."""
    existing: _Counts
    """Anti-affinity terms of other pods that match the pod."""
    near: _Counts
    """Pods that match all affinity terms of the pod."""
    far: _Counts
    """Pods that match its anti-affinity terms, once per term."""

    def clone(self) -> "_Filtered":
        """Return a copy for a what-if."""
        return replace(self, existing=_copy(self.existing), near=_copy(self.near), far=_copy(self.far))


_PRE_FILTER: StateKey[_Filtered] = StateKey("PreFilterInterPodAffinity")
_PRE_SCORE: StateKey[_Counts] = StateKey("PreScoreInterPodAffinity")


class InterPodAffinity(Plugin, PreFilter, Filter, PreScore, Score, SignPlugin):
    """Refuses nodes by required terms of the pod and of running pods; preferred terms raise or lower the
    score."""

    name = "InterPodAffinity"
    reach = Reach.NOWHERE
    reads_requests = False
    is_separable = True
    args: InterPodAffinityArgs

    def __init__(self, args: InterPodAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._hard_weight = args.hard_pod_affinity_weight
        self._only_own_preferences = args.ignore_preferred_terms_of_existing_pods
        self._topology = handle.cluster.shared(Topology)
        self._bound = BoundTerms(handle.nodes, self._scored)
        self._hidden = BoundTerms(handle.nodes.hidden, self._scored)
        self._namespaces = handle.cluster.store(Namespace)

    def _scored(self, terms: PodTerms) -> tuple[Term, ...]:
        """The terms of a running pod that count for scores."""
        if not self._hard_weight:
            return terms.preferred
        return terms.preferred + tuple(replace(term, weight=self._hard_weight) for term in terms.required)

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Feasibility depends on the pods of all nodes if the pod has terms, or if others' terms match it."""
        if read(pod) is not NO_TERMS:
            return None
        of_namespace = self._labels_of(pod.metadata.namespace)
        is_matched = any(
            terms.match(pod, of_namespace)
            for bound in (self._bound, self._hidden)
            for terms in (bound.required_anti, bound.scored)
        )
        return None if is_matched else ()

    # --- filter ----------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Count the matching pods by domain. Skip pods without terms that no other pod's term matches."""
        terms = read(pod)
        if terms.problems:
            return None, Status.unresolvable(f"parsing pod: {'; '.join(terms.problems)}")
        if (
            terms is NO_TERMS
            and not self._bound.required_anti
            and not self._hidden.required_anti
            and not _has_more_pods(nodes)
        ):
            return None, Status.skip()
        counted = self._count(pod, terms, nodes)
        if not counted.existing and not terms.required and not terms.required_anti:
            return None, Status.skip()
        state.write(_PRE_FILTER, counted)
        return None, SUCCESS

    def needs_rerun(self, state: CycleState, pod: Pod, nodes: NodeSet) -> bool:
        """Return whether the pod's terms match any hidden pod, or a hidden pod's term the pod."""
        if not self.handle.nodes.hidden:
            return False
        if self._hidden.required_anti.match(pod, self._labels_of(pod.metadata.namespace)):
            return True
        terms, counts = read(pod), self.handle.cluster.shared(PodCounts)
        matches = [all_of((self._unrolled(term),)) for term in terms.required_anti]
        if terms.required:
            matches.append(all_of(map(self._unrolled, terms.required)))
        return any(map(counts.hides, matches))

    def _count(self, pod: Pod, terms: PodTerms, nodes: NodeSet) -> _Filtered:
        counted = _Filtered(
            replace(
                terms,
                required=tuple(map(self._unrolled, terms.required)),
                required_anti=tuple(map(self._unrolled, terms.required_anti)),
            ),
            self._labels_of(pod.metadata.namespace),
            existing={},
            near={},
            far={},
        )
        everywhere = nodes.table.all()
        indexes = self._bound.required_anti, self._hidden.required_anti
        for term, rows, pods in _matched(indexes, pod, counted.of_namespace, nodes):
            self._add_rows(counted.existing, term.topology_key, rows, pods, everywhere)
        if counted.terms.required:
            matching = self._matching(counted.terms.required, nodes)[everywhere.rows]
            for key in {term.topology_key for term in counted.terms.required}:
                self._add(counted.near, key, matching, everywhere)
        for term in counted.terms.required_anti:
            matching = self._matching((term,), nodes)[everywhere.rows]
            self._add(counted.far, term.topology_key, matching, everywhere)
        return counted

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Read the counts of the nodes' domains: affinity first, then anti-affinity of both sides."""
        counted = state.read(_PRE_FILTER)
        if counted is None:
            counted = self._count(pod, read(pod), nodes)
        far: Bool = np.zeros(len(nodes), np.bool_)
        if counted.terms.required:
            far = ~self._is_near(counted, pod, nodes)
        repelled, unwanted = (_any_above_zero(counts, nodes) for counts in (counted.far, counted.existing))
        keys: Keys = np.where(far, 0, np.where(repelled, 1, np.where(unwanted, 2, 0)))
        codes: Codes = np.where(
            far, np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE), np.int8(Code.UNSCHEDULABLE)
        )
        return Verdict.keyed(np.where(far | repelled | unwanted, codes, np.int8(0)), keys, _REASONS)

    @staticmethod
    def _is_near(counted: _Filtered, pod: Pod, nodes: NodeSet) -> Bool:
        """(n,) whether nodes have all the labels, and a matching pod in all their domains.

        The first of pods with affinity to each other matches none; it may run anywhere.
        """
        labelled = np.ones(len(nodes), np.bool_)
        met = np.ones(len(nodes), np.bool_)
        for of_key in counted.near.values():
            numbers = of_key.domains.of(nodes)
            labelled &= numbers > 0
            met &= of_key.at(numbers) > 0
        is_first = not any(of_key.values.any() for of_key in counted.near.values()) and all(
            term.matches_pod(pod) for term in counted.terms.required
        )
        return labelled if is_first else labelled & met

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Add a pod on a node."""
        return self._recount(state, pod, added, node, 1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Remove a pod from a node."""
        return self._recount(state, pod, removed, node, -1)

    def _recount(self, state: CycleState, pod: Pod, other: Pod, node: NodeInfo, sign: int) -> Status:
        counted = state.read(_PRE_FILTER)
        if counted is None:
            return SUCCESS
        for term in read(other).required_anti:
            if term.matches(pod.metadata.namespace, pod.metadata.labels, counted.of_namespace):
                self._add_one(counted.existing, term.topology_key, node, sign)
        own = counted.terms
        if own.required and all(term.matches_pod(other) for term in own.required):
            for key in counted.near:
                self._add_one(counted.near, key, node, sign)
        for term in own.required_anti:
            if term.matches_pod(other):
                self._add_one(counted.far, term.topology_key, node, sign)
        return SUCCESS

    # --- score -----------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Add up weights by domain. Skip when no term, of the pod or of a running one, matches anything."""
        prefers = has_preferred(pod)
        if self._only_own_preferences and not prefers:
            return Status.skip()
        terms = read(pod)
        if terms.problems:
            return Status.failed(f"parsing pod: {'; '.join(terms.problems)}")
        if not (prefers or self._bound.scored or self._hidden.scored or _has_more_pods(nodes)):
            return Status.skip()
        everywhere = nodes.table.all()
        scores: _Counts = {}
        found = False
        for term in map(self._unrolled, terms.preferred):
            matching = self._matching((term,), nodes)[everywhere.rows]
            found |= self._add(scores, term.topology_key, matching, everywhere, term.weight)
        of_namespace = self._labels_of(pod.metadata.namespace)
        indexes = self._bound.scored, self._hidden.scored
        for term, rows, pods in _matched(indexes, pod, of_namespace, nodes):
            found |= self._add_rows(scores, term.topology_key, rows, pods, everywhere, term.weight)
        if not found:
            return Status.skip()
        state.write(_PRE_SCORE, scores)
        return SUCCESS

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Sum the weights of a node's domains."""
        total = np.zeros(len(nodes), np.int64)
        for of_key in (state.read(_PRE_SCORE) or {}).values():
            total += of_key.at(of_key.domains.of(nodes))
        return total

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
        """Scale the lowest sum to 0 and the highest to 100."""
        if not len(scores) or scores.min() == scores.max():
            return np.zeros_like(scores)
        least, most = int(scores.min()), int(scores.max())
        return (float(MAX_NODE_SCORE) * ((scores - least) / (most - least))).astype(np.int64)

    # --- counting --------------------------------------------------------------------------------

    def _labels_of(self, namespace: str) -> Mapping[str, str]:
        known = self._namespaces.get("", namespace)
        return NO_LABELS if known is None else known.metadata.labels

    def _unrolled(self, term: Term) -> Term:
        """Return a term of the pod to be scheduled with the namespaces that its selector matches now."""
        if term.namespace_selector.is_empty or term.namespace_selector == NOTHING:
            return term
        return term.within(
            namespace.metadata.name
            for namespace in self._namespaces
            if term.namespace_selector.matches(namespace.metadata.labels)
        )

    def _matching(self, terms: tuple[Term, ...], nodes: NodeSet) -> Int64:
        """(rows of the table,) the pods that match all terms."""
        return self.handle.cluster.shared(PodCounts).by_row(all_of(terms), nodes)

    def _add(self, counts: _Counts, key: str, pods: Int64, nodes: NodeSet, weight: int = 1) -> bool:
        """Add pods (n,) on nodes to their domains; return whether there was one with a domain."""
        of_key = self._of_key(counts, key)
        numbers = of_key.domains.of(nodes)
        of_key.add_all(numbers, pods * weight)
        return bool((pods[numbers > 0] > 0).any())

    def _add_rows(
        self, counts: _Counts, key: str, rows: Int64, pods: Int64, nodes: NodeSet, weight: int = 1
    ) -> bool:
        """Add pods (k,) on rows (k,), those of nodes that exist, to their domains, if any has one."""
        of_key = counts[key] if key in counts else DomainCounts(self._topology.domains(key))
        numbers = of_key.domains.by_row(nodes)[rows]
        if not numbers.any():
            return False
        counts[key] = of_key
        of_key.add_all(numbers, pods * weight)
        return True

    def _add_one(self, counts: _Counts, key: str, node: NodeInfo, sign: int) -> None:
        of_key = self._of_key(counts, key)
        of_key.add(of_key.domains.of_node(node.node), sign)

    def _of_key(self, counts: _Counts, key: str) -> DomainCounts:
        known = counts.get(key)
        if known is None:
            known = counts[key] = DomainCounts(self._topology.domains(key))
        return known


def _any_above_zero(counts: _Counts, nodes: NodeSet) -> Bool:
    """(n,) whether any of the nodes' domains has a count."""
    found: Bool = np.zeros(len(nodes), np.bool_)
    for of_key in counts.values():
        found |= of_key.at(of_key.domains.of(nodes)) > 0
    return found


def _copy(counts: _Counts) -> _Counts:
    return {key: of_key.clone() for key, of_key in counts.items()}


def _has_more_pods(nodes: NodeSet) -> bool:
    """Return whether an overlay has pods that are neither in the table nor hidden pods."""
    return nodes.overlay is not None and nodes.overlay.pods.has_more


def _matched(
    indexes: Sequence[TermIndex], pod: Pod, of_namespace: Mapping[str, str], nodes: NodeSet
) -> Iterator[MatchedTerm]:
    """Yield the terms of other pods that match a pod: of those in the indexes, as the overlay moves them."""
    for index in indexes:
        yield from index.matched(pod, of_namespace)
    if nodes.overlay is not None and (any(indexes) or nodes.overlay.pods.has_more):
        yield from indexes[0].moved(pod, of_namespace, nodes.overlay.pods)
