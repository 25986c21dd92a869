"""Pods that cannot stay: on nodes with a taint that they do not tolerate (for longer), or that are gone.

Source: Kubernetes, `pkg/controller/tainteviction`, `pkg/controller/podgc`.
"""

from contextlib import suppress
from typing import Any

from koordpy.api import taints
from koordpy.api.core import Node, Pod
from koordpy.api.meta import parse_time
from koordpy.cluster.client import PatchType
from koordpy.cluster.errors import NotFound
from koordpy.cluster.events import NORMAL

from .controller import Context, Controller
from .node_lifecycle import node_of

Document = dict[str, Any]

QUARANTINE = 40.0
"""Seconds after which the pods of a node that is gone are deleted."""


class PodEvictionController(Controller):
    """Deletes pods by the NoExecute taints of their nodes, and the pods of nodes that are gone."""

    name = "taint-eviction-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = context.cluster.store(Node)
        self._pods = context.cluster.store(Pod)
        self._on_node = self._pods.index(node_of)
        self._gone: dict[str, float] = {}
        """When nodes were found to be gone that still have pods."""
        self._pods.subscribe(self._bound, self._updated, None)
        self._nodes.subscribe(self._node_changed, self._node_updated, self._node_changed)

    def _bound(self, pod: Pod) -> None:
        node = self._nodes.get("", pod.spec.node_name)
        if pod.spec.node_name and (node is None or node.spec.taints):
            self.queue.add(pod.metadata.key)

    def _updated(self, old: Pod, new: Pod) -> None:
        if old.spec.node_name != new.spec.node_name or old.spec.tolerations != new.spec.tolerations:
            self._bound(new)

    def _node_updated(self, old: Node, new: Node) -> None:
        if old.spec.taints != new.spec.taints:
            self._node_changed(new)

    def _node_changed(self, node: Node) -> None:
        name = node.metadata.name
        self._gone.pop(name, None)
        for pod in self._on_node.get(name):
            self.queue.add(pod.metadata.key)

    async def reconcile(self, key: str) -> float | None:
        """Delete a pod if it may not stay; return the seconds for which it may."""
        pod = self._pods.by_key(key)
        if pod is None or not pod.spec.node_name:
            return None
        name = pod.spec.node_name
        node = self._nodes.get("", name)
        if node is None:
            since = self._gone.setdefault(name, self._clock.monotonic())
            left = QUARANTINE - (self._clock.monotonic() - since)
            if left > 0:
                return left
            await self._delete(pod, "DeletionByPodGC", "PodGC: node no longer exists", grace=0)
            if len(self._on_node.get(name)) <= 1:
                self._gone.pop(name, None)
            return None
        if pod.is_terminal or pod.metadata.deletion_timestamp is not None:
            return None
        remaining = self._stays(pod, node)
        if remaining is None or remaining > 0:
            return remaining
        told = f"Marking for deletion Pod {key}"
        self._events.event(pod, NORMAL, "TaintManagerEviction", told)
        await self._delete(pod, "DeletionByTaintManager", "Taint manager: deleting due to NoExecute taint")
        return None

    def _stays(self, pod: Pod, node: Node) -> float | None:
        """Return the seconds for which a pod tolerates its node's NoExecute taints; None: for ever."""
        now, shortest = self._clock.now(), None
        for taint in node.spec.taints:
            if taint.effect != taints.NO_EXECUTE:
                continue
            matching = [item for item in pod.spec.tolerations if taints.tolerates(item, taint)]
            if not matching:
                return 0.0
            limits = [item.toleration_seconds for item in matching if item.toleration_seconds is not None]
            if not limits:
                continue
            passed = (now - parse_time(taint.time_added)).total_seconds() if taint.time_added else 0.0
            left = max(min(limits) - passed, 0.0)
            shortest = left if shortest is None else min(shortest, left)
        return shortest

    async def _delete(self, pod: Pod, reason: str, told: str, *, grace: int | None = None) -> None:
        meta = pod.metadata
        condition = {
            "type": "DisruptionTarget",
            "status": "True",
            "reason": reason,
            "message": told,
            "lastTransitionTime": self._now(),
        }
        patch: Document = {"metadata": {"uid": meta.uid}, "status": {"conditions": [condition]}}
        if grace == 0 and not pod.is_terminal:
            patch["status"]["phase"] = "Failed"
        with suppress(NotFound):
            await self._client.patch_status(Pod, meta.namespace, meta.name, patch, PatchType.STRATEGIC)
            await self._client.delete(
                Pod, meta.namespace, meta.name, uid=meta.uid, grace_period_seconds=grace
            )
