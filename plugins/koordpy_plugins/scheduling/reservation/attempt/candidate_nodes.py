"""The nodes on which an attempt may use reservations: those that the pod's node affinity allows."""

import numpy as np

from koordpy.api import node_affinity
from koordpy.api.core import Node, Pod
from koordpy.cluster.columns import Bool
from koordpy.cluster.nodes import NodeTable
from koordpy.scheduling.toolkit.node_memo import MemoCache


class ConflictingTerms(ValueError):
    """A required term names nodes that cannot all be meant."""


class CandidateNodes:
    """The nodes that a pod can go to, of those that are given.

    `names` are these, None for all; `specific` are the `specific_nodes` of the pod.
    """

    def __init__(self, pod: Pod, names: frozenset[str] | None, specific: frozenset[str] | None) -> None:
        self._names, self._specific = names, specific
        self._required = node_affinity.required(pod.spec)

    @property
    def everywhere(self) -> bool:
        """Whether all nodes are among them."""
        return self._names is None and self._specific is None and self._required.is_empty

    def include(self, node: Node) -> bool:
        """Return whether a node is one of them."""
        name = node.metadata.name
        if self._names is not None and name not in self._names:
            return False
        return name in self._specific if self._specific is not None else self._required.matches_node(node)

    def rows(self, table: NodeTable, answers: MemoCache) -> Bool:
        """(rows of the table,) whether nodes are included.

        `answers` keeps what a node selector says of nodes until they change.
        """
        nodes = table.all()
        result = np.zeros(table.capacity, np.bool_)
        named = self._names if self._specific is None else self._specific
        if named is not None and self._names is not None:
            named = named & self._names
        if self._specific is None and not self._required.is_empty:
            memo = answers.of(self._required, self._required.matches_node)
            result[nodes.rows] = memo.of(nodes).astype(np.bool_)
        else:
            result[nodes.rows] = True
        if named is not None:
            chosen = np.zeros(table.capacity, np.bool_)
            chosen[[row for name in named if (row := table.row_of(name)) is not None]] = True
            result &= chosen
        return result


def specific_nodes(pod: Pod) -> frozenset[str] | None:
    """Return the nodes that required terms name, None if a term names none. Raises ConflictingTerms."""
    affinity = pod.spec.affinity.node_affinity if pod.spec.affinity else None
    selector = affinity.required_during_scheduling_ignored_during_execution if affinity else None
    names: frozenset[str] = frozenset()
    for term in selector.node_selector_terms if selector else ():
        of_term: frozenset[str] | None = None
        for field in term.match_fields:
            if field.key == "metadata.name" and field.operator == "In":
                values = frozenset(field.values)
                of_term = values if of_term is None else of_term & values
        if of_term is None:
            return None
        if not of_term:
            raise ConflictingTerms
        names |= of_term
    return names or None
