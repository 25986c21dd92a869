"""How much pods prefer nodes by the preferred terms of their node affinity."""

from collections.abc import Sequence

import msgspec

from koordpy.api import node_affinity
from koordpy.api.core import Node, NodeSelector, Pod, PreferredSchedulingTerm

Terms = tuple[tuple[int, node_affinity.RequiredNodeAffinity], ...]


class Preferences:
    """Preferences of pods among some nodes; those of equal terms are computed once."""

    def __init__(self, nodes: Sequence[Node]) -> None:
        self._nodes = nodes
        self._terms: dict[bytes, Terms] = {}
        self._best: dict[bytes, int] = {}

    def violation(self, pod: Pod, node: Node) -> str | None:
        """Return that a pod prefers one of the nodes to its own; None if it does not."""
        affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
        preferred = affinity.preferred_during_scheduling_ignored_during_execution if affinity else []
        if not preferred:
            return None
        key = msgspec.msgpack.encode(preferred)
        terms = self._terms.get(key)
        if terms is None:
            terms = self._terms[key] = _read(preferred)
        own = _weight(terms, node)
        best = self._best.get(key)
        if best is None:
            best = self._best[key] = max((_weight(terms, each) for each in self._nodes), default=0)
        best = max(best, 0)
        if best <= own:
            return None
        return f"the pod prefers another node: its preferred node affinity weighs {best} there and {own} here"


def _read(preferred: Sequence[PreferredSchedulingTerm]) -> Terms:
    return tuple(
        (term.weight, node_affinity.node_selector(NodeSelector(node_selector_terms=[term.preference])))
        for term in preferred
    )


def _weight(terms: Terms, node: Node) -> int:
    """The sum of the weights of the terms that a node matches; invalid and empty ones match none."""
    return sum(weight for weight, selector in terms if selector.matches_node(node))
