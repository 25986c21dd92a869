"""Filter of pods.

Of the nodes with matched reservations those where the pod fits come out of arrays. The others are filtered
one by one for their reasons, nodes with equal reasons once. Source: Koordinator,
`pkg/scheduler/plugins/reservation/plugin.go`.
"""

from collections.abc import Callable, Sequence
from functools import partial

import numpy as np

from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.api.reservation import ALIGNED
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.gates import SKIP_RESERVATION_FITS_NODE
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict

from ..attempt.matches import NodeMatch
from ..attempt.node_view import NodeView
from ..attempt.pairs import matched_pairs
from ..attempt.prepared import LastFits, Prepared
from ..attempt.reservation_fits import ReservationFits
from ..state.withheld import Withheld
from .arrays import Causes, compare
from .node import NO_MATCH, NodeFilter
from .other_plugins import OtherPlugins
from .verdict_builder import VerdictBuilder

POLICY_CONFLICT = "node(s) reservation allocate policy conflict"
USED_UP = "reservation has allocateOnce enabled and has already been allocated"
MISSING_NODE = "missing node"


class PodFilter:
    """Filters nodes for the pods of the profile that `plugin` belongs to."""

    def __init__(self, plugin: Plugin, withheld: Withheld, view: NodeView, node_filter: NodeFilter) -> None:
        self._plugin, self._handle, self._table = plugin, plugin.handle, plugin.handle.nodes
        self._withheld, self._view, self._node_filter = withheld, view, node_filter

    @property
    def _skips_node(self) -> bool:
        return self._handle.gates.enabled(SKIP_RESERVATION_FITS_NODE)

    def filter(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Verdict:
        """Filter nodes, which are as the attempt sees them."""
        count = len(nodes)
        builder = VerdictBuilder(count)
        rows = nodes.rows
        matched = np.zeros(count, np.bool_)
        if prepared.matches:
            matched = prepared.matches.mask(self._table.capacity)[rows]
        if prepared.requirements.affinity is not None:
            builder.set_where(~matched, Status.unresolvable(NO_MATCH))
        else:
            for row in prepared.preemptible.rows(self._table):
                for index in np.flatnonzero((rows == row) & ~matched).tolist():
                    node = NodeInfo(nodes, index)
                    builder.set(index, self._node_filter.without_reservation(prepared, node))
        if matched.any() and not prepared.requirements.ignores_reservations:
            self._filter_matched(state, prepared, pod, nodes, builder)
        if annotations.is_operating(pod.metadata):
            builder.set_where(self._withheld.conflicting(rows, ALIGNED), Status.unresolvable(POLICY_CONFLICT))
        return builder.verdict()

    def _filter_matched(
        self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet, builder: VerdictBuilder
    ) -> None:
        found, causes = self._compare(prepared, nodes, skip_node=False)
        if _is_plain(prepared, nodes):
            prepared.last_fits = LastFits(nodes, self._table.moment, found)
        points = self._handle.framework.reservations.without(self._plugin)
        others = OtherPlugins(
            partial(points.filter, state) if points.filters else None,
            partial(matched_pairs, prepared.matches, pod, nodes, found.at, found.chosen),
        )
        unsure = found.any_of_node(found.unsure)
        undecided = ~(found.any_of_node(others.accept(found.passes)) & ~unsure)
        others.ask_about(np.repeat(undecided, found.sizes))
        # Where one reservation is alone on its node its reasons follow from its signature: nodes with equal
        # ones are filtered once. Not so where the reasons have numbers, as for a reservation that is named.
        grouped = undecided & (found.sizes == 1) & ~unsure & (not prepared.requirements.name)
        at = found.at[found.first]
        for index in at[undecided & ~grouped].tolist():
            builder.set(index, self._filter_node(prepared, pod, NodeInfo(nodes, index), others))
        groups_at = np.flatnonzero(grouped)
        if not len(groups_at):
            return
        firsts = found.first[groups_at]
        signatures = np.packbits(causes.signature[firsts], axis=1)
        signatures = np.column_stack((signatures, others.marks(firsts)))
        _, firsts, groups = np.unique(signatures, axis=0, return_index=True, return_inverse=True)
        for group, first in enumerate(firsts.tolist()):
            node = NodeInfo(nodes, int(at[groups_at[first]]))
            status = self._filter_node(prepared, pod, node, others)
            builder.set_at(at[groups_at[groups.reshape(-1) == group]], status)

    def fits(self, prepared: Prepared, nodes: NodeSet) -> ReservationFits:
        """Return into which matched reservations the pod fits, for a nomination.

        It is what Filter found, if that is still so.
        """
        known = prepared.last_fits
        if self._skips_node:  # more fit than to Filter
            return self._compare(prepared, nodes, skip_node=True)[0]
        if (
            known is None
            or known.moment != self._table.moment
            or not _is_plain(prepared, nodes)
            or not known.covers(nodes)
        ):
            return self._compare(prepared, nodes, skip_node=False)[0]
        return known.fits.among(known.nodes, nodes)

    def _compare(
        self, prepared: Prepared, nodes: NodeSet, *, skip_node: bool
    ) -> tuple[ReservationFits, Causes]:
        return compare(
            prepared,
            nodes,
            self._withheld.matchable,
            self._node_filter.ignores,
            self._node_filter.class_of,
            skip_node_if_alone=self._skips_node,
            skip_node=skip_node,
        )

    def _filter_node(self, prepared: Prepared, pod: Pod, node: NodeInfo, others: OtherPlugins) -> Status:
        match = prepared.matches[node.row]
        return self._filter_match(
            prepared,
            node,
            match,
            match.matched,
            lambda info: others.status(node.index, pod, info),
            required=prepared.required,
        )

    def _filter_match(
        self,
        prepared: Prepared,
        node: NodeInfo,
        match: NodeMatch,
        infos: Sequence[ReservationInfo],
        filter_reservation: Callable[[ReservationInfo], Status],
        *,
        required: bool,
    ) -> Status:
        return self._node_filter.with_reservations(
            prepared,
            match,
            node,
            infos,
            filter_reservation,
            required=required,
            skip_node=len(infos) <= 1 and self._skips_node,
        )

    def filter_one(self, prepared: Prepared, info: ReservationInfo, node_name: str) -> Status:
        """Return whether the pod fits into one reservation, as if it had to be this one."""
        row = self._table.row_of(node_name)
        if info.is_used_up:
            return Status.unschedulable(USED_UP)
        if row is None or self._table.node(row) is None:
            return Status.unschedulable(MISSING_NODE)
        node = NodeInfo(self._view.of(prepared, self._table.select([node_name])[0]), 0)
        match = prepared.matches.get(row) or NodeMatch(node_name)
        return self._filter_match(prepared, node, match, (info,), lambda _: SUCCESS, required=True)


def _is_plain(prepared: Prepared, nodes: NodeSet) -> bool:
    """Return whether nodes are as the cluster has them, without what a what-if or a dry run has moved."""
    view = prepared.last_view
    if view is None or view[2] is not nodes:
        return False
    return not prepared.preemptible and not prepared.matches.hypothetical
