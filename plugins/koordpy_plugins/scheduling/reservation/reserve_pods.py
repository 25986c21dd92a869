"""Filter, nomination and score of reserve pods. Source: Koordinator, `pkg/scheduler/plugins/reservation`."""

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.reserve_pod import wanted_node_of
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import Plugin
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.node_info import NodeInfo, each
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.reservation_points import ReservationPoints
from koordpy.scheduling.interface.status import PASS, SUCCESS, Code, Status, Verdict

from . import scoring
from .book import Int64
from .nominator import Nominator, running
from .others import Others
from .pods import POLICY_CONFLICT, Score
from .pre_allocation import PreAllocation
from .prepared import Prepared
from .withheld import Withheld

WRONG_NODE = "node(s) didn't match the nodeName specified by reservation"


class ReservePods:
    """The points of reserve pods, for one profile."""

    def __init__(
        self,
        plugin: Plugin,
        withheld: Withheld,
        pre_allocation: PreAllocation,
        nominator: Nominator,
        points: Callable[[], ReservationPoints],
        score: Score,
    ) -> None:
        self._plugin, self._withheld, self._pre_allocation = plugin, withheld, pre_allocation
        self._nominator, self._points, self._score = nominator, points, score

    def filter(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Verdict:
        """Judge nodes, which are shown to the attempt."""
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
        pairs = running(info, nodes, found)
        points = self._points().without(self._plugin)
        others = Others(partial(points.filter, state) if points.filters else None, lambda: pairs)
        scores = _Scores(partial(self._nominator.pre_allocation_totals, state, info), pairs)
        return Verdict.of(
            [
                Status.unresolvable(WRONG_NODE if refused[node.index, 0] else POLICY_CONFLICT)
                if refused[node.index].any()
                else self._take_over(prepared, info, node, others, scores)
                for node in each(nodes)
            ]
        )

    def _take_over(
        self, prepared: Prepared, info: ReservationInfo, node: NodeInfo, others: Others, scores: "_Scores"
    ) -> Status:
        return self._pre_allocation.filter(
            prepared,
            prepared.matches.get(node.row),
            node,
            lambda pod: others.status(node.index, pod, info),
            lambda _: scores.on(node.index),
        )

    @staticmethod
    def _candidates(prepared: Prepared, row: int) -> Sequence[Pod]:
        match = prepared.matches.candidates.get(row)
        return () if match is None else match.candidates

    def pre_score(self, state: CycleState, prepared: Prepared, pod: Pod, nodes: NodeSet) -> Status:
        """Choose the running pod that is taken over on every node."""
        if not prepared.is_pre_allocation or prepared.takes_many or not prepared.has_nodes:
            return Status.skip()
        return self._nominate(state, prepared, nodes.names)

    def nominate(self, state: CycleState, prepared: Prepared, pod: Pod, node_name: str) -> Status:
        """Choose the running pods that are taken over on one node."""
        return self._nominate(state, prepared, [node_name]) if prepared.is_pre_allocation else SUCCESS

    def _nominate(self, state: CycleState, prepared: Prepared, node_names: Sequence[str]) -> Status:
        new = [name for name in node_names if name not in prepared.nominated]
        chosen, status = self._nominator.for_reservation(state, prepared, new)
        prepared.nominated.update(chosen)
        return status

    def score(self, state: CycleState, prepared: Prepared, nodes: NodeSet) -> Int64:
        """Rank nodes by how full the running pod would make the Reservation, or by how few it takes."""
        if prepared.takes_many:
            return np.array(
                [scoring.of_many(len(prepared.selected.get(name, ()))) for name in nodes.names], np.int64
            )
        info, scores = prepared.reservation, np.zeros(len(nodes), np.int64)
        for index, name in enumerate(nodes.names if prepared.nominated and info is not None else ()):
            pods = prepared.nominated.get(name)
            if pods and info is not None:
                scores[index] = self._score(state, pods[0], info, name)
        return scores


class _Scores:
    """What plugins say of running pods in a Reservation: asked about all nodes when one is of interest."""

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
