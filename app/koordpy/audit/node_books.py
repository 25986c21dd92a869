"""What one node has, and who holds what of it."""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final, TypeVar

from koordpy.api.core import Node

from .amounts import Vector, added, text
from .annotations import NO_CPUS, Minor
from .devices import Total
from .finding import Owner
from .holding import Holding
from .topology import Topology

K = TypeVar("K")

_NOTHING: Final[Vector] = {}


@dataclass
class NodeBooks:
    """A node (None if there is no such object) and its holders: bound pods and Reservations.

    `devices` are the minors of its Device, None if it has none, or, without `knows_devices`, if Devices could
    not be read. `binding` are the holders of CPUs or parts of NUMA nodes, `using` those of devices, `unread`
    those with annotations that cannot be read. Holders are added before the first check.
    """

    name: str
    node: Node | None = None
    topology: Topology | None = None
    devices: Mapping[Minor, Total] | None = None
    knows_devices: bool = True
    pods: list[Holding] = field(default_factory=list)
    reservations: list[Holding] = field(default_factory=list)
    binding: list[Holding] = field(default_factory=list)
    using: list[Holding] = field(default_factory=list)
    unread: list[Holding] = field(default_factory=list)

    def sort_in(self, holding: Holding) -> None:
        """Note what a holder of the node holds."""
        if holding.cpus is not NO_CPUS:
            self.binding.append(holding)
        if holding.devices.amounts:
            self.using.append(holding)
        if holding.unreadable:
            self.unread.append(holding)

    def holders(self) -> Iterator[Holding]:
        """Yield all holders, pods first."""
        yield from self.pods
        yield from self.reservations

    def requested(self) -> Vector:
        """Return what is requested in all; see `sums`."""
        total: Vector = {}
        # Few requests are different.
        for requests, count in Counter([pod.requests for pod in self.pods if not pod.reserves]).items():
            for name, number in requests.occupied.items():
                total[name] = total.get(name, 0) + count * number
        if self._reserving:
            left = self._left(lambda holding: {"": holding.requests.occupied})
            total = added(total, left.get("", {}))
        return total

    def sums(
        self, holders: Iterable[Holding], amounts: Callable[[Holding], Mapping[K, Vector]]
    ) -> dict[K, Vector]:
        """Return what is held in all of each part of the node; `holders` are at least those with amounts.

        A reservation counts with what its owners do not use of it, so that nothing of it counts twice. Pods
        that ignore reservations may use what is reserved, so what they use is taken off that.
        """
        total: dict[K, Vector] = {}
        for holder in holders:
            if not holder.reserves:  # a pod that acts as a reservation counts as one
                for key, part in amounts(holder).items():
                    total[key] = added(total[key], part) if key in total else part
        if self._reserving:
            for key, part in self._left(amounts).items():
                total[key] = added(total.get(key, _NOTHING), part)
        return total

    def _left(self, amounts: Callable[[Holding], Mapping[K, Vector]]) -> dict[K, Vector]:
        """Return what reservations keep beyond what is used of them."""
        left: dict[K, Vector] = {}
        for reservation, owners in self._reserving.values():
            for key, part in amounts(reservation).items():
                used = [amounts(owner).get(key, _NOTHING) for owner in owners]
                kept = left.setdefault(key, {})
                for name, number in part.items():
                    rest = number - sum(each.get(name, 0) for each in used)
                    if rest > 0:
                        kept[name] = kept.get(name, 0) + rest
        ignoring = [amounts(pod) for pod in self.pods if pod.ignores_reservations]
        for key, kept in left.items():
            for name, number in kept.items():
                used_by_others = sum(each.get(key, _NOTHING).get(name, 0) for each in ignoring)
                kept[name] = max(0, number - used_by_others)
        return left

    def owners(self, holders: Iterable[tuple[Holding, str]]) -> list[Owner]:
        """Return holders as owners, each with its amount as text."""
        return [Owner(kind=holder.kind, name=holder.name, amount=amount) for holder, amount in holders]

    def sharers(self, resource: str, amounts: Callable[[Holding], Vector | None]) -> list[Owner]:
        """Return who holds something of a resource; the largest amounts first."""
        found = [((amounts(holder) or _NOTHING).get(resource, 0), holder) for holder in self.holders()]
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
