"""Reservations that a test describes, for plugins that only read them."""

from collections.abc import Mapping

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.reservation_cache import NoReservations
from koordpy.scheduling.interface.reservation_info import ReservationInfo


class GivenReservations(NoReservations):
    """Knows nothing; override what a test needs. What `nominated` finds, `nominated_among` finds too."""

    def nominated_among(self, pod: Pod, state: CycleState, nodes: NodeSet) -> Mapping[int, ReservationInfo]:
        """Return what `nominated` finds on nodes, by position."""
        found = ((at, self.nominated(pod, name, state)) for at, name in enumerate(nodes.names))
        return {at: info for at, info in found if info is not None}
