"""Which running pods a Reservation takes over on a node, and whether that is enough.

Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go` (pre-allocation).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from koordpy.api.core import Pod
from koordpy.api.quantity import ZERO, Quantity
from koordpy.api.reservation import RESTRICTED
from koordpy.api.resources import Vector, counted, pod_requests, vector
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..attempt.matches import NodeMatch
from ..attempt.prepared import Prepared
from ..fit.node import NodeAmounts, lacking_on_node
from ..fit.reservation import lacking_in_reservation
from ..fit.rules import concerns
from .node import NodeFilter, by_node, by_reservation

NOTHING_FITS = "node(s) no pod(s) to meet the pre-allocation requirements"
NO_POD = "node(s) no pod match reservation with pre allocation required"

FilterPod = Callable[[Pod], Status]
"""What the FilterReservation plugins say of a running pod in the Reservation."""

TotalScores = Callable[[], Sequence[int]]
"""What the candidates of the node score in the Reservation, in their order."""


class PreAllocation:
    """Filters nodes for Reservations. With `prefers_none` no pod is taken over where none need be."""

    def __init__(self, node_filter: NodeFilter, *, prefers_none: bool) -> None:
        self._node_filter, self._prefers_none = node_filter, prefers_none

    def filter(
        self,
        prepared: Prepared,
        match: NodeMatch | None,
        node: NodeInfo,
        filter_pod: FilterPod,
        scores: TotalScores,
    ) -> Status:
        """Filter a node; the pods that are enough are left in `prepared.selected`."""
        info = prepared.reservation
        assert info is not None
        assert info.reservation is not None
        candidates = [] if match is None else list(match.candidates)
        wants_none = self._prefers_none and not prepared.required
        if not candidates and not wants_none:
            return Status.unschedulable(NOTHING_FITS) if prepared.required else SUCCESS
        trial = _Trial(self._node_filter, prepared, info, match, node)
        if wants_none and not trial.lacking_alone():
            return SUCCESS
        if info.reservation.takes_many:
            if len(candidates) > 1 and not info.reservation.uses_cluster_mode:
                totals = dict(zip((pod.metadata.uid for pod in candidates), scores(), strict=True))
                candidates.sort(key=lambda pod: (-totals[pod.metadata.uid], pod.metadata.name))
            return self._many(prepared, trial, candidates, filter_pod)
        return self._one(prepared, trial, candidates, filter_pod)

    def filter_one(
        self, prepared: Prepared, info: ReservationInfo, match: NodeMatch, node: NodeInfo, pod: Pod
    ) -> Status:
        """Return whether taking over one pod is enough, as if a pod had to be taken over.

        Koordinator asks this also of a pod that is not on the node yet and may use a Reservation that has
        taken over its pods: it fits if the node has room for all that is requested there without it.
        """
        trial = _Trial(self._node_filter, prepared, info, match, node)
        requests = pod_requests(pod)
        if not trial.is_concerned(requests):
            return Status.unschedulable(NOTHING_FITS)
        reasons = [*by_node(trial.lacking_without(requests, leaving=1)), *trial.lacking_inside(requests)]
        return Status.unschedulable(*reasons) if reasons else SUCCESS

    def _one(
        self, prepared: Prepared, trial: "_Trial", candidates: Sequence[Pod], filter_pod: FilterPod
    ) -> Status:
        lacking: set[str] = set()
        reasons: list[str] = []
        for pod in candidates:
            requests = pod_requests(pod)
            if not trial.is_concerned(requests):
                continue
            on_node = trial.lacking_without(requests, leaving=1)
            inside = trial.lacking_inside(requests)
            lacking.update(on_node)
            reasons.extend(inside)
            status = filter_pod(pod)
            if not status.is_success:
                reasons.extend(status.reasons)
                continue
            if not on_node and not inside:
                prepared.selected[trial.node.name] = candidates
                return SUCCESS
        return self._failure(prepared, trial, sorted(lacking), reasons, candidates)

    def _many(
        self, prepared: Prepared, trial: "_Trial", candidates: Sequence[Pod], filter_pod: FilterPod
    ) -> Status:
        selected: list[Pod] = []
        taken: dict[str, Quantity] = {}
        lacking: Sequence[str] = ()
        reasons: list[str] = []
        for pod in candidates:
            requests = pod_requests(pod)
            if not trial.is_concerned(requests):
                continue
            together = _added(taken, requests)
            lacking = trial.lacking_without(together, leaving=len(selected) + 1)
            inside = trial.lacking_inside(together)
            if inside:
                reasons.extend(inside)
                continue
            status = filter_pod(pod)
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
        if not lacking and (candidates or trial.tried_alone):
            lacking = trial.lacking_alone()
        return Status.unschedulable(*by_node(lacking)) if lacking else SUCCESS


class _Trial:
    """A Reservation on a node, with some pods taken over."""

    def __init__(
        self,
        node_filter: NodeFilter,
        prepared: Prepared,
        info: ReservationInfo,
        match: NodeMatch | None,
        node: NodeInfo,
    ) -> None:
        self.node, self._info, self._ignores = node, info, node_filter.ignores
        self._request = prepared.requirements.vector
        self._amounts = node_filter.amounts(prepared, match, node, self._request)
        self._preemptible = prepared.preemptible.vector(node.name)
        self._lacking_alone: list[str] | None = None

    @property
    def tried_alone(self) -> bool:
        """Whether it is known already what is lacking without taking over any pod."""
        return self._lacking_alone is not None

    def lacking_alone(self) -> list[str]:
        """Return what the node lacks if no pod is taken over."""
        if self._lacking_alone is None:
            self._lacking_alone = lacking_on_node(
                self._request, self._amounts_without({}), self._ignores, preemptible=self._preemptible
            )
        return self._lacking_alone

    def lacking_without(self, requests: Mapping[str, Quantity], *, leaving: int) -> list[str]:
        """Return what the node lacks if pods with these requests are taken over."""
        return lacking_on_node(
            self._request,
            self._amounts_without(counted(vector(requests))),
            self._ignores,
            leaving=leaving,
            preemptible=self._preemptible,
        )

    def _amounts_without(self, taken: Vector) -> NodeAmounts:
        amounts = self._amounts
        requested = {name: amount - taken.get(name, 0) for name, amount in amounts.requested.items()}
        return replace(amounts, requested=requested)

    def lacking_inside(self, requests: Mapping[str, Quantity]) -> list[str]:
        """Return the reasons for what a Restricted Reservation lacks for pods with these requests."""
        if self._info.policy != RESTRICTED:
            return []
        lacking = lacking_in_reservation(requests, self._info, self._ignores, preemptible={}, detailed=False)
        return by_reservation(lacking)

    def is_concerned(self, requests: Mapping[str, Quantity]) -> bool:
        """Return whether the Reservation holds anything that a pod requests."""
        return concerns(self._info.resource_names, requests)


def _added(first: Mapping[str, Quantity], second: Mapping[str, Quantity]) -> dict[str, Quantity]:
    return {name: first.get(name, ZERO) + second.get(name, ZERO) for name in {**first, **second}}
