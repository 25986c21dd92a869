"""Scores nodes by how near they are to pods of the same selector.

Nodes below switches with more such pods come first, then those below switches with fewer candidates, which
leaves large groups of candidates together. Source: Koordinator, `sortNodesByTopology` in
`pkg/scheduler/plugins/coscheduling/core/network_topology_workflow.go`.
"""

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.toolkit.normalize import default_normalize

from .layouts import Layouts
from .members import selector_of
from .offers import Layout, ranks
from .selector_counts import SelectorCounts

_PLACES: StateKey[dict[str, int]] = StateKey("Coscheduling/pre-score-state")


class SelectorScore:
    """PreScore, Score and its normalization for pods with a selector."""

    def __init__(self, handle: Handle, counts: SelectorCounts, layouts: Layouts) -> None:
        self._handle, self._counts, self._layouts = handle, counts, layouts

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Sort the candidates; Skip for pods without a selector, or without a network topology."""
        selector = selector_of(pod)
        layout = self._layouts.current() if selector else None
        if layout is None:
            return Status.skip()
        state.write(_PLACES, self._places(selector, layout, nodes))
        return SUCCESS

    def _places(self, selector: str, layout: Layout, nodes: NodeSet) -> dict[str, int]:
        """Return the places of candidates by name; those outside the tree come last, by name."""
        everywhere = self._handle.nodes.all()
        counted = self._counts.by_row(selector, nodes)[everywhere.rows]
        existing = layout.summed(layout.at(everywhere.names), counted)
        at = layout.at(nodes.names)
        offered = layout.summed(at, np.ones(len(nodes), np.int64))
        chain = layout.up(np.maximum(at, 0))
        order = np.lexsort(
            (
                ranks(nodes.names),
                *(offered[up] for up in reversed(chain)),
                *(-existing[up] for up in reversed(chain)),
                at < 0,
            )
        )
        names = nodes.names
        return {names[index]: place for place, index in enumerate(order.tolist())}

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """(n,) the places of nodes, the best 0. Raises LookupError without PreScore."""
        if not selector_of(pod):
            return np.zeros(len(nodes), np.int64)
        places = state.read(_PLACES)
        if places is None:
            raise LookupError("failed to read pre score state: PreScore has not run")
        return np.fromiter((places.get(name, 0) for name in nodes.names), np.int64, len(nodes))

    def normalize_scores(self, scores: Int64) -> Int64:
        """Return the scores (n,) between 0 and 100, the best 100."""
        return default_normalize(scores, reverse=True)
