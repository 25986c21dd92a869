"""Node selectors and node affinity. Source: Kubernetes, `framework/plugins/nodeaffinity`.

A pod's terms are parsed once per workload, and the result of a matcher for a node is cached until the node
changes.
"""

import numpy as np
from numpy.typing import NDArray

from koordpy.api import node_affinity
from koordpy.api.core import Pod
from koordpy.api.node_affinity import ANY_NODE, NO_PREFERENCE, PreferredNodeAffinity, RequiredNodeAffinity
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    Filter,
    Plugin,
    PreFilter,
    PreScore,
    Reach,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import PASS, SUCCESS, Code, Status, Verdict
from koordpy.scheduling.toolkit.node_memo import MemoCache
from koordpy.scheduling.toolkit.normalize import default_normalize

from .args import NodeAffinityArgs

REASON_POD = "node(s) didn't match Pod's node affinity/selector"
REASON_ENFORCED = "node(s) didn't match scheduler-enforced node affinity"
REASON_CONFLICT = "pod affinity terms conflict"


class NodeAffinity(Plugin, PreFilter, Filter, PreScore, Score, SignPlugin):
    """Refuses nodes that required terms do not match; matched preferred terms add their weights."""

    name = "NodeAffinity"
    reach = Reach.NOWHERE
    reads_requests = False
    args: NodeAffinityArgs

    def __init__(self, args: NodeAffinityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        added = args.added
        self._enforced = ANY_NODE if added is None else node_affinity.required(added)
        self._added_preference = NO_PREFERENCE if added is None else node_affinity.preferred(added)
        self._required_answers = MemoCache(handle.nodes, np.bool_)
        self._preferred_answers = MemoCache(handle.nodes, np.int64)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Skip pods without selector and affinity, and read the node names if all terms name nodes."""
        required = node_affinity.required(pod.spec)
        if required.terms is None and not pod.spec.node_selector and self._enforced is ANY_NODE:
            return None, Status.skip()
        names = None if _has_empty_term(pod) else required.node_names
        if names is not None and not names:
            return None, Status.unresolvable(REASON_CONFLICT)
        return names, SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Match the profile's added affinity, then the pod's."""
        refused = np.zeros((len(nodes), 2), np.bool_)
        for column, matcher in enumerate((self._enforced, node_affinity.required(pod.spec))):
            if matcher is not ANY_NODE:
                refused[:, column] = ~self._matches(matcher, nodes)
        if not refused.any():
            return PASS
        return Verdict.reject_first(
            refused, (REASON_ENFORCED, REASON_POD), Code.UNSCHEDULABLE_AND_UNRESOLVABLE
        )

    def _matches(self, matcher: RequiredNodeAffinity, nodes: NodeSet) -> NDArray[np.bool_]:
        return self._required_answers.of(matcher, matcher.matches_node).of(nodes).astype(np.bool_)

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Skip without preferred terms; an invalid term is an error for the pod's scoring."""
        try:
            preferred = node_affinity.preferred(pod.spec)
        except node_affinity.NodeAffinityError as error:
            return Status.failed(error)
        if preferred is NO_PREFERENCE and self._added_preference is NO_PREFERENCE:
            return Status.skip()
        return SUCCESS

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NDArray[np.int64]:
        """Sum the weights of the preferred terms that match."""
        total = np.zeros(len(nodes), np.int64)
        for preferred in (self._added_preference, node_affinity.preferred(pod.spec)):
            if preferred is not NO_PREFERENCE:
                total += self._weights(preferred, nodes)
        return total

    def _weights(self, preferred: PreferredNodeAffinity, nodes: NodeSet) -> NDArray[np.int64]:
        memo = self._preferred_answers.of(
            preferred, lambda node: preferred.score(node.metadata.labels, node.metadata.name)
        )
        return memo.of(nodes)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: NDArray[np.int64]) -> NDArray[np.int64]:
        """Scale the largest sum to 100."""
        return default_normalize(scores)


def _has_empty_term(pod: Pod) -> bool:
    """Return whether a required term is empty: it matches no node, but does not name its nodes either."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    required = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    terms = required.node_selector_terms if required else ()
    return any(not term.match_expressions and not term.match_fields for term in terms)
