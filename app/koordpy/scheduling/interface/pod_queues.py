"""The operations of plugins on the queues in which pods wait for their next attempt.

Koordinator's plugins reach the scheduling queue through its adapter (`pkg/scheduler/frameworkext/
scheduler_adapter.go`); they activate pods, and move rejected ones back after an event. Only the owner of a
queue adds and removes pods.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Protocol

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject

WOKEN: Final = "koordpy.dev/woken-at"
"""The annotation of a pod that kube-scheduler has refused: when koordpy last requested another attempt."""


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A change that may let rejected pods pass.

    An object of a kind before (None if it is new) and after (None if it is gone). Raises ValueError without
    both.
    """

    kind: type[KubeObject]
    old: KubeObject | None = None
    new: KubeObject | None = None

    def __post_init__(self) -> None:
        for each in (self.old, self.new):
            if each is not None and not isinstance(each, self.kind):
                raise ValueError(
                    f"an event of {self.kind.__name__}: got {type(each).__name__}, "
                    f"expected {self.kind.__name__} before and after"
                )
        if self.old is None and self.new is None:
            raise ValueError(f"an event of {self.kind.__name__}: expected the object before, after, or both")

    @property
    def gone_pod(self) -> str:
        """The UID of a pod that is gone, or gave back what it had; else empty."""
        return self.old.metadata.uid if self.kind is Pod and self.old and self.new is None else ""


class PodQueue(Protocol):
    """A queue of pending pods."""

    def activate(self, pod: Pod) -> None:
        """Retry a pod soon, regardless of what it waits for; a pod that does not wait here is ignored."""
        ...

    def move_all(self, event: ClusterEvent) -> None:
        """Move the pods back that an event may help."""
        ...


class PodQueues:
    """All queues in which pods of a profile may wait.

    What the methods can do depends on the scheduler. In the embedded scheduler, and for Reservations, the
    queue is koordpy's own. Beside kube-scheduler it is kube-scheduler's, which cannot be accessed from
    outside: if a plugin of the process is an `EnqueueExtensions`, a pod is annotated so that kube-scheduler
    retries it, within seconds and a limited number of pods at a time; a pod with the gate of a PreEnqueue
    plugin is checked again. Only the process that holds the Lease does so.
    """

    def __init__(self) -> None:
        self._queues: list[PodQueue] = []

    def __bool__(self) -> bool:
        return bool(self._queues)

    def join(self, queue: PodQueue) -> None:
        """Add a queue."""
        self._queues.append(queue)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Request another attempt for waiting pods, now.

        A pod that is bound, gone, or gated by then is ignored.
        """
        for pod in pods:
            for queue in self._queues:
                queue.activate(pod)

    def move_all(self, event: ClusterEvent) -> None:
        """Retry rejected pods as if the event had just come from the API server.

        Use it for changes that are known before they show in the objects that plugins follow, or do not show
        there. Beside kube-scheduler only pods of plugins that registered the kind
        (`EnqueueExtensions.events_to_register`) are retried, if the plugin considers that the event may help.
        """
        for queue in self._queues:
            queue.move_all(event)
