"""Nodes whose kubelets fall silent: their conditions become Unknown, and taints keep and drive pods away.

Cordoned nodes get their taint here too. Source: Kubernetes, `pkg/controller/nodelifecycle`.
"""

from collections.abc import Iterable
from contextlib import suppress
from typing import Any

from koordpy.api.core import Lease, Node, Pod
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import PatchType
from koordpy.cluster.errors import NotFound
from koordpy.cluster.events import NORMAL
from koordpy.cluster.selector import Selector

from .controller import Context, Controller
from .pod_control import in_batches

Document = dict[str, Any]

GRACE = 40.0
"""Seconds without a heartbeat after which a node is Unknown."""
_CONDITIONS = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
_NOT_READY, _UNREACHABLE = "node.kubernetes.io/not-ready", "node.kubernetes.io/unreachable"
_UNSCHEDULABLE = "node.kubernetes.io/unschedulable"
_PRESSURES = {
    "MemoryPressure": "node.kubernetes.io/memory-pressure",
    "DiskPressure": "node.kubernetes.io/disk-pressure",
    "PIDPressure": "node.kubernetes.io/pid-pressure",
}
_MANAGED = frozenset((_NOT_READY, _UNREACHABLE, _UNSCHEDULABLE, *_PRESSURES.values()))
_LEASES = "kube-node-lease"
_NODE = resource_of(Node)


def node_of(pod: Pod) -> Iterable[str]:
    """Index: the node of a pod."""
    return (pod.spec.node_name,) if pod.spec.node_name else ()


class NodeLifecycleController(Controller):
    """Marks silent nodes, and taints nodes by their conditions."""

    name = "node-controller"

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._nodes = context.cluster.store(Node)
        self._pods = context.cluster.store(Pod)
        self._on_node = self._pods.index(node_of)
        leases = context.cluster.store(Lease, selector=Selector(namespace=_LEASES))
        self._seen: dict[str, float] = {}
        """When the last heartbeat of each node was seen."""
        self._nodes.subscribe(self._joined, self._updated, self._left)
        leases.subscribe(self._renewed, lambda _, lease: self._renewed(lease), None)

    def _joined(self, node: Node) -> None:
        self._seen[node.metadata.name] = self._clock.monotonic()
        self.queue.add(node.metadata.name)

    def _updated(self, old: Node, new: Node) -> None:
        before, after = _states(old).get("Ready"), _states(new).get("Ready")
        if before != after != "Unknown":  # only its kubelet says so
            self._seen[new.metadata.name] = self._clock.monotonic()
        if (old.spec, _states(old)) != (new.spec, _states(new)):
            self.queue.add(new.metadata.name)

    def _left(self, node: Node) -> None:
        self._seen.pop(node.metadata.name, None)

    def _renewed(self, lease: Lease) -> None:
        name = lease.metadata.name
        if lease.metadata.namespace == _LEASES and name in self._seen:
            self._seen[name] = self._clock.monotonic()

    async def reconcile(self, key: str) -> float | None:
        """Bring conditions and taints of a node up to date; return when it may next be found silent."""
        node = self._nodes.get("", key)
        seen = self._seen.get(key)
        if node is None or seen is None:
            return None
        left = GRACE - (self._clock.monotonic() - seen)
        states = _states(node)
        if left <= 0 and states.get("Ready") != "Unknown":
            await self._mark_unknown(node)
            return 0.05
        await self._taint(node, states)
        if left <= 0:
            return GRACE / 4
        return left

    async def _mark_unknown(self, node: Node) -> None:
        now = self._now()
        conditions = [
            {
                "type": type_,
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": now,
            }
            for type_ in _CONDITIONS
        ]
        name = node.metadata.name
        await self._client.patch_status(
            Node, "", name, {"status": {"conditions": conditions}}, PatchType.STRATEGIC
        )
        self._events.event(node, NORMAL, "NodeNotReady", f"Node {name} status is now: NodeNotReady")

        async def mark(pod: Pod) -> None:
            status = {"conditions": [{"type": "Ready", "status": "False", "lastTransitionTime": now}]}
            patch = {"metadata": {"uid": pod.metadata.uid}, "status": status}
            with suppress(NotFound):
                await self._client.patch_status(
                    Pod, pod.metadata.namespace, pod.metadata.name, patch, PatchType.STRATEGIC
                )

        await in_batches(self._on_node.get(name), mark)

    async def _taint(self, node: Node, states: dict[str, str]) -> None:
        """Write the taints that follow from the conditions, beside those of others."""
        wanted: set[tuple[str, str]] = set()
        ready = states.get("Ready", "True")  # a node that has not reported yet is new
        if ready != "True":
            key = _NOT_READY if ready == "False" else _UNREACHABLE
            wanted |= {(key, "NoSchedule"), (key, "NoExecute")}
        wanted |= {
            (taint, "NoSchedule") for type_, taint in _PRESSURES.items() if states.get(type_) == "True"
        }
        if node.spec.unschedulable:
            wanted.add((_UNSCHEDULABLE, "NoSchedule"))
        there = {(taint.key, taint.effect) for taint in node.spec.taints if taint.key in _MANAGED}
        if there == wanted:
            return
        current = await self._client.get_raw(_NODE, "", node.metadata.name)
        taints = [
            item
            for item in current["spec"].get("taints") or ()
            if item["key"] not in _MANAGED or (item["key"], item["effect"]) in wanted
        ]
        known = {(item["key"], item["effect"]) for item in taints}
        taints += [
            {"key": key, "effect": effect, "timeAdded": self._now()} for key, effect in sorted(wanted - known)
        ]
        version = current["metadata"]["resourceVersion"]
        patch = {"metadata": {"resourceVersion": version}, "spec": {"taints": taints or None}}
        await self._client.patch_raw(_NODE, "", node.metadata.name, patch)


def _states(node: Node) -> dict[str, str]:
    """Return the status of each condition."""
    return {item.type: item.status for item in node.status.conditions}
