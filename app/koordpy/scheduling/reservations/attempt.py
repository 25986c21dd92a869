"""One attempt to place one reserve pod."""

from dataclasses import dataclass

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
from koordpy.scheduling.cycle.placement import Placement
from koordpy.scheduling.explain.decisions import Decision
from koordpy.scheduling.framework.framework import Framework
from koordpy.scheduling.interface import QueuedPod
from koordpy.scheduling.interface.cycle_state import CycleState


@dataclass(slots=True)
class Attempt:
    """The state of an attempt."""

    framework: Framework
    item: QueuedPod
    reservation: Reservation
    """The Reservation at the start of the attempt."""
    pod: Pod
    state: CycleState
    decision: Decision
    began: float
    """Monotonic seconds."""
    term: int
    """The fence's term at the start of the attempt."""
    placement: Placement | None = None
    """What has been allocated for it, once a node is found."""
    took: float = 0.0
    """Seconds spent finding a node."""

    @property
    def uid(self) -> str:
        """The Reservation's UID, which is the reserve pod's."""
        return self.pod.metadata.uid

    @property
    def node_name(self) -> str:
        """The node that was found; empty if there is none yet."""
        return "" if self.placement is None else self.placement.node_name

    def roll_back(self) -> None:
        """Roll back what was allocated, if anything."""
        if self.placement is not None:
            self.placement.roll_back()
