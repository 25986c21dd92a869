"""The reservations of a cluster for plugins that only read them: NUMA, devices, gangs, quotas.

Source: Koordinator's `ReservationCache` and the reads of its `ReservationNominator`
(`pkg/scheduler/frameworkext/reservation_cache.go`, `interface.go`).
"""

from collections.abc import Mapping, Sequence
from typing import Protocol

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet

from .cycle_state import CycleState
from .reservation_info import ReservationInfo


class ReservationCache(Protocol):
    """Reservations, the pods that use them, and those that an attempt may use.

    The results are the cache's own objects, valid until the next event: only read them, and `clone` what is
    to be kept or changed.
    """

    def get(self, uid: str) -> ReservationInfo | None:
        """Return a reservation by the UID of its Reservation, or of the pod that acts as one."""
        ...

    def on_node(self, node_name: str) -> Sequence[ReservationInfo]:
        """Return all reservations on a node, available or not, by name; assumed Reservations too."""
        ...

    def used_by(self, pod: Pod, node_name: str) -> ReservationInfo | None:
        """Return the reservation on a node that a bound or assumed pod uses, while pods can still match it.

        An allocate-once reservation matches no further pod: it is not found here once it is used up.
        """
        ...

    def matched(self, state: CycleState, node_name: str) -> Sequence[ReservationInfo]:
        """Return the reservations of a node that the pod of an attempt may use, by name.

        Known from BeforePreFilter of the plugin that owns reservations on; empty before.
        """
        ...

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        """Return the reservation nominated for an unbound pod on a node; None if there is none.

        Nominations of earlier attempts are known for any pod. With its `state`, those of this attempt are
        known too: of all nodes once PreScore has run, and in Reserve and later of the chosen node.
        """
        ...

    def nominated_among(self, pod: Pod, state: CycleState, nodes: NodeSet) -> Mapping[int, ReservationInfo]:
        """Return what `nominated` finds on nodes, by position; nodes on which it finds none are left out."""
        ...

    def taken_over(self, state: CycleState, node_name: str) -> Sequence[Pod]:
        """Return the running pods whose resources a Reservation takes over on a node, as chosen in this
        attempt.

        None for an ordinary pod, and for a Reservation that takes over no pods.
        """
        ...


class NoReservations(ReservationCache):
    """The empty cache of a profile without a plugin that owns reservations."""

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

    def nominated_among(self, pod: Pod, state: CycleState, nodes: NodeSet) -> Mapping[int, ReservationInfo]:
        """Return none."""
        return {}

    def taken_over(self, state: CycleState, node_name: str) -> Sequence[Pod]:
        """Return none."""
        return ()
