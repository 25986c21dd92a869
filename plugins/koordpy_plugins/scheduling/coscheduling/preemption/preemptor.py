"""A job that preempts: the pending members of a gang group, or a single pod."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

from koordpy.api.core import Pod


class Round(Protocol):
    """The attempt of a whole gang group, in which preemption is tried once."""

    preemption_message: str
    """What was tried already in this round; empty if nothing was."""


@dataclass(frozen=True, slots=True)
class WaitingMember:
    """A member that waits in Permit, on the node that it was given."""

    pod: Pod
    node_name: str


@dataclass(frozen=True, slots=True)
class Preemptor:
    """The pods for which others are evicted.

    `key` is the ID of the gang group, or the key of the pod. `trigger` is the pod that found no node; it need
    not be a member. `pending` are the members without a node, `waiting` those that wait in Permit. With
    `is_joint` the members are checked together, whatever the options are.
    """

    key: str
    trigger: Pod
    pending: Sequence[Pod]
    waiting: Sequence[WaitingMember] = ()
    round: Round | None = None
    is_joint: bool = False

    @property
    def size(self) -> int:
        """The number of all members that are not bound."""
        return len(self.pending) + len(self.waiting)

    @classmethod
    def single(cls, pod: Pod) -> "Preemptor":
        """Return the job of a pod that no gang is being scheduled with."""
        return cls(pod.metadata.key, pod, (pod,))

    @classmethod
    def group(
        cls,
        key: str,
        trigger: Pod,
        pending: Sequence[Pod],
        waiting: Sequence[WaitingMember],
        round_: Round,
        *,
        is_joint: bool = False,
    ) -> "Preemptor":
        """Return the job of a gang group; members are tried in the order of their keys."""
        return cls(key, trigger, sorted(pending, key=lambda pod: pod.metadata.key), waiting, round_, is_joint)


@dataclass(slots=True)
class Attempted:
    """A round outside a scheduling context: beside kube-scheduler an attempt of a gang is one call."""

    preemption_message: str = field(default="")
