"""What PreFilter prepares for the other points of an attempt."""

from dataclasses import dataclass, field, replace

from koordpy.api.device_allocations import DeviceAllocations
from koordpy.scheduling.interface.cycle_state import StateKey

from ..allocation.requests import Requests
from ..amounts import NONE, NodeAmounts


@dataclass(slots=True)
class Prepared:
    """A pod that requests devices.

    `preemptible` is what pods of a node hold that are removed in a what-if, by node name;
    `preemptible_in` the same of pods that use a reservation, by node name and UID of the reservation.
    """

    requests: Requests
    reservation_required: bool = False
    """Whether the pod can only be placed in a reservation, or by taking over pods."""
    designated: DeviceAllocations | None = None
    """The recorded allocation that alone will do, if any."""
    preemptible: dict[str, NodeAmounts] = field(default_factory=dict)
    preemptible_in: dict[str, dict[str, NodeAmounts]] = field(default_factory=dict)
    result: DeviceAllocations | None = None
    """What was allocated."""

    def clone(self) -> "Prepared":
        """Return a copy for a what-if, which is not bound to the recorded allocation (as in Koordinator)."""
        return Prepared(
            replace(self.requests, designated_functions={}),
            self.reservation_required,
            None,
            dict(self.preemptible),
            {node_name: dict(held) for node_name, held in self.preemptible_in.items()},
            self.result,
        )

    def preemptible_of(self, node_name: str, reservation_uid: str) -> NodeAmounts:
        """Return what removed pods held of a reservation on a node."""
        return self.preemptible_in.get(node_name, {}).get(reservation_uid, NONE)


PREPARED: StateKey[Prepared] = StateKey("DeviceShare")
