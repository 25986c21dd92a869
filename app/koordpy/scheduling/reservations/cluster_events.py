"""Cluster events that may make an unschedulable reserve pod schedulable."""

import asyncio
from collections.abc import Callable
from types import TracebackType
from typing import Any

from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.reservation import Reservation
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.store import Store, Subscription
from koordpy.scheduling.cycle.node_changes import affects_scheduling
from koordpy.scheduling.cycle.queue import SchedulingQueue

GATHERED_SECONDS = 5.0
"""How long frequent changes, such as those of metrics, are batched."""


class ClusterEvents:
    """Follows nodes, pods and all other types that plugins follow, as a context manager.

    It moves unschedulable pods of a queue back, and calls `on_change` after that if there were any.
    """

    def __init__(self, cluster: Cluster, queue: SchedulingQueue, on_change: Callable[[], None]) -> None:
        self._cluster, self._queue, self._on_change = cluster, queue, on_change
        self._following: list[tuple[Store[Any], Subscription[Any]]] = []
        self._gathering: asyncio.TimerHandle | None = None

    def __enter__(self) -> "ClusterEvents":
        for store in self._cluster.stores:
            if store.type is Node:
                self._follow(store, self._changed, self._node_updated, self._changed)
            elif store.type is Pod:
                self._follow(store, self._pod_added, self._pod_updated, self._pod_deleted)
            elif store.type is not Reservation:
                self._follow(store, self._gather, lambda _, new: self._gather(new), self._gather)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for store, subscription in self._following:
            store.unsubscribe(subscription)
        self._following.clear()
        if self._gathering is not None:
            self._gathering.cancel()

    def _follow(
        self,
        store: Store[Any],
        add: Callable[[Any], None],
        update: Callable[[Any, Any], None],
        delete: Callable[[Any], None],
    ) -> None:
        self._following.append((store, store.subscribe(add, update, delete, replay=False)))

    def _changed(self, _: KubeObject | None = None) -> None:
        if self._queue.move_all():
            self._on_change()

    def _gather(self, _: KubeObject) -> None:
        if self._gathering is None:
            self._gathering = asyncio.get_running_loop().call_later(GATHERED_SECONDS, self._gathered)

    def _gathered(self) -> None:
        self._gathering = None
        self._changed()

    def _node_updated(self, old: Node, new: Node) -> None:
        if affects_scheduling(old, new):
            self._changed()

    def _pod_added(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._placed()

    def _pod_updated(self, old: Pod, new: Pod) -> None:
        if not new.spec.node_name:
            return
        if not old.spec.node_name:
            self._placed()
        elif (
            new.is_terminal != old.is_terminal
            or old.spec != new.spec
            or old.metadata.labels != new.metadata.labels
        ):
            self._changed()

    def _pod_deleted(self, pod: Pod) -> None:
        if pod.spec.node_name:
            self._changed()

    def _placed(self) -> None:
        if self._queue.placed():
            self._on_change()
