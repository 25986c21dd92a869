"""What one attempt knows about reservations: worked out before PreFilter, read by every later point."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Pod
from koordpy.api.quantity import ZERO, Quantity
from koordpy.api.resource_names import PODS
from koordpy.api.resources import Vector, counted, pod_requests, vector
from koordpy.cluster.nodes import NodeSet, NodeTable
from koordpy.scheduling.interface.cycle_state import StateKey
from koordpy.scheduling.interface.reservation_info import ReservationInfo

from .ballot import Ballot
from .matches import Matches
from .matching import Diagnosis, Wish
from .places import Places

Quantities = dict[str, Quantity]

_ONE_POD = Quantity(1)


@dataclass(slots=True)
class Preemptible:
    """What pods would free that preemption takes away in thought, by node and by reservation."""

    on_node: dict[str, Quantities] = field(default_factory=dict)
    in_reservation: dict[str, dict[str, Quantities]] = field(default_factory=dict)

    def move(self, node_name: str, uid: str, pod: Pod, sign: int) -> None:
        """Take a pod away (1) or put it there (-1), in a reservation if `uid` names one."""
        amounts = {**pod_requests(pod), PODS: _ONE_POD}
        freed = (
            self.in_reservation.setdefault(node_name, {}).setdefault(uid, {})
            if uid
            else self.on_node.setdefault(node_name, {})
        )
        for name, amount in amounts.items():
            known = freed.get(name, ZERO)
            freed[name] = known + amount if sign > 0 else known - amount

    def concerns(self, node_name: str) -> bool:
        """Return whether anything was moved on a node."""
        return node_name in self.on_node or node_name in self.in_reservation

    def rows(self, table: NodeTable) -> Iterator[int]:
        """Yield the rows of the nodes on which anything was moved."""
        for node_name in {**self.on_node, **self.in_reservation}:
            row = table.row_of(node_name)
            if row is not None:
                yield row

    def in_(self, node_name: str, uid: str) -> Mapping[str, Quantity]:
        """Return what is freed in one reservation."""
        return self.in_reservation.get(node_name, {}).get(uid, {})

    def vector(self, node_name: str, uid: str = "") -> Vector:
        """Return what is freed on a node outside of reservations, and in one of them."""
        return counted(vector(_sum((self.on_node.get(node_name, {}), self.in_(node_name, uid)))))

    def moved(self, node_name: str) -> Vector:
        """Return all that is freed on a node."""
        inside = self.in_reservation.get(node_name, {}).values()
        return counted(vector(_sum((self.on_node.get(node_name, {}), *inside))))

    def clone(self) -> "Preemptible":
        """Return a copy that can be changed on its own."""
        return Preemptible(
            {name: dict(freed) for name, freed in self.on_node.items()},
            {
                name: {uid: dict(freed) for uid, freed in by_uid.items()}
                for name, by_uid in self.in_reservation.items()
            },
        )


def _sum(parts: Sequence[Mapping[str, Quantity]]) -> Quantities:
    total: Quantities = {}
    for part in parts:
        for name, amount in part.items():
            total[name] = total.get(name, ZERO) + amount
    return total


@dataclass(slots=True)
class Prepared:
    """One attempt: what the pod wants, and where something is for it."""

    wish: Wish
    matches: Matches
    """Nodes with matched reservations or candidates, by row of the node table."""
    restored: NDArray[np.bool_] | None = None
    """(rows,) nodes on which what pods use of reservations is not counted twice; None for all."""
    places: Places | None = None
    """The nodes on which reservations were looked for."""
    has_nodes: bool = False
    """Whether any node has something to do with reservations for this pod."""
    reservation: ReservationInfo | None = None
    """The Reservation that is being scheduled, when the pod is a reserve pod."""
    problem: str = ""
    """Why a reserve pod cannot be scheduled at all: it cannot be found or is not valid."""
    diagnoses: dict[str, Diagnosis] = field(default_factory=dict)
    """What a Reservation's attempt came to about running pods, by node name."""
    preemptible: Preemptible = field(default_factory=Preemptible)
    selected: dict[str, Sequence[Pod]] = field(default_factory=dict)
    """The candidates that Filter found to be enough, by node name."""
    ballot: Ballot = field(default_factory=Ballot)
    """The reservations chosen before scoring, one a node."""
    nominated: dict[str, Sequence[Pod]] = field(default_factory=dict)
    """The pods to be taken over, by node name."""
    shown: tuple[NodeSet, tuple[int, int], NodeSet] | None = None
    """The nodes that were shown last, the moment, and what was shown."""
    assumed: ReservationInfo | None = None
    """What Reserve has taken."""
    annotated: bool = False
    """Whether PreBind has set the annotation."""
    pre_allocated: Sequence[Pod] = ()
    """The pods that Reserve has taken over."""

    @property
    def is_pre_allocation(self) -> bool:
        """Whether a Reservation is scheduled that may take over running pods."""
        info = self.reservation
        return info is not None and info.reservation is not None and info.reservation.spec.pre_allocation

    @property
    def takes_many(self) -> bool:
        """Whether a Reservation is scheduled that may take over several pods at once."""
        info = self.reservation
        return (
            self.is_pre_allocation
            and info is not None
            and info.reservation is not None
            and (info.reservation.takes_many)
        )

    @property
    def required(self) -> bool:
        """Whether the pod goes nowhere without a reservation, the Reservation nowhere without a pod."""
        info = self.reservation
        if info is None or info.reservation is None:
            return self.wish.affinity is not None
        return info.reservation.requires_pre_allocation

    def concerns(self, row: int, used: NDArray[np.bool_]) -> bool:
        """Return whether a node has to do with reservations for this pod.

        `used` (rows,) tells which nodes have reservations with pods.
        """
        if row in self.matches:
            return True
        restored = self.restored is None or (row < len(self.restored) and bool(self.restored[row]))
        return restored and (self.reservation is not None or bool(used[row]))

    def clone(self) -> "Prepared":
        """Return a copy for a what-if."""
        return replace(
            self,
            preemptible=self.preemptible.clone(),
            selected=dict(self.selected),
            nominated=dict(self.nominated),
        )


PREPARED: StateKey[Prepared] = StateKey("scheduling.koordinator.sh/reservation")
