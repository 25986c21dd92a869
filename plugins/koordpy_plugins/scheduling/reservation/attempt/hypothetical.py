"""Reservations in a what-if that has placed pods before.

The cache does not have such pods. They are added, in the order of their placement, to copies of the
reservations that they would have got, which only this attempt sees.
"""

from collections.abc import Iterator, Mapping, Sequence

from koordpy.api.core import Node, Pod
from koordpy.api.quantity import QuantityError
from koordpy.api.reservation import RESTRICTED
from koordpy.api.scheme import DecodeError
from koordpy.scheduling.interface.reservation_info import AssignedPod, ReservationInfo

from ..fit import scoring
from ..fit.reservation import lacking_in_reservation
from ..fit.rules import concerns
from ..state.matchable import NO_ORDER
from .matching import USABLE, decide
from .requirements import PodRequirements


class HypotheticalReservations:
    """Copies of reservations by row of the node table and UID; only of those that pods were put into."""

    def __init__(self, *, omit_node_labels: bool = False) -> None:
        self._omit = omit_node_labels
        self._by_row: dict[int, dict[str, tuple[ReservationInfo, ReservationInfo]]] = {}

    def __bool__(self) -> bool:
        return bool(self._by_row)

    @property
    def rows(self) -> Sequence[int]:
        """The rows of the nodes on which reservations differ from the cache's."""
        return list(self._by_row)

    def place(
        self, row: int, node: Node, pods: Sequence[Pod], matchable: Mapping[str, ReservationInfo]
    ) -> None:
        """Add pods that were placed on a node to its matchable reservations."""
        infos = dict(matchable)
        for pod in pods:
            try:
                requirements = PodRequirements.of(pod)
                chosen = self._choose(requirements, node, infos)
                if chosen is not None:
                    copy = chosen.clone()
                    copy.assign(AssignedPod.of(pod))
                    infos[copy.uid] = copy
                    self._by_row.setdefault(row, {})[copy.uid] = copy, matchable[copy.uid]
            except (DecodeError, QuantityError):
                continue  # the pod could not have been placed like that

    def _choose(
        self, requirements: PodRequirements, node: Node, infos: Mapping[str, ReservationInfo]
    ) -> ReservationInfo | None:
        """Return the reservation that a pod would have got on a node."""
        if requirements.ignores_reservations:
            return None
        requests = requirements.requests
        usable = [
            info
            for info in sorted(infos.values(), key=lambda info: info.name)
            if not info.is_used_up
            and decide(requirements, info, node, omit_node_labels=self._omit) in USABLE
            and (requirements.affinity is not None or concerns(info.resource_names, requests))
            and not self._lacks(requirements, info)
        ]
        if not usable:
            return None
        return min(
            usable,
            key=lambda info: (
                NO_ORDER if info.order is None else info.order,
                -scoring.score(requests, info, {}),
            ),
        )

    @staticmethod
    def _lacks(requirements: PodRequirements, info: ReservationInfo) -> bool:
        if info.policy != RESTRICTED:
            return False
        lacking = lacking_in_reservation(
            requirements.requests, info, lambda _: False, preemptible={}, detailed=False
        )
        return bool(lacking)

    def of(self, row: int, info: ReservationInfo) -> ReservationInfo:
        """Return a reservation as it would be."""
        copies = self._by_row.get(row)
        known = None if copies is None else copies.get(info.uid)
        return info if known is None else known[0]

    def changed(self, row: int) -> Iterator[tuple[ReservationInfo, ReservationInfo]]:
        """Yield the reservations of a node that would differ: as they would be, and as they are."""
        yield from self._by_row.get(row, {}).values()
