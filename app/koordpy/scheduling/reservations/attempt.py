"""One try to place one reserve pod."""

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
    """What is known of a try while it lasts."""

    framework: Framework
    item: QueuedPod
    reservation: Reservation
    """As it was when the attempt began."""
    pod: Pod
    state: CycleState
    decision: Decision
    began: float
    """Monotonic seconds."""
    term: int
    """The fence's, when the attempt began."""
    placement: Placement | None = None
    """What has been taken for it, once a node is found."""
    took: float = 0.0
    """Seconds that it took to find a node."""

    @property
    def uid(self) -> str:
        """The Reservation's UID, which is the reserve pod's."""
        return self.pod.metadata.uid

    @property
    def node_name(self) -> str:
        """The node that was found; empty as long as there is none."""
        return "" if self.placement is None else self.placement.node_name

    def give_back(self) -> None:
        """Give back what was taken, if anything was."""
        if self.placement is not None:
            self.placement.give_back()
