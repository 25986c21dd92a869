"""Whether a pod fits on one node with one of the reservations there, and what is lacking if not.

Source: Koordinator, `pkg/scheduler/plugins/reservation/plugin.go` (`filterWithReservations`).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence

from koordpy.api.reservation import RESTRICTED
from koordpy.api.resource_names import CPU, EPHEMERAL_STORAGE, MEMORY, PODS
from koordpy.api.resources import Vector, pod_node_request_vector
from koordpy.cluster.device_classes import DeviceClasses
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import SUCCESS, Status

from ..attempt.matches import NodeMatch
from ..attempt.prepared import Prepared
from ..fit.node import NodeAmounts, lacking_on_node
from ..fit.reservation import lacking_in_reservation
from ..fit.rules import Ignores, concerns
from ..state.withheld import Withheld

NO_MATCH = "node(s) no reservations match reservation affinity"
INSUFFICIENT_AFTER_PREEMPTION = "node(s) preemption failed due to insufficient resources"
NOTHING_FITS = "node(s) no reservation(s) to meet the requirements"

PREFIX = "Reservation(s) "
"""What every reason begins with that is a reservation's, not its node's."""

FilterReservation = Callable[[ReservationInfo], Status]
"""What the FilterReservation plugins say of a reservation."""

_ALWAYS = (CPU, MEMORY, EPHEMERAL_STORAGE)


def by_node(lacking: Iterable[str]) -> list[str]:
    """Return the reasons for what a node lacks."""
    return [f"Insufficient {name} by node" for name in lacking]


def by_reservation(lacking: Iterable[str]) -> list[str]:
    """Return the reasons for what a reservation lacks."""
    return [f"{PREFIX}{reason}" for reason in lacking]


class NodeFilter:
    """Filters single nodes for the attempts of one profile."""

    def __init__(self, ignores: Ignores, withheld: Withheld, classes: DeviceClasses) -> None:
        self.ignores, self._withheld, self._classes = ignores, withheld, classes

    @property
    def class_of(self) -> Mapping[str, str]:
        """The DeviceClass of each extended resource that has one, which nodes without it leave to others."""
        return self._classes.class_of

    def amounts(
        self, prepared: Prepared, match: NodeMatch | None, node: NodeInfo, request: Vector
    ) -> NodeAmounts:
        """Return what there is on a node, matched reservations in full and as if no pod had been moved.

        Of a node where reservations make no difference to a pod Koordinator does not know what is requested,
        and neither do we: NodeResourcesFit compares that.
        """
        names = (*_ALWAYS, *request)
        concerned = prepared.concerns(node.row, self._withheld.used)
        requested = dict.fromkeys(names, 0)
        if concerned or prepared.reservation is not None:
            requested = {name: node.requested(name) for name in names}
        if concerned:
            for name, amount in prepared.preemptible.total(node.name).items():
                if name in requested:
                    requested[name] += amount
        if match is not None:  # the view of the node has taken it off
            taken = [info.held for info in match.matched]
            taken.extend(map(pod_node_request_vector, match.candidates))
            for amounts in taken:
                for name, amount in amounts.items():
                    if name in requested:
                        requested[name] += amount
        allocatable = {name: node.allocatable(name) for name in (*names, PODS)}
        class_of = self.class_of
        return NodeAmounts(
            allocatable,
            requested,
            node.pod_count,
            {} if match is None else match.allocated,
            [name for name in request if name in class_of and not allocatable[name]],
        )

    def without_reservation(self, prepared: Prepared, node: NodeInfo) -> Status:
        """Filter a node without matched reservations: only pods that preemption moved matter."""
        if not prepared.preemptible.has(node.name):
            return SUCCESS
        request = prepared.requirements.vector
        lacking = lacking_on_node(
            request,
            self.amounts(prepared, None, node, request),
            self.ignores,
            preemptible=prepared.preemptible.vector(node.name),
        )
        return Status.unschedulable(INSUFFICIENT_AFTER_PREEMPTION) if lacking else SUCCESS

    def with_reservations(
        self,
        prepared: Prepared,
        match: NodeMatch,
        node: NodeInfo,
        infos: Sequence[ReservationInfo],
        filter_reservation: FilterReservation,
        *,
        required: bool,
        skip_node: bool,
    ) -> Status:
        """Filter a node with reservations, into one of which the pod must fit if `required`."""
        requirements, affinity = prepared.requirements, prepared.requirements.affinity
        if requirements.ignores_reservations:
            return SUCCESS
        amounts = self.amounts(prepared, match, node, requirements.vector)
        lacking: set[str] = set()
        reasons: list[str] = []
        for info in infos:
            if affinity is None and not concerns(info.resource_names, requirements.requests):
                continue
            if requirements.name and requirements.name != info.name:
                continue
            on_node = [] if skip_node else self._on_node(prepared, match, node, amounts, info)
            inside = self._inside(prepared, node, info) if info.policy == RESTRICTED else []
            lacking.update(on_node)
            reasons.extend(inside)
            status = filter_reservation(info)
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
            requirements.vector,
            amounts,
            self.ignores,
            leaving=len(match.matched),
            preemptible=prepared.preemptible.vector(node.name),
        )
        return Status.unschedulable(*by_node(left)) if left else SUCCESS

    def _on_node(
        self,
        prepared: Prepared,
        match: NodeMatch,
        node: NodeInfo,
        amounts: NodeAmounts,
        info: ReservationInfo,
    ) -> list[str]:
        return lacking_on_node(
            prepared.requirements.vector,
            amounts,
            self.ignores,
            available=info.available,
            leaving=len(match.matched),
            preemptible=prepared.preemptible.vector(node.name, info.uid),
        )

    def _inside(self, prepared: Prepared, node: NodeInfo, info: ReservationInfo) -> list[str]:
        requirements = prepared.requirements
        lacking = lacking_in_reservation(
            requirements.requests,
            info,
            self.ignores,
            preemptible=prepared.preemptible.within(node.name, info.uid),
            detailed=bool(requirements.name) and requirements.name == info.name,
        )
        return by_reservation(lacking)
