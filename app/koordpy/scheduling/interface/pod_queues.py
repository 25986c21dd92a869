"""The queues in which pods wait for their next attempt, as far as plugins may act on them.

Koordinator's plugins reach the scheduling queue through its adapter (`pkg/scheduler/frameworkext/
scheduler_adapter.go`); they activate pods, and give refused ones another chance after an event. Adding and
removing pods is the affair of whatever keeps a queue.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject


@dataclass(frozen=True, slots=True)
class ClusterEvent:
    """A change that may let refused pods pass.

    An object of a kind before (None: it is new) and after (None: it is gone). Raises ValueError without both.
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


class PodQueue(Protocol):
    """Pods that wait for something."""

    def activate(self, pod: Pod) -> None:
        """Try a pod again soon, whatever it waits for; a pod that does not wait here is no error."""
        ...

    def move_all(self, event: ClusterEvent) -> None:
        """Give the pods another chance that an event may help."""
        ...


class PodQueues:
    """All queues in which pods of a profile may wait.

    What the methods can do depends on the scheduler. In the embedded scheduler, and for Reservations, the
    queue is koordpy's own. Beside kube-scheduler it is kube-scheduler's, which nothing outside can reach: a
    pod is tried again because an annotation of it changes, where a plugin of the process is an
    `EnqueueExtensions`, within seconds and so many pods at a time; a pod with the gate of a PreEnqueue plugin
    is checked again. Only the process that holds the lease does so.
    """

    def __init__(self) -> None:
        self._queues: list[PodQueue] = []

    def join(self, queue: PodQueue) -> None:
        """Have a queue take part."""
        self._queues.append(queue)

    def activate(self, pods: Iterable[Pod]) -> None:
        """Ask for another attempt for waiting pods, now.

        A pod that is bound, gone, or held back by a gate by then is left alone.
        """
        for pod in pods:
            for queue in self._queues:
                queue.activate(pod)

    def move_all(self, event: ClusterEvent) -> None:
        """Have refused pods tried again as if the event had just come from the API server.

        For changes that show before, or elsewhere than, in the objects that plugins follow. Beside
        kube-scheduler only plugins that registered the kind (`EnqueueExtensions.events_to_register`) have
        their pods tried again, those for which they judge that it may help.
        """
        for queue in self._queues:
            queue.move_all(event)
