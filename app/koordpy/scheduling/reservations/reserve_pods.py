"""The queue of reserve pods, kept current from the events of Reservations.

What each change of a Reservation does to the queue follows Koordinator's event handlers
(`pkg/scheduler/frameworkext/eventhandlers/reservation_handler.go`); what it does to the reserved amounts is
up to the Reservation plugin.
"""

from collections.abc import Callable

from koordpy.api.reservation import Reservation, validate
from koordpy.api.reserve_pod import new_reserve_pod
from koordpy.scheduling.cycle.queue import SchedulingQueue
from koordpy.scheduling.interface.waiting_pods import WaitingPods

IsOurs = Callable[[Reservation], bool]
"""Whether one of koordpy's profiles schedules a Reservation."""


class ReservePods:
    """Maintains a queue; call `added`, `updated` and `deleted` with every change of a Reservation.

    `in_hand` returns whether an attempt has allocated resources for a UID; `dropped` is called with UIDs that
    are no longer to be scheduled; `on_change` is called when the queue may have something to schedule.
    """

    def __init__(
        self,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        *,
        is_ours: IsOurs,
        in_hand: Callable[[str], bool],
        dropped: Callable[[str], None],
        on_change: Callable[[], None],
    ) -> None:
        self._queue, self._waiting_pods = queue, waiting_pods
        self._is_ours, self._in_hand = is_ours, in_hand
        self._dropped, self._on_change = dropped, on_change

    def added(self, reservation: Reservation) -> None:
        """Queue a Reservation if it is to be scheduled."""
        if self._is_wanted(reservation):
            self._queue.add(new_reserve_pod(reservation))
            self._on_change()

    def updated(self, old: Reservation, new: Reservation) -> None:
        """Queue, requeue or drop a Reservation that has changed."""
        uid = new.metadata.uid
        if old.is_terminated and new.is_terminated:
            return
        if not self._is_wanted(new):
            self._drop(new)
            if old.is_unassigned and new.is_available:
                self._queue.placed()
            elif _holds_other(old, new):
                self._queue.move_all()
        elif not old.is_unassigned or not self._is_ours(old):  # unbound, or a profile applies now
            self._queue.add(new_reserve_pod(new))
        elif self._in_hand(uid):
            return
        elif old.spec != new.spec or _marks(old) != _marks(new) or self._queue.pool_of(uid) is None:
            self._queue.add(new_reserve_pod(new))
        else:
            self._queue.update(new_reserve_pod(new))
            return
        self._on_change()

    def deleted(self, reservation: Reservation) -> None:
        """Drop a deleted Reservation, whose resources are free now."""
        self._drop(reservation)
        if reservation.status.node_name:
            self._queue.move_all()
            self._on_change()

    def _drop(self, reservation: Reservation) -> None:
        uid = reservation.metadata.uid
        self._queue.delete(uid)
        self._waiting_pods.reject(uid)
        self._dropped(uid)

    def _is_wanted(self, reservation: Reservation) -> bool:
        return (
            reservation.is_unassigned
            and not reservation.is_terminating
            and not validate(reservation)
            and self._is_ours(reservation)
        )


def _holds_other(old: Reservation, new: Reservation) -> bool:
    """Return whether a change may have freed resources of a node, or changed their owner."""
    return (
        old.status.node_name != new.status.node_name
        or old.is_available != new.is_available
        or old.status.allocatable != new.status.allocatable
        or old.spec != new.spec
        or _marks(old) != _marks(new)
    )


def _marks(reservation: Reservation) -> tuple[object, object]:
    return reservation.metadata.labels, reservation.metadata.annotations
