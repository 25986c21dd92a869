"""The points that decide which pod is tried next, and when one that was refused is tried again."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject

from .status import Status

ChangeHelps = Callable[[Any, Any], bool]
"""Whether a change may let a refused pod pass: given the object before (None: it is new) and after (None: it
is gone)."""

Changed = Mapping[type[KubeObject], Collection[str]]
"""The keys (`namespace/name`, or the name) of objects that changed, by kind."""


def any_change(old: KubeObject | None, new: KubeObject | None) -> bool:
    """Take every change for one that may help."""
    return True


@dataclass(frozen=True, slots=True)
class QueuedPod:
    """A pod in a scheduling queue."""

    pod: Pod
    queued_at: float
    """Monotonic seconds at which it was queued last."""
    attempts: int = 0


class QueueSort:
    """Orders the queue; exactly one per profile. Only where koordpy is the scheduler itself: beside
    kube-scheduler the order is kube-scheduler's."""

    def less(self, first: QueuedPod, second: QueuedPod) -> bool:
        """Return whether `first` is scheduled before `second`."""
        raise NotImplementedError


class PreEnqueue:
    """Keeps a pod out of the queue until it may be tried.

    Beside kube-scheduler that is a scheduling gate, which admission sets when the pod is created and koordpy
    removes when the plugin has no objection any more. A gate cannot be set again: from then on filter asks
    the plugin, and a pod that it refuses fits no node.
    """

    pre_enqueue_events: ClassVar[tuple[type[KubeObject], ...]] = ()
    """Kinds, beside pods, whose changes may let a refused pod pass: gated pods are checked again then."""

    def may_refuse(self, pod: Pod) -> bool:
        """Whether the plugin may ever refuse a pod, by the pod and the plugin's arguments alone.

        A pod for which this is false is never given to `pre_enqueue`. Admission uses it to see whether a new
        pod needs the plugin's gate, in a process that may know nothing of the cluster.
        """
        return True

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return Success, or a rejection that keeps the pod out; the first rejection counts."""
        raise NotImplementedError


class EnqueueExtensions:
    """Has pods tried again that the plugin refused, after changes that kube-scheduler does not see.

    kube-scheduler tries a pod again when something changes that it follows. Reservations, NodeMetrics, quotas
    and gangs are not among that: a pod that was refused because of them would wait for minutes. Where koordpy
    schedules by itself, its queue follows everything anyway.
    """

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """Return the kinds whose changes may let refused pods pass, each with a cheap judgement of a change.

        The judgement runs for every change of the kind as long as any pod is refused.
        """
        raise NotImplementedError

    def may_pass(self, pods: Sequence[Pod], changed: Changed) -> list[bool]:
        """Return for each of some refused pods whether it may pass now.

        `changed` has the objects whose changes may help; those of a second or so come together.
        """
        return [True] * len(pods)


class NextPod:
    """Chooses which pod is scheduled next; one per process. Beside kube-scheduler it is not asked."""

    def next_pod(self) -> Pod | None:
        """Return a queued pod to go before all others, or None to leave it to the queue's order."""
        raise NotImplementedError
