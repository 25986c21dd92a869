"""Applies cluster events to the queue of pending pods."""

import asyncio
from collections.abc import Callable

from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.cluster.cluster import Cluster
from koordpy.scheduling.cycle.node_changes import affects_scheduling
from koordpy.scheduling.cycle.queue import SchedulingQueue
from koordpy.scheduling.interface.pod_queues import ClusterEvent
from koordpy.scheduling.interface.waiting_pods import WaitingPods
from koordpy.scheduling.toolkit import workload_selectors


class ClusterEvents:
    """Keeps a queue in sync with the cluster, and sets `wake` when it may have something to do.

    `serves` returns whether a pod belongs to any of the profiles.
    """

    def __init__(
        self,
        cluster: Cluster,
        queue: SchedulingQueue,
        waiting_pods: WaitingPods,
        wake: asyncio.Event,
        serves: Callable[[Pod], bool],
    ) -> None:
        self._cluster, self._queue, self._waiting_pods = cluster, queue, waiting_pods
        self._wake, self._serves = wake, serves

    def follow(self) -> None:
        """Start; known pods are queued."""
        for store in self._cluster.stores:
            if store.type not in (Node, Pod):
                store.subscribe(self._changed, lambda _, new: self._changed(new), self._changed)
        self._cluster.store(Node).subscribe(self._changed, self._node_updated, self._changed)
        self._cluster.store(Pod).subscribe(self._pod_added, self._pod_updated, self._pod_deleted)
        workload_selectors.follow(self._cluster)

    def _changed(self, _: KubeObject) -> None:
        self._queue.move_all()
        self._wake.set()

    def _node_updated(self, old: Node, new: Node) -> None:
        if affects_scheduling(old, new):
            self._changed(new)

    def _pod_added(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._placed()
        elif self._is_ours(pod):
            self._queue.add(pod)
            self._wake.set()

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        uid = new.metadata.uid
        changed = old.spec != new.spec or old.metadata.labels != new.metadata.labels
        if new.spec.node_name:
            self._queue.delete(uid)
            if not old.spec.node_name:
                self._placed()
            elif changed or new.is_terminal != old.is_terminal:
                self._changed(new)
        elif not self._is_ours(new):
            self._queue.delete(uid)
        elif changed or self._queue.pool_of(uid) is None:
            self._queue.add(new)
            self._wake.set()
        elif old.metadata.annotations != new.metadata.annotations:
            self._queue.touch(new)
            self._wake.set()
        else:
            self._queue.update(new)

    def _pod_deleted(self, pod: Pod) -> None:
        self._queue.delete(pod.metadata.uid)
        self._waiting_pods.reject(pod.metadata.uid)
        if pod.spec.node_name:
            self._changed(pod)

    def activate(self, pod: Pod) -> None:
        """Try a pod again at once, as a plugin wishes."""
        self._queue.activate(pod.metadata.uid)
        self._wake.set()

    def move_all(self, event: ClusterEvent) -> None:
        """Give every pod that did not fit another chance, but not the one that gave back what it had."""
        self._queue.move_all(but=event.gone_pod)
        self._wake.set()

    def _placed(self) -> None:
        self._queue.placed()
        self._wake.set()

    def _is_ours(self, pod: Pod) -> bool:
        return self._serves(pod) and not pod.is_terminal and pod.metadata.deletion_timestamp is None
