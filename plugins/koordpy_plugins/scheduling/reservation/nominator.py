"""Choosing the reservation that a pod will use on a node, or the pods that a Reservation takes over there.

Source: Koordinator, `pkg/scheduler/plugins/reservation/nominator.go`.
"""

from collections.abc import Callable, Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.scheduling.cycle_state import CycleState
from koordpy.scheduling.reservation_info import ReservationInfo
from koordpy.scheduling.reservation_points import ReservationPoints
from koordpy.scheduling.status import SUCCESS, Status

from .nominations import Nominations
from .prepared import Prepared


class Nominator:
    """Chooses for one profile. `points` gives its plugins that have a say."""

    def __init__(self, nominations: Nominations, points: Callable[[], ReservationPoints]) -> None:
        self._nominations, self._points = nominations, points

    def knows(self, pod: Pod) -> bool:
        """Tell whether an earlier attempt has left a nomination of a pod."""
        return self._nominations.has(pod)

    def for_pod(
        self, state: CycleState, prepared: Prepared, pod: Pod, row: int | None, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        """Return the reservation for a pod on a node; None if there is none."""
        match = None if row is None else prepared.matches.get(row)
        if match is None or not match.matched:
            return None, SUCCESS
        if len(match.matched) == 1 and prepared.wish.affinity is not None:
            return match.matched[0], SUCCESS
        assert row is not None
        earlier = prepared.ballot.get(row) or self._nominations.get(pod, node_name)
        if earlier is not None and self._nominations.stands(earlier):
            return earlier, SUCCESS
        points = self._points()
        left = [
            info for info in match.matched if points.filter_nominate(state, pod, info, node_name).is_success
        ]
        if len(left) < 2:
            return (left[0] if left else None), SUCCESS
        ordered = [(info.order, index) for index, info in enumerate(left) if info.order is not None]
        if ordered:
            return left[min(ordered)[1]], SUCCESS
        scores, status = points.score(state, pod, left, node_name)
        if not status.is_success:
            return None, status
        totals = _totals(scores, len(left))
        return left[totals.index(max(totals))], SUCCESS

    def for_reservation(
        self, state: CycleState, prepared: Prepared, pod: Pod, node_name: str
    ) -> tuple[Sequence[Pod], Status]:
        """Return the pods that a Reservation takes over on a node."""
        info = prepared.reservation
        selected = prepared.selected.get(node_name, ())
        if info is None or info.reservation is None or not selected:
            return (), SUCCESS
        if info.reservation.takes_many:
            return selected, SUCCESS
        if len(selected) == 1 and prepared.required:
            return selected, SUCCESS
        earlier = prepared.nominated.get(node_name)
        if earlier:
            return earlier, SUCCESS
        points = self._points()
        left = [each for each in selected if points.filter_nominate(state, each, info, node_name).is_success]
        if len(left) < 2:
            return left, SUCCESS
        scores, status = points.pre_allocation_score(state, info, left, node_name)
        if not status.is_success:
            return (), status
        totals = _totals(scores, len(left))
        return [left[totals.index(max(totals))]], SUCCESS

    def pre_allocation_totals(
        self, state: CycleState, info: ReservationInfo, pods: Sequence[Pod], node_name: str
    ) -> Sequence[int]:
        """Return the sum of what plugins say of each running pod in a Reservation, all 0 if one fails."""
        scores, _ = self._points().pre_allocation_score(state, info, pods, node_name)
        return _totals(scores, len(pods))


def _totals(scores: Mapping[str, Sequence[int]], count: int) -> list[int]:
    return [sum(of_plugin[index] for of_plugin in scores.values()) for index in range(count)]
