"""The points that decide which pod is tried next, and when a rejected pod is retried."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject

from .status import Status

ChangeHelps = Callable[[Any, Any], bool]
"""Whether a change may let a rejected pod pass: given the object before (None if it is new) and after (None
if it is gone)."""

Changed = Mapping[type[KubeObject], Collection[str]]
"""The keys (`namespace/name`, or the name) of objects that changed, by kind."""


def any_change(old: KubeObject | None, new: KubeObject | None) -> bool:
    """Treat every change as one that may help."""
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
    removes when the plugin no longer rejects the pod. A gate cannot be set again: from then on filter calls
    the plugin, and a pod that it rejects fits no node.
    """

    pre_enqueue_events: ClassVar[tuple[type[KubeObject], ...]] = ()
    """Kinds, besides pods, whose changes may let a rejected pod pass: gated pods are then checked again."""

    def may_refuse(self, pod: Pod) -> bool:
        """Whether the plugin may ever reject a pod, decided by the pod and the plugin's arguments alone.

        A pod for which this is false is never passed to `pre_enqueue`. Admission uses it to decide whether a
        new pod needs the plugin's gate, in a process that may not follow the cluster.
        """
        return True

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return Success, or a rejection that keeps the pod out; the first rejection counts."""
        raise NotImplementedError

    def pre_enqueue_concerned(self, changed: Changed) -> Iterable[str] | None:
        """Return the UIDs of the pods that changes may let pass; None means any pod.

        `changed` has the pods that came, ended or have other labels, annotations or nodes, and the changed
        objects of `pre_enqueue_events`, batched over about a second. A pod that changed is checked again
        anyway.
        """
        return None


class EnqueueExtensions:
    """Makes kube-scheduler retry pods that the plugin rejected, after changes that kube-scheduler does not
    see.

    kube-scheduler retries a pod when an object that it watches changes. It does not watch Reservations,
    NodeMetrics, quotas and gangs: a pod rejected because of them would wait for minutes. Where koordpy itself
    schedules, its queue follows everything anyway.
    """

    known_reasons: ClassVar[tuple[str, ...]] = ()
    """Parts of the plugin's reasons: a pod whose condition PodScheduled has one of them was rejected by the
    plugin, perhaps before this process led. Without them, pods that were rejected earlier wait until they are
    tried again."""

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """Return the kinds whose changes may let rejected pods pass, each with a cheap check of a change.

        The check runs for every change of the kind as long as any pod is rejected.
        """
        raise NotImplementedError

    def may_pass(self, pods: Sequence[Pod], changed: Changed) -> list[bool]:
        """Return, for each of the rejected pods, whether it may pass now.

        `changed` has the objects whose changes may help, batched over about a second.
        """
        return [True] * len(pods)


class NextPod:
    """Chooses which pod is scheduled next; one per process. Not called beside kube-scheduler."""

    def next_pod(self) -> Pod | None:
        """Return a queued pod to schedule before all others, or None for the queue's order."""
        raise NotImplementedError
