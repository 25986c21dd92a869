"""Jobs that did not fit: their other pods are told so without planning the job again for each of them.

A refusal holds until something may have made room. That a pod came or was moved makes none. Nor does it hold
for a pod that was woken since, because a plugin expects it to pass.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from koordpy.api.core import Node, Pod
from koordpy.cluster.nodes import NodeTable
from koordpy.lib.bounded_lru import BoundedLru
from koordpy.scheduling.interface import Job
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.pod_queues import WOKEN
from koordpy.scheduling.interface.status import Status

SECONDS = 30.0
"""After this time a job is planned again even if nothing that is known here has changed: plugins have state
of their own."""

FRESH_SECONDS = 0.5
"""So long a refusal holds in any case: in a busy cluster room appears all the time."""

REFUSED_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class Refusal:
    """What a pod is to be told, and the plugins that are the reason."""

    status: Status
    refused_by: frozenset[str]
    at: float
    """Monotonic seconds."""
    released: int
    woken: str
    """When the pod had been woken last."""


class Refusals:
    """The latest refusals, by the UIDs of the pods that have not been told yet."""

    def __init__(self, handle: Handle) -> None:
        self._clock, self._nodes = handle.clock, handle.nodes
        self._untold: BoundedLru[str, Refusal] = BoundedLru("refused pods of jobs", REFUSED_BYTES)
        self._releases = _Releases(handle.nodes)
        handle.on(Node, self._releases.changed, lambda _, node: self._releases.changed(node))

    @contextmanager
    def ignoring_releases(self) -> Iterator[None]:
        """Do not count what is released within: a plan that is rolled back makes no room for others."""
        before = self._releases.count
        try:
            yield
        finally:
            self._releases.count = before

    def add(self, job: Job, told: Pod, status: Status, refused_by: frozenset[str]) -> None:
        """Keep what the other pods of a job are to be told."""
        now, released = self._clock.monotonic(), self._releases.count
        for pod in job.pods:
            if pod.metadata.uid != told.metadata.uid:
                refusal = Refusal(status, refused_by, now, released, _woken(pod))
                self._untold.put(pod.metadata.uid, refusal, 300)

    def take(self, pod: Pod) -> Refusal | None:
        """Return what a pod is to be told, once; None if its job is to be planned."""
        refusal = self._untold.pop(pod.metadata.uid)
        if refusal is None or refusal.woken != _woken(pod):
            return None
        age = self._clock.monotonic() - refusal.at
        if age < FRESH_SECONDS or (age < SECONDS and refusal.released == self._releases.count):
            return refusal
        return None


def _woken(pod: Pod) -> str:
    return pod.metadata.annotations.get(WOKEN, "")


class _Releases:
    """Counts what may have made room on nodes."""

    def __init__(self, nodes: NodeTable) -> None:
        self.count = 0
        nodes.on_pods(self._placed, self._displaced)

    def changed(self, _: Node) -> None:
        """Count a new or changed node."""
        self.count += 1

    def _placed(self, row: int, pod: Pod) -> None:
        pass

    def _displaced(self, row: int, pod: Pod) -> None:
        self.count += 1
