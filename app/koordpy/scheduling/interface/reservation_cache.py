"""The reservations of a cluster as plugins read them that do not own them: NUMA, devices, gangs, quotas.

Source: Koordinator's `ReservationCache` and the reads of its `ReservationNominator`
(`pkg/scheduler/frameworkext/reservation_cache.go`, `interface.go`).
"""

from collections.abc import Sequence
from typing import Protocol

from koordpy.api.core import Pod

from .cycle_state import CycleState
from .reservation_info import ReservationInfo


class ReservationCache(Protocol):
    """What there is, who uses it, and what an attempt may use.

    The answers are the cache's own objects, true until the next event: read them, `clone` what is to be kept
    or changed.
    """

    def get(self, uid: str) -> ReservationInfo | None:
        """Return a reservation by the UID of its Reservation, or of the pod that acts as one."""
        ...

    def on_node(self, node_name: str) -> Sequence[ReservationInfo]:
        """Return all that is placed on a node, available or not, by name; assumed Reservations too."""
        ...

    def used_by(self, pod: Pod, node_name: str) -> ReservationInfo | None:
        """Return the reservation on a node that a bound or assumed pod uses, while pods can still match it.

        One that serves a single pod is matched by no other one: it is not found here once it is used up.
        """
        ...

    def matched(self, state: CycleState, node_name: str) -> Sequence[ReservationInfo]:
        """Return the reservations of a node that the pod of an attempt may use, by name.

        Known from the BeforePreFilter of the plugin that owns reservations; none before.
        """
        ...

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        """Return the reservation that a pod without a node is going to use on a node; None if none is chosen.

        What earlier attempts have left is known of any pod. With its `state`, what this attempt has chosen is
        known too: of all nodes once PreScore has run, in Reserve and later of the node that was taken.
        """
        ...

    def taken_over(self, state: CycleState, node_name: str) -> Sequence[Pod]:
        """Return the running pods whose share a Reservation takes over on a node, as this attempt has chosen.

        None for an ordinary pod, and for a Reservation that takes over no pods.
        """
        ...


class NoReservations(ReservationCache):
    """What a profile knows of reservations where no plugin owns them."""

    def get(self, uid: str) -> ReservationInfo | None:
        """Return none."""
        return None

    def on_node(self, node_name: str) -> Sequence[ReservationInfo]:
        """Return none."""
        return ()

    def used_by(self, pod: Pod, node_name: str) -> ReservationInfo | None:
        """Return none."""
        return None

    def matched(self, state: CycleState, node_name: str) -> Sequence[ReservationInfo]:
        """Return none."""
        return ()

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        """Return none."""
        return None

    def taken_over(self, state: CycleState, node_name: str) -> Sequence[Pod]:
        """Return none."""
        return ()
