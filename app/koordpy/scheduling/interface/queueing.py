"""The points that decide which pod is tried next."""

from dataclasses import dataclass

from koordpy.api.core import Pod

from .status import Status


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
    """Keeps a pod out of the queue until it may be tried. Beside kube-scheduler: a scheduling gate."""

    def pre_enqueue(self, pod: Pod) -> Status:
        """Return Success, or a rejection that keeps the pod out; the first rejection counts."""
        raise NotImplementedError


class NextPod:
    """Chooses which pod is scheduled next; one per process. Beside kube-scheduler it is not asked."""

    def next_pod(self) -> Pod | None:
        """Return a queued pod to go before all others, or None to leave it to the queue's order."""
        raise NotImplementedError
