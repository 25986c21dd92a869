"""Which running pods a Reservation takes over on a node, and whether that is enough.

Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go` (pre-allocation).
"""

from collections.abc import Callable, Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.api.quantity import ZERO, Quantity
from koordpy.api.resources import Vector, counted, pod_requests, vector
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from .judge import PREFIX, Judge, by_node
from .matches import NodeMatch
from .node_fit import NodeRoom, lacking_in_reservation, lacking_on_node
from .prepared import Prepared

NOTHING_FITS = "node(s) no pod(s) to meet the pre-allocation requirements"
NO_POD = "node(s) no pod match reservation with pre allocation required"

OtherPlugins = Callable[[Pod], Status]
"""Asks the FilterReservation plugins whether a running pod goes with the Reservation."""

TotalScore = Callable[[Sequence[Pod]], Sequence[int]]
"""Scores running pods for the Reservation."""


class PreAllocation:
    """Judges nodes for Reservations. With `prefers_none` no pod is taken over where none need be."""

    def __init__(self, judge: Judge, *, prefers_none: bool) -> None:
        self._judge, self._prefers_none = judge, prefers_none

    def filter(
        self,
        prepared: Prepared,
        match: NodeMatch | None,
        node: NodeInfo,
        others: OtherPlugins,
        scores: TotalScore,
    ) -> Status:
        """Judge a node; what was found is left in `prepared.selected`."""
        info = prepared.reservation
        assert info is not None
        assert info.reservation is not None
        candidates = [] if match is None else list(match.candidates)
        wants_none = self._prefers_none and not prepared.required
        if not candidates and not wants_none:
            return Status.unschedulable(NOTHING_FITS) if prepared.required else SUCCESS
        trial = _Trial(self._judge, prepared, match, node)
        if wants_none and not trial.lacking_alone():
            return SUCCESS
        if info.reservation.takes_many:
            if len(candidates) > 1 and not info.reservation.uses_cluster_mode:
                totals = dict(zip((pod.metadata.uid for pod in candidates), scores(candidates), strict=True))
                candidates.sort(key=lambda pod: (-totals[pod.metadata.uid], pod.metadata.name))
            return self._many(prepared, trial, candidates, others)
        return self._one(prepared, trial, candidates, others)

    def nominate(self, prepared: Prepared, match: NodeMatch, node: NodeInfo, pod: Pod) -> Status:
        """Judge one running pod alone, as if one had to be taken over."""
        trial = _Trial(self._judge, prepared, match, node)
        requests = pod_requests(pod)
        if not trial.shares(requests):
            return Status.unschedulable(NOTHING_FITS)
        reasons = [*by_node(trial.lacking_without(requests, leaving=1)), *trial.lacking_inside(requests)]
        return Status.unschedulable(*reasons) if reasons else SUCCESS

    def _one(
        self, prepared: Prepared, trial: "_Trial", candidates: Sequence[Pod], others: OtherPlugins
    ) -> Status:
        lacking: set[str] = set()
        reasons: list[str] = []
        for pod in candidates:
            requests = pod_requests(pod)
            if not trial.shares(requests):
                continue
            on_node = trial.lacking_without(requests, leaving=1)
            inside = trial.lacking_inside(requests)
            lacking.update(on_node)
            reasons.extend(inside)
            status = others(pod)
            if not status.is_success:
                reasons.extend(status.reasons)
                continue
            if not on_node and not inside:
                prepared.selected[trial.node.name] = candidates
                return SUCCESS
        return self._failure(prepared, trial, sorted(lacking), reasons, candidates)

    def _many(
        self, prepared: Prepared, trial: "_Trial", candidates: Sequence[Pod], others: OtherPlugins
    ) -> Status:
        selected: list[Pod] = []
        taken: dict[str, Quantity] = {}
        lacking: Sequence[str] = ()
        reasons: list[str] = []
        for pod in candidates:
            requests = pod_requests(pod)
            if not trial.shares(requests):
                continue
            together = _added(taken, requests)
            lacking = trial.lacking_without(together, leaving=len(selected) + 1)
            inside = trial.lacking_inside(together)
            if inside:
                reasons.extend(inside)
                continue
            status = others(pod)
            if not status.is_success:
                reasons.extend(status.reasons)
                continue
            selected.append(pod)
            taken = together
            if not lacking:
                prepared.selected[trial.node.name] = selected
                return SUCCESS
        return self._failure(prepared, trial, lacking, reasons, candidates)

    def _failure(
        self,
        prepared: Prepared,
        trial: "_Trial",
        lacking: Sequence[str],
        reasons: Sequence[str],
        candidates: Sequence[Pod],
    ) -> Status:
        if prepared.required:
            return Status.unschedulable(*([*by_node(lacking), *reasons] or [NOTHING_FITS]))
        if not lacking and (candidates or trial.looked):
            lacking = trial.lacking_alone()
        return Status.unschedulable(*by_node(lacking)) if lacking else SUCCESS


class _Trial:
    """A Reservation on a node, with some pods out of the way."""

    def __init__(self, judge: Judge, prepared: Prepared, match: NodeMatch | None, node: NodeInfo) -> None:
        assert prepared.reservation is not None
        self.node, self._prepared, self._ignores = node, prepared, judge.ignores
        self._info = prepared.reservation
        self._needs = prepared.wish.needs
        self._room = judge.room(prepared, match, node, self._needs)
        self._free: list[str] | None = None
        self._preemptible = prepared.preemptible.vector(node.name)

    @property
    def looked(self) -> bool:
        """Whether it was asked already what is lacking without taking over any pod."""
        return self._free is not None

    def lacking_alone(self) -> list[str]:
        """Return what the node lacks if no pod is taken over."""
        if self._free is None:
            self._free = lacking_on_node(
                self._needs, self._room_with({}), self._ignores, preemptible=self._preemptible
            )
        return self._free

    def lacking_without(self, requests: Mapping[str, Quantity], *, leaving: int) -> list[str]:
        """Return what the node lacks if pods with these requests are taken over."""
        return lacking_on_node(
            self._needs,
            self._room_with(counted(vector(requests))),
            self._ignores,
            leaving=leaving,
            preemptible=self._preemptible,
        )

    def _room_with(self, taken: Vector) -> NodeRoom:
        room = self._room
        requested = {name: amount - taken.get(name, 0) for name, amount in room.requested.items()}
        return NodeRoom(room.allocatable, requested, room.pods, room.allocated)

    def lacking_inside(self, requests: Mapping[str, Quantity]) -> list[str]:
        """Say what the Reservation lacks for pods with these requests."""
        lacking = lacking_in_reservation(requests, self._info, self._ignores, preemptible={}, detailed=False)
        return [f"{PREFIX}{reason}" for reason in lacking]

    def shares(self, requests: Mapping[str, Quantity]) -> bool:
        """Return whether a pod requests anything that the Reservation is about."""
        return any(name in requests for name in self._info.resource_names)


def _added(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: first.get(name, ZERO) + second.get(name, ZERO) for name in {**first, **second}}
