"""One try to place one reserve pod."""

from dataclasses import dataclass, field

from koordpy.api.core import Pod
from koordpy.api.reservation import Reservation
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
    node_name: str = ""
    """Where resources were taken for it."""
    took: float = 0.0
    """Seconds that it took to find a node."""
    waits: dict[str, float] = field(default_factory=dict)
    """How many seconds it waits at most for each Permit plugin that said so."""

    @property
    def uid(self) -> str:
        """The Reservation's UID, which is the reserve pod's."""
        return self.pod.metadata.uid
