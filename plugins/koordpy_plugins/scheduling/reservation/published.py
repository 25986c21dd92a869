"""What other plugins of a profile read of reservations: `handle.reservations`."""

from collections.abc import Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.reservation_cache import ReservationCache
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .attempt.prepared import PREPARED
from .state import cache
from .state.nominations import Nominations


class PublishedReservations(ReservationCache):
    """Reads the shared cache, the nominations of a profile, and what an attempt has prepared."""

    def __init__(self, known: cache.ReservationCache, nominations: Nominations, table: NodeTable) -> None:
        self._cache, self._nominations, self._table = known, nominations, table

    def get(self, uid: str) -> ReservationInfo | None:
        """Return a reservation by UID."""
        return self._cache.infos.get(uid)

    def on_node(self, node_name: str) -> Sequence[ReservationInfo]:
        """Return all that is placed on a node, by name."""
        return sorted(self._cache.on_node.get(node_name, {}).values(), key=lambda info: info.name)

    def used_by(self, pod: Pod, node_name: str) -> ReservationInfo | None:
        """Return the matchable reservation on a node that a pod uses."""
        return self._cache.used_by(pod, node_name)

    def matched(self, state: CycleState, node_name: str) -> Sequence[ReservationInfo]:
        """Return the reservations of a node that the pod of an attempt may use."""
        prepared, row = state.read(PREPARED), self._table.row_of(node_name)
        match = None if prepared is None or row is None else prepared.matches.get(row)
        return () if match is None else match.matched

    def nominated(self, pod: Pod, node_name: str, state: CycleState | None = None) -> ReservationInfo | None:
        """Return what Reserve has taken, else the choice of PreScore if it stands, else an earlier one."""
        prepared = None if state is None else state.read(PREPARED)
        if prepared is not None and prepared.reservation is None:
            taken = prepared.assumed
            if taken is not None:
                return self._cache.infos.get(taken.uid) if taken.node_name == node_name else None
            row = self._table.row_of(node_name)
            chosen = None if row is None else prepared.nominated_reservations.get(row)
            known = None if chosen is None else self._cache.infos.get(chosen.uid)
            if known is not None:
                return known
        return self._nominations.get(pod, node_name)

    def nominated_among(self, pod: Pod, state: CycleState, nodes: NodeSet) -> Mapping[int, ReservationInfo]:
        """Return what `nominated` finds on nodes, by position."""
        names = set(self._nominations.nodes_of(pod))
        prepared = state.read(PREPARED)
        if prepared is not None:
            names.update(map(self._table.name_of, prepared.nominated_reservations.rows.tolist()))
            if prepared.assumed is not None:
                names.add(prepared.assumed.node_name)
        found = ((at, self.nominated(pod, name, state)) for at, name in nodes.positions_of(names).items())
        return {at: info for at, info in found if info is not None}

    def taken_over(self, state: CycleState, node_name: str) -> Sequence[Pod]:
        """Return the running pods that a Reservation takes over on a node."""
        prepared = state.read(PREPARED)
        return () if prepared is None else prepared.nominated_pods.get(node_name, ())
