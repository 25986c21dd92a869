"""Choosing the reservation that a pod will use on a node, or the pods that a Reservation takes over there.

Source: Koordinator, `pkg/scheduler/plugins/reservation/nominator.go`.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.reservation_pairs import ReservationPairs
from koordpy.scheduling.interface.reservation_points import ReservationPoints
from koordpy.scheduling.interface.status import SUCCESS, Status, Verdict

from ..attempt.pairs import candidate_pairs
from ..attempt.prepared import Prepared
from ..state.nominations import Nominations


class Nominator:
    """Nominates for one profile, with all its plugins that filter or score reservations."""

    def __init__(self, handle: Handle, nominations: Nominations) -> None:
        self._handle, self._table, self._nominations = handle, handle.nodes, nominations

    @property
    def _points(self) -> ReservationPoints:
        return self._handle.framework.reservations

    def knows(self, pod: Pod) -> bool:
        """Return whether an earlier attempt has left a nomination of a pod."""
        return self._nominations.has(pod)

    def for_pod(
        self, state: CycleState, prepared: Prepared, pod: Pod, row: int | None, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        """Return the reservation for a pod on a node; None if there is none."""
        match = None if row is None else prepared.matches.get(row)
        if match is None or not match.matched:
            return None, SUCCESS
        if len(match.matched) == 1 and prepared.requirements.affinity is not None:
            return match.matched[0], SUCCESS
        assert row is not None
        earlier = prepared.nominated_reservations.get(row) or self._nominations.get(pod, node_name)
        if earlier is not None and self._nominations.stands(earlier):
            return earlier, SUCCESS
        points = self._points
        nodes, _ = self._table.select([node_name])
        pairs = ReservationPairs.of_pod(pod, match.matched, NodeInfo(nodes, 0))
        pairs = pairs.pick(_passing(points.filter_nominate(state, pairs), len(pairs)))
        left = pairs.reservations
        if len(left) < 2:
            return (left[0] if left else None), SUCCESS
        ordered = [(info.order, index) for index, info in enumerate(left) if info.order is not None]
        if ordered:
            return left[min(ordered)[1]], SUCCESS
        scores, status = points.score(state, pod, pairs)
        if not status.is_success:
            return None, status
        return left[int(_totals(scores, len(left)).argmax())], SUCCESS

    def for_reservation(
        self, state: CycleState, prepared: Prepared, node_names: Iterable[str]
    ) -> tuple[dict[str, Sequence[Pod]], Status]:
        """Return the pods that a Reservation takes over, by the nodes on which it takes any."""
        info = prepared.reservation
        if info is None or info.reservation is None:
            return {}, SUCCESS
        found = {name: pods for name in node_names if (pods := prepared.selected.get(name))}
        if info.reservation.takes_many:
            return found, SUCCESS
        undecided = [name for name, pods in found.items() if len(pods) > 1 or not prepared.required]
        nodes, missing = self._table.select(undecided)
        pairs = candidate_pairs(info, nodes, [found[name] for name in nodes.names])
        chosen, status = self._best_of(state, info, pairs)
        if not status.is_success:
            return {}, status
        found |= dict(zip(nodes.names, chosen, strict=True)) | dict.fromkeys(missing, ())
        return {name: pods for name, pods in found.items() if pods}, SUCCESS

    def _best_of(
        self, state: CycleState, info: ReservationInfo, pairs: ReservationPairs
    ) -> tuple[list[Sequence[Pod]], Status]:
        """Return for each node the pod that suits a Reservation best, if any does."""
        points = self._points
        pairs = pairs.pick(_passing(points.filter_nominate(state, pairs), len(pairs)))
        contested = np.bincount(pairs.at, minlength=len(pairs.nodes)) > 1
        asked = np.flatnonzero(contested[pairs.at])
        scores, status = points.pre_allocation_score(state, info, pairs.pick(asked))
        totals = np.zeros(len(pairs), np.int64)
        totals[asked] = _totals(scores, len(asked))
        # By node, then the highest total, then the order of the candidates: the first of each node is best.
        best = np.lexsort((np.arange(len(pairs)), -totals, pairs.at))[pairs.first]
        chosen: list[Sequence[Pod]] = [()] * len(pairs.nodes)
        for index, position in zip(pairs.at[best].tolist(), best.tolist(), strict=True):
            chosen[index] = [pairs.pods[position]]
        return chosen, status

    def pre_allocation_totals(
        self, state: CycleState, info: ReservationInfo, pairs: ReservationPairs
    ) -> Int64:
        """(k,) the sum of all plugins' scores of running pods in a Reservation.

        On a node where a plugin fails all are 0.
        """
        points = self._points
        scores, status = points.pre_allocation_score(state, info, pairs)
        if status.is_success:
            return _totals(scores, len(pairs))
        parts = [
            _totals(points.pre_allocation_score(state, info, of_node)[0], len(of_node))
            for of_node in pairs.by_node()
        ]
        return np.concatenate(parts)


def _passing(verdict: Verdict, count: int) -> Int64:
    """Return the positions of the pairs, of so many, that a verdict lets pass."""
    return np.arange(count) if verdict.codes is None else np.flatnonzero(verdict.codes == 0)


def _totals(scores: Mapping[str, Int64], count: int) -> Int64:
    return sum(scores.values(), np.zeros(count, np.int64))
