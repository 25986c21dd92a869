"""Trial scheduling, as the descheduler needs it: where would a pod be scheduled if it were evicted?

Descheduling does not know how pods are scheduled; the process gives it a `TrialScheduler`.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from koordpy.api.core import Node, Pod

MOST_COMPARED: Final = 100
"""Of more equally good nodes only the first are candidates: a plugin is asked about each."""


@dataclass(frozen=True)
class Candidate:
    """A node that a pod would be scheduled to, with the pods that it would have besides that one."""

    node: Node
    pods: Sequence[Pod]


@dataclass(frozen=True)
class Attempt:
    """The result of one scheduling cycle for a pod that is to be evicted.

    `best` are the nodes with the highest score, any of which the scheduler may choose; at most
    `MOST_COMPARED`, but `names` are those of all. They are empty if the pod would find no node, and then
    `reason` says why: which plugins reject how many nodes.
    """

    best: Sequence[Candidate] = ()
    names: frozenset[str] = frozenset()
    reason: str = ""
    feasible: int = 0
    """The number of nodes that the pod could be scheduled to."""


class TrialSession(Protocol):
    """The scheduling of one round: hypothetical, on the current cluster. Nothing is written or reserved."""

    def attempt(self, victim: Pod) -> Attempt:
        """Return where a pod would be scheduled that is evicted now."""
        ...

    def keep(self, victim: Pod, node_name: str) -> None:
        """Show later attempts a victim as gone, and its successor on a node."""
        ...

    def undo(self, victim: Pod) -> None:
        """Undo `keep`: the victim stays. Nothing happens to one that is not kept."""
        ...

    def arrived(self, victim: Pod) -> None:
        """Show later attempts the victim's successor no longer: it is in the cluster now."""
        ...


class TrialScheduler(Protocol):
    """Creates the sessions of a process."""

    def session(self) -> TrialSession:
        """Start a session."""
        ...
