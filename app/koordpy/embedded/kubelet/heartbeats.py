"""Nodes that are alive: their status when they register, heartbeats in it, and their Leases.

Source: Kubernetes, `pkg/kubelet/nodestatus`, `k8s.io/component-helpers/apimachinery/lease`.
"""

import asyncio
import heapq
import logging
import random
from contextlib import suppress
from datetime import datetime
from typing import Any

from koordpy.api.core import Lease, Node
from koordpy.api.meta import format_micro_time, format_time
from koordpy.api.scheme import resource_of
from koordpy.cluster.client import Client, PatchType
from koordpy.cluster.errors import AlreadyExists, ApiError, ConnectionFailed, NotFound
from koordpy.cluster.store import Store
from koordpy.lib.clock import Clock

from . import annotations as says
from .network import Network

log = logging.getLogger(__name__)

Document = dict[str, Any]

NAMESPACE = "kube-node-lease"
LEASE_SECONDS = 40
RENEW_SECONDS = 10.0
STATUS_SECONDS = 300.0
VERSION = "v1.35.3"
_MOST_PER_SECOND = 20.0
"""Renewals of all nodes together: beyond so many nodes per second Leases are renewed less often."""

_HEALTHY = (
    ("MemoryPressure", "False", "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
    ("DiskPressure", "False", "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
    ("PIDPressure", "False", "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
    ("Ready", "True", "KubeletReady", "kubelet is posting ready status"),
)
_LEASE = resource_of(Lease)


def is_alive(node: Node | None) -> bool:
    """Return whether a node has a running kubelet."""
    return node is not None and node.metadata.annotations.get(says.DOWN) != "true"


def _is_ready(node: Node) -> bool:
    return any(item.type == "Ready" and item.status == "True" for item in node.status.conditions)


class Heartbeats:
    """Reports for all nodes that are alive."""

    def __init__(
        self, nodes: Store[Node], client: Client, clock: Clock, network: Network, *, rng: random.Random
    ) -> None:
        self._nodes, self._client, self._clock = nodes, client, clock
        self._network, self._rng = network, rng
        self._due: list[tuple[float, str]] = []
        self._scheduled: set[str] = set()
        self._status_due: dict[str, float] = {}
        self._wake = asyncio.Event()
        self._subscription = nodes.subscribe(self._joined, self._updated, self._left)

    def close(self) -> None:
        """Follow the nodes no longer."""
        self._nodes.unsubscribe(self._subscription)

    async def run(self) -> None:
        """Report until cancelled."""
        while True:
            now = self._clock.monotonic()
            if not self._due or self._due[0][0] > now:
                self._wake.clear()
                try:
                    async with asyncio.timeout(self._due[0][0] - now if self._due else None):
                        await self._wake.wait()
                except TimeoutError:
                    pass
                continue
            _, name = heapq.heappop(self._due)
            node = self._nodes.get("", name)
            if node is None:
                self._scheduled.discard(name)
                self._status_due.pop(name, None)
                continue
            if is_alive(node):
                try:
                    await self._report(node, now)
                except (ApiError, ConnectionFailed) as error:
                    log.warning("heartbeat of node %s: %s", name, error)
            self._schedule(name, self._interval() * self._rng.uniform(0.96, 1.04))

    def _interval(self) -> float:
        return max(RENEW_SECONDS, len(self._scheduled) / _MOST_PER_SECOND)

    def _joined(self, node: Node) -> None:
        name = node.metadata.name
        self._status_due[name] = 0.0
        if name not in self._scheduled:
            self._scheduled.add(name)
            self._schedule(name, 0.0)

    def _updated(self, old: Node, new: Node) -> None:
        """Report at once for a node that has come back to life."""
        if is_alive(new) and not is_alive(old):
            self._status_due[new.metadata.name] = 0.0
            self._schedule(new.metadata.name, 0.0)

    def _left(self, node: Node) -> None:
        self._status_due.pop(node.metadata.name, None)

    def _schedule(self, name: str, seconds: float) -> None:
        heapq.heappush(self._due, (self._clock.monotonic() + seconds, name))
        self._wake.set()

    async def _report(self, node: Node, now: float) -> None:
        name = node.metadata.name
        moment = self._clock.now()
        if now >= self._status_due.get(name, 0.0) or not _is_ready(node):
            status = self._status(node, moment)
            await self._client.patch_status(Node, "", name, {"status": status}, PatchType.STRATEGIC)
            self._status_due[name] = now + STATUS_SECONDS
        spec = {"renewTime": format_micro_time(moment)}
        try:
            await self._client.patch_raw(_LEASE, NAMESPACE, name, {"spec": spec})
        except NotFound:
            await self._create_lease(node, spec)

    async def _create_lease(self, node: Node, spec: Document) -> None:
        name = node.metadata.name
        owner = {"apiVersion": "v1", "kind": "Node", "name": name, "uid": node.metadata.uid}
        document = {
            "apiVersion": _LEASE.api_version,
            "kind": _LEASE.kind,
            "metadata": {"name": name, "namespace": NAMESPACE, "ownerReferences": [owner]},
            "spec": {"holderIdentity": name, "leaseDurationSeconds": LEASE_SECONDS, **spec},
        }
        with suppress(AlreadyExists):
            await self._client.create_raw(_LEASE, NAMESPACE, document)

    def _status(self, node: Node, moment: datetime) -> Document:
        """Return the status that a kubelet writes; amounts stay as they are."""
        now = format_time(moment)
        before = {item.type: item for item in node.status.conditions}
        conditions = []
        for type_, status, reason, message in _HEALTHY:
            old = before.get(type_)
            since = old.last_transition_time if old is not None and old.status == status else None
            conditions.append(
                {
                    "type": type_,
                    "status": status,
                    "reason": reason,
                    "message": message,
                    "lastHeartbeatTime": now,
                    "lastTransitionTime": since or now,
                }
            )
        address = self._network.host(node.metadata.name)
        return {
            "conditions": conditions,
            "addresses": [
                {"type": "InternalIP", "address": address},
                {"type": "Hostname", "address": node.metadata.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": 10250}},
            "nodeInfo": {
                "architecture": "amd64",
                "bootID": node.metadata.uid,
                "containerRuntimeVersion": "containerd://2.1.4",
                "kernelVersion": "6.12.0",
                "kubeProxyVersion": "",
                "kubeletVersion": VERSION,
                "machineID": node.metadata.uid.replace("-", ""),
                "operatingSystem": "linux",
                "osImage": "koordpy stand-in",
                "systemUUID": node.metadata.uid,
            },
        }
