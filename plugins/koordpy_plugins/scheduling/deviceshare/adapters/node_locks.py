"""Locks on nodes whose device plugin cannot tell two pods from each other.

The lock is an annotation of the Node, with the time and the pod: the device plugin removes it when it has
handed out the pod's devices. Source: Koordinator,
`pkg/scheduler/plugins/deviceshare/device_plugin_adapter.go`.
"""

import asyncio
from datetime import UTC, datetime, timedelta
from typing import Any, Final
from weakref import WeakValueDictionary

from koordpy.api.core import Node, Pod
from koordpy.api.meta import ObjectMeta, parse_time
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.derived_state import DerivedState, Snapshot
from koordpy.cluster.errors import ApiError, ConnectionFailed, NotFound

from .vendors import AdaptionError

EXPIRES_AFTER: Final = timedelta(minutes=5)
"""A lock that is older was left behind: device plugins take seconds."""


class NodeWriteError(AdaptionError):
    """A lock could not be written."""


class NodeLocks(DerivedState):
    """Sets locks, one at a time on a node. Nothing of it is kept: the locks are on the nodes."""

    one_per_cluster = True

    def __init__(self, cluster: Cluster) -> None:
        super().__init__(cluster)
        self._pods = self.follow(Pod)
        self._alone: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    def snapshot(self) -> Snapshot:
        """Return nothing: what is going on in this process is in no object."""
        return {}

    async def lock(self, client: Client, node_name: str, key: str, owner: ObjectMeta, now: datetime) -> None:
        """Lock a node for an object: a pod or a Reservation. Raises AdaptionError, NodeWriteError."""
        alone = self._alone.setdefault(node_name, asyncio.Lock())  # kept as long as anyone waits for it
        async with alone:
            try:
                node = await client.get(Node, "", node_name)
            except (ApiError, ConnectionFailed, NotFound) as error:
                raise AdaptionError(f'failed to get node "{node_name}": {error}') from None
            self.check(node, key, now)
            value = f"{now.astimezone(UTC):%Y-%m-%dT%H:%M:%SZ},{owner.namespace},{owner.name}"
            meta: dict[str, Any] = {"annotations": {key: value}}
            if node.metadata.resource_version:
                # Another process may set a lock between the read and the write.
                meta["resourceVersion"] = node.metadata.resource_version
            try:
                await client.patch(Node, "", node_name, {"metadata": meta})
            except (ApiError, ConnectionFailed) as error:
                raise NodeWriteError(f'failed to patch node "{node_name}": {error}') from None

    def check(self, node: Node, key: str, now: datetime) -> None:
        """Raise AdaptionError if a pod that exists has locked the node a short time ago."""
        value = node.metadata.annotations.get(key)
        if value is None:
            return
        parts = value.split(",")
        if len(parts) != 3:
            raise AdaptionError(f'failed to lock node: invalid node lock value "{value}"')
        locked = _time(parts[0])
        if now - locked <= EXPIRES_AFTER and self._pods.get(parts[1], parts[2]) is not None:
            raise AdaptionError(f'failed to lock node: node "{node.metadata.name}" has been locked')


def _time(text: str) -> datetime:
    """Read an RFC 3339 time. Raises AdaptionError."""
    try:
        return parse_time(text)
    except ValueError as error:
        raise AdaptionError(f"failed to lock node: {error}") from None
