"""Filter of reserve pods. Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go`."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import wanted_node_of
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo, each
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.status import PASS, Code, Status, Verdict

from ..attempt.matches import NodeMatch
from ..attempt.node_view import NodeView
from ..attempt.pairs import candidate_pairs
from ..attempt.prepared import Prepared
from ..state.withheld import Withheld
from .other_plugins import OtherPlugins
from .pods import MISSING_NODE, POLICY_CONFLICT, USED_UP
from .pre_allocation import PreAllocation

WRONG_NODE = "node(s) didn't match the nodeName specified by reservation"

Totals = Callable[[CycleState, ReservationInfo, ReservationPairs], Int64]
"""(k,) what all plugins score running pods in a Reservation."""


class ReservePodFilter:
    """Filters nodes for the reserve pods of the profile that `plugin` belongs to."""

    def __init__(
        self,
        plugin: Plugin,
        withheld: Withheld,
        view: NodeView,
        pre_allocation: PreAllocation,
        totals: Totals,
    ) -> None:
        self._plugin, self._handle, self._table = plugin, plugin.handle, plugin.handle.nodes
        self._withheld, self._view, self._pre_allocation = withheld, view, pre_allocation
        self._totals = totals

    def filter(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Verdict:
        """Filter nodes, which are as the attempt sees them."""
        info = prepared.reservation
        if info is None:
            return Verdict.of([Status.failed(prepared.problem)] * len(nodes))
        wanted = wanted_node_of(pod)
        elsewhere = np.zeros(len(nodes), np.bool_)
        if wanted:
            elsewhere[:] = [name != wanted for name in nodes.names]
        refused = np.stack((elsewhere, self._withheld.conflicting(nodes.rows, info.policy)), axis=1)
        if not prepared.is_pre_allocation:
            if not refused.any():
                return PASS
            return Verdict.reject_first(
                refused, (WRONG_NODE, POLICY_CONFLICT), Code.UNSCHEDULABLE_AND_UNRESOLVABLE
            )
        found = [
            () if refused[node.index].any() else self._candidates(prepared, node.row) for node in each(nodes)
        ]
        pairs = candidate_pairs(info, nodes, found)
        points = self._handle.framework.reservations.without(self._plugin)
        others = OtherPlugins(partial(points.filter, state) if points.filters else None, lambda: pairs)
        scores = _Scores(partial(self._totals, state, info), pairs)
        return Verdict.of(
            [
                Status.unresolvable(WRONG_NODE if refused[node.index, 0] else POLICY_CONFLICT)
                if refused[node.index].any()
                else self._filter_node(prepared, info, node, others, scores)
                for node in each(nodes)
            ]
        )

    def _filter_node(
        self,
        prepared: Prepared,
        info: ReservationInfo,
        node: NodeInfo,
        others: OtherPlugins,
        scores: "_Scores",
    ) -> Status:
        return self._pre_allocation.filter(
            prepared,
            prepared.matches.get(node.row),
            node,
            lambda pod: others.status(node.index, pod, info),
            lambda: scores.on(node.index),
        )

    @staticmethod
    def _candidates(prepared: Prepared, row: int) -> Sequence[Pod]:
        match = prepared.matches.candidates.get(row)
        return () if match is None else match.candidates

    def filter_one(self, prepared: Prepared, info: ReservationInfo, pod: Pod, node_name: str) -> Status:
        """Return whether taking over one pod is enough for a Reservation, or for a pod that may use it."""
        row = self._table.row_of(node_name)
        if info.is_used_up:
            return Status.unschedulable(USED_UP)
        if row is None or self._table.node(row) is None:
            return Status.unschedulable(MISSING_NODE)
        node = NodeInfo(self._view.of(prepared, self._table.select([node_name])[0]), 0)
        match = prepared.matches.get(row) or NodeMatch(node_name)
        return self._pre_allocation.filter_one(prepared, info, match, node, pod)


class _Scores:
    """What plugins score running pods in a Reservation: of all nodes, as soon as one is of interest."""

    def __init__(self, totals: Callable[[ReservationPairs], Int64], pairs: ReservationPairs) -> None:
        self._totals, self._pairs = totals, pairs

    @cached_property
    def _by_node(self) -> list[Int64]:
        bounds = np.searchsorted(self._pairs.at, np.arange(1, len(self._pairs.nodes)))
        return np.split(self._totals(self._pairs), bounds)

    def on(self, index: int) -> list[int]:
        """Return the totals of the pods on the node at an index, in their order."""
        totals: list[int] = self._by_node[index].tolist()
        return totals
