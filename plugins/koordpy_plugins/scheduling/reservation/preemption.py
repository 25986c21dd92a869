"""Preemption of less important, unprotected pods by pods and Reservations.

With `enablePreemption` the plugin makes a `ReservationPreemption` and calls it first in its PostFilter:

    result, status = await self._preemption.post_filter(state, pod, outcome)
    if not (status.is_rejected and status.code is Code.UNSCHEDULABLE):
        return result, status

A plain Unschedulable continues: its reasons come before those that the plugin has to give itself, and
`result` is what it returns with them.

Source: Koordinator, `pkg/scheduler/plugins/reservation/preemption.go`.
"""

from koordpy.api.core import Pod
from koordpy.api.extension import LABEL_DISABLE_PREEMPTIBLE
from koordpy.api.reservation import Reservation
from koordpy.api.reserve_pod import is_reserve_pod, new_reserve_pod, reservation_name_of
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import Status
from koordpy.scheduling.preemption import Evaluator, Rules

from .args import ReservationArgs


class ReservationPreemption:
    """Preempts like DefaultPreemption, also for reserve pods, and waits until victims are evicted.

    Reservations are never victims, because they are not pods.
    """

    def __init__(self, args: ReservationArgs, handle: Handle) -> None:
        self._pods = handle.cluster.store(Pod)
        self._reservations = handle.cluster.store(Reservation)
        self._nominator = handle.nominator
        self._evaluator = Evaluator(
            "Reservation",
            handle,
            Rules(
                args.min_candidate_nodes_percentage,
                args.min_candidate_nodes_absolute,
                latest=self._latest,
                spares=is_protected,
                in_background=False,
            ),
        )

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Evict for a pod that found no node, as `Evaluator.preempt`.

        A reserve pod keeps the node that it was promised while its victims end: no status of a pod could
        say so for it.
        """
        result, status = await self._evaluator.preempt(state, pod, outcome)
        promised = self._promised(pod)
        if result is None and promised and status.is_rejected:
            result = PostFilterResult(promised, override=True)
        return result, status

    def _promised(self, pod: Pod) -> str:
        return self._nominator.node_of(pod.metadata.uid) if is_reserve_pod(pod) else ""

    def _latest(self, pod: Pod) -> Pod | None:
        known = self._pods.by_key(pod.metadata.key)
        if known is not None or not is_reserve_pod(pod):
            return known
        reservation = self._reservations.by_key(reservation_name_of(pod))
        if reservation is None or reservation.metadata.uid != pod.metadata.uid:
            return None
        latest = new_reserve_pod(reservation)
        latest.status.nominated_node_name = self._promised(pod)
        return latest


def is_protected(pod: Pod) -> bool:
    """Return whether a pod's label keeps it from being a victim."""
    return pod.metadata.labels.get(LABEL_DISABLE_PREEMPTIBLE) == "true"
