"""The resources that evictions in a preemption dry run would free."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from koordpy.api.core import Pod
from koordpy.api.quantity import ZERO, Quantity
from koordpy.api.resource_names import PODS
from koordpy.api.resources import Vector, counted, pod_requests, vector
from koordpy.cluster.nodes import NodeTable

Quantities = dict[str, Quantity]

_ONE_POD = Quantity(1)


@dataclass(slots=True)
class Preemptible:
    """What evicted pods would free, by node and by reservation; less than nothing for pods that are added."""

    on_node: dict[str, Quantities] = field(default_factory=dict)
    in_reservation: dict[str, dict[str, Quantities]] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.on_node or self.in_reservation)

    def move(self, node_name: str, uid: str, pod: Pod, sign: int) -> None:
        """Count a pod as evicted (1) or as added (-1), in a reservation if `uid` names one."""
        amounts = {**pod_requests(pod), PODS: _ONE_POD}
        freed = (
            self.in_reservation.setdefault(node_name, {}).setdefault(uid, {})
            if uid
            else self.on_node.setdefault(node_name, {})
        )
        for name, amount in amounts.items():
            known = freed.get(name, ZERO)
            freed[name] = known + amount if sign > 0 else known - amount

    def has(self, node_name: str) -> bool:
        """Return whether any pod of a node was evicted or added."""
        return node_name in self.on_node or node_name in self.in_reservation

    def rows(self, table: NodeTable) -> Iterator[int]:
        """Yield the rows of the nodes of which any pod was evicted or added."""
        for node_name in {**self.on_node, **self.in_reservation}:
            row = table.row_of(node_name)
            if row is not None:
                yield row

    def within(self, node_name: str, uid: str) -> Mapping[str, Quantity]:
        """Return what is freed in one reservation."""
        return self.in_reservation.get(node_name, {}).get(uid, {})

    def vector(self, node_name: str, uid: str = "") -> Vector:
        """Return what is freed on a node outside of reservations, and in one of them."""
        return counted(vector(_sum((self.on_node.get(node_name, {}), self.within(node_name, uid)))))

    def total(self, node_name: str) -> Vector:
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
