"""Whether a pod fits on a node with one of the reservations there, and what is lacking if not.

Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go` (`filterWithReservations`).
"""

from collections.abc import Callable, Sequence

from koordpy.api.reservation import RESTRICTED
from koordpy.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from koordpy.api.resources import Vector, pod_node_request_vector
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from .matches import NodeMatch
from .node_fit import NodeRoom, lacking_in_reservation, lacking_on_node
from .prepared import Prepared
from .withheld import Withheld

NO_MATCH = "node(s) no reservations match reservation affinity"
NO_ROOM_AFTER_PREEMPTION = "node(s) preemption failed due to insufficient resources"
NOTHING_FITS = "node(s) no reservation(s) to meet the requirements"

PREFIX = "Reservation(s) "
"""What every reason begins with that is a reservation's, not its node's."""

OtherPlugins = Callable[[ReservationInfo], Status]
"""Asks the FilterReservation plugins."""

_ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE)


def is_reservation_reason(reason: str) -> bool:
    """Return whether a reason is about a reservation, not about its node."""
    return reason.startswith(PREFIX)


def by_node(lacking: Sequence[str]) -> list[str]:
    """Return the reasons for what a node lacks."""
    return [f"Insufficient {name} by node" for name in lacking]


class Judge:
    """Judges nodes for the attempts of one profile. `ignores` tells which resources need not fit."""

    def __init__(self, ignores: Callable[[str], bool], withheld: Withheld) -> None:
        self.ignores, self._withheld = ignores, withheld

    def room(self, prepared: Prepared, match: NodeMatch | None, node: NodeInfo, needs: Vector) -> NodeRoom:
        """Return what there is on a node: as if no pod was moved in thought, with all that is matched.

        Of a node that has nothing to do with reservations Koordinator does not know for pods what is
        requested, and neither do we: NodeResourcesFit looks at that.
        """
        names = (*_ALWAYS, *needs)
        concerned = prepared.concerns(node.row, self._withheld.used)
        requested = dict.fromkeys(names, 0)
        if concerned or prepared.reservation is not None:
            requested = {name: node.requested(name) for name in names}
        if concerned:
            for name, amount in prepared.preemptible.moved(node.name).items():
                if name in requested:
                    requested[name] += amount
        if match is not None:
            back = [info.held for info in match.matched]
            back.extend(map(pod_node_request_vector, match.candidates))
            for amounts in back:
                for name, amount in amounts.items():
                    if name in requested:
                        requested[name] += amount
        return NodeRoom(
            {name: node.allocatable(name) for name in (*names, PODS)},
            requested,
            node.pod_count,
            {} if match is None else match.allocated,
        )

    def without_reservation(self, prepared: Prepared, node: NodeInfo) -> Status:
        """Judge a node without matched reservations: only preemption leaves something to look at."""
        if not prepared.preemptible.concerns(node.name):
            return SUCCESS
        needs = prepared.wish.needs
        lacking = lacking_on_node(
            needs,
            self.room(prepared, None, node, needs),
            self.ignores,
            preemptible=prepared.preemptible.vector(node.name),
        )
        return Status.unschedulable(NO_ROOM_AFTER_PREEMPTION) if lacking else SUCCESS

    def with_reservations(
        self,
        prepared: Prepared,
        match: NodeMatch,
        node: NodeInfo,
        infos: Sequence[ReservationInfo],
        others: OtherPlugins,
        *,
        required: bool,
        skip_node: bool,
    ) -> Status:
        """Judge a node with reservations, of which one must do if `required`."""
        wish, affinity = prepared.wish, prepared.wish.affinity
        if wish.ignores_reservations:
            return SUCCESS
        room = self.room(prepared, match, node, wish.needs)
        lacking: set[str] = set()
        reasons: list[str] = []
        for info in infos:
            if affinity is None and not any(name in wish.requests for name in info.resource_names):
                continue
            if wish.name and wish.name != info.name:
                continue
            on_node = [] if skip_node else self._on_node(prepared, match, node, room, info)
            inside = self._inside(prepared, node, info) if info.policy == RESTRICTED else []
            lacking.update(on_node)
            reasons.extend(inside)
            status = others(info)
            if not status.is_success:
                reasons.extend(status.reasons)
                continue
            if not on_node and not inside:
                return SUCCESS
        if required:
            return Status.unschedulable(*(by_node(sorted(lacking)) + reasons or [NOTHING_FITS]))
        if lacking:
            return Status.unschedulable(*by_node(sorted(lacking)))
        left = lacking_on_node(
            wish.needs,
            room,
            self.ignores,
            leaving=len(match.matched),
            preemptible=prepared.preemptible.vector(node.name),
        )
        return Status.unschedulable(*by_node(left)) if left else SUCCESS

    def _on_node(
        self, prepared: Prepared, match: NodeMatch, node: NodeInfo, room: NodeRoom, info: ReservationInfo
    ) -> list[str]:
        return lacking_on_node(
            prepared.wish.needs,
            room,
            self.ignores,
            available=info.available,
            leaving=len(match.matched),
            preemptible=prepared.preemptible.vector(node.name, info.uid),
        )

    def _inside(self, prepared: Prepared, node: NodeInfo, info: ReservationInfo) -> list[str]:
        wish = prepared.wish
        lacking = lacking_in_reservation(
            wish.requests,
            info,
            self.ignores,
            preemptible=prepared.preemptible.in_(node.name, info.uid),
            detailed=bool(wish.name) and wish.name == info.name,
        )
        return [f"{PREFIX}{reason}" for reason in lacking]
