"""What one node has, and who holds what of it."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeVar

from koordpy.api.core import Node
from koordpy.api.device import Device

from .amounts import text
from .finding import Owner
from .holding import Holding
from .topology import Topology

K = TypeVar("K")


@dataclass
class NodeBooks:
    """A node (None if there is no such object) and its holders: bound pods and Reservations.

    Holders are added before the first check.
    """

    name: str
    node: Node | None = None
    topology: Topology | None = None
    device: Device | None = None
    pods: list[Holding] = field(default_factory=list)
    reservations: list[Holding] = field(default_factory=list)

    def holders(self) -> Iterator[Holding]:
        """Yield all holders, pods first."""
        yield from self.pods
        yield from self.reservations

    def sums(self, amounts: Callable[[Holding], Mapping[K, int]]) -> dict[K, int]:
        """Return what is held in all.

        A reservation counts with what its owners do not use of it, so that nothing of it counts twice. Pods
        that ignore reservations may use what is reserved, so what they use is taken off that.
        """
        total: dict[K, int] = {}
        known = total.get
        reserving = self._reserving
        for pod in self.pods:
            held = amounts(pod)
            if not held or pod.reserves:
                continue  # a pod that acts as a reservation counts as one
            for key, number in held.items():
                total[key] = known(key, 0) + number
        if not reserving:
            return total
        left: dict[K, int] = {}
        for reservation, owners in reserving.values():
            for key, number in amounts(reservation).items():
                rest = number - sum(amounts(owner).get(key, 0) for owner in owners)
                if rest > 0:
                    left[key] = left.get(key, 0) + rest
        ignoring = [pod for pod in self.pods if pod.ignores_reservations]
        for key, number in left.items():
            number -= min(number, sum(amounts(pod).get(key, 0) for pod in ignoring))
            if number:
                total[key] = total.get(key, 0) + number
        return total

    def owners(self, holders: Iterable[tuple[Holding, str]]) -> list[Owner]:
        """Return holders as owners, each with its amount as text."""
        return [Owner(kind=holder.kind, name=holder.name, amount=amount) for holder, amount in holders]

    def sharers(self, key: K, amounts: Callable[[Holding], Mapping[K, int]], resource: str) -> list[Owner]:
        """Return who holds something of `key`, an amount of a resource; the largest amounts first."""
        found = [(amounts(holder).get(key, 0), holder) for holder in self.holders()]
        found.sort(key=lambda item: (-item[0], item[1].kind, item[1].name))
        return self.owners((holder, text(resource, number)) for number, holder in found if number > 0)

    def may_share(self, one: Holding, other: Holding) -> bool:
        """Whether two holders may hold the same: one of them uses the reservation that the other is.

        A pod that ignores reservations may use any of them, by its label.
        """
        for user, reservation in ((one, other), (other, one)):
            if reservation.reserves and (user.reservation == reservation.uid or user.ignores_reservations):
                return True
        return False

    @cached_property
    def _reserving(self) -> dict[str, tuple[Holding, list[Holding]]]:
        """Return reservations of the node with the pods that use them, by UID."""
        found: dict[str, tuple[Holding, list[Holding]]] = {
            holding.uid: (holding, []) for holding in self.reservations
        }
        for pod in self.pods:
            if pod.reserves:
                found[pod.uid] = (pod, [])
        if found:
            for pod in self.pods:
                if pod.reservation in found:
                    found[pod.reservation][1].append(pod)
        return found
