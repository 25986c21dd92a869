"""Pods that this process has bound, until the watch has shown them on their nodes.

A pod may be gone before that. Plugins then learn of no event on its node, and are told here to forget it.
"""

from collections import OrderedDict
from dataclasses import dataclass
from typing import Final

from koordpy.api.core import Pod
from koordpy.scheduling.interface.handle import Handle

CONFIRMED_WITHIN: Final = 600.0
"""Seconds after which a watch must have shown a bound pod, if the pod still exists."""


@dataclass(frozen=True, slots=True)
class BoundPod:
    """A pod that was bound, and when: in monotonic seconds, and as the number of pod lists begun by then."""

    at: float
    lists: int
    pod: Pod
    node_name: str
    handle: Handle

    def forget(self) -> None:
        """Release what the pod has: it is gone."""
        self.handle.forget_pod(self.pod, self.node_name)
        self.handle.gave_back(self.pod)


class BoundPods:
    """The pods by their keys, the oldest first."""

    def __init__(self, handle: Handle) -> None:
        self._clock, self._pods = handle.clock, handle.cluster.store(Pod)
        self._bound: OrderedDict[str, BoundPod] = OrderedDict()

    @property
    def uids(self) -> list[str]:
        """The UIDs of the pods."""
        return [bound.pod.metadata.uid for bound in self._bound.values()]

    def get(self, key: str) -> BoundPod | None:
        """Return the pod of that name, if one was bound."""
        return self._bound.get(key)

    def has_other(self, key: str, uid: str) -> bool:
        """Return whether another pod of that name was bound, and no event has shown that it is gone."""
        bound = self._bound.get(key)
        return bound is not None and bound.pod.metadata.uid != uid

    def add(self, pod: Pod, node_name: str, handle: Handle, *, is_gone: bool) -> None:
        """Remember a pod that was just bound, with the handle of its profile; forget one that is gone."""
        bound = BoundPod(self._clock.monotonic(), self._pods.lists_begun, pod, node_name, handle)
        if is_gone:
            bound.forget()
        else:
            self._bound[pod.metadata.key] = bound

    def forget_other(self, key: str, uid: str) -> None:
        """Forget another pod of that name: it is known to be gone."""
        if self.has_other(key, uid):
            self._bound.pop(key).forget()

    def deleted(self, pod: Pod) -> None:
        """Forget a pod if it is gone before the watch has shown it on its node."""
        bound = self._bound.get(pod.metadata.key)
        if bound is not None and bound.pod.metadata.uid == pod.metadata.uid:
            del self._bound[pod.metadata.key]
            if not pod.spec.node_name:
                bound.forget()

    def forget_vanished(self) -> None:
        """Forget pods that were bound and then deleted without a watch event for either.

        A later list without them shows that, or a long time without events.
        """
        if not self._bound:
            return
        latest = self._clock.monotonic() - CONFIRMED_WITHIN
        while self._bound:
            key, bound = next(iter(self._bound.items()))
            if bound.lists >= self._pods.lists_ended and bound.at >= latest:
                return
            del self._bound[key]
            known = self._pods.by_key(key)
            if known is None or known.metadata.uid != bound.pod.metadata.uid:
                bound.forget()
