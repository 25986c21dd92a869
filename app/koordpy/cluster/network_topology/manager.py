"""Keeps the network tree current; the leading process writes it to the status.

Source: Koordinator, `pkg/scheduler/frameworkext/networktopology/tree_manager.go`.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable

import msgspec

from koordpy.api.core import Node
from koordpy.api.network_topology import DEFAULT_NAME, ClusterNetworkTopology
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, ConnectionFailed

from .tree import TopologyError, Tree, build

log = logging.getLogger(__name__)

PERIOD = 10.0
"""The longest age of a tree in seconds."""


class TreeManager:
    """The tree of the ClusterNetworkTopology named `default`, for all plugins of a process.

    Create it before the informers start: it follows the type. Readiness does not wait for the type, which may
    be missing.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: Client | None,
        *,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._topologies = cluster.late_store(ClusterNetworkTopology)
        self._nodes = cluster.store(Node)
        self._client, self._clock, self._sleep = client, cluster.clock, sleep
        self._tree: Tree | None = None
        self._made_at: float | None = None
        self._problem = ""
        self._is_stale = True
        self._topologies.subscribe(self._changed, self._topology_updated, self._changed)
        self._nodes.subscribe(self._changed, self._node_updated, self._changed)

    def snapshot(self) -> Tree | None:
        """Return the tree, at most `PERIOD` seconds old; None if there has been no valid topology yet."""
        if self._made_at is None or self._clock.monotonic() - self._made_at >= PERIOD:
            self._make()
        return self._tree

    async def run(self) -> None:
        """Write the status whenever it differs, until cancelled; only the leading process runs this."""
        while True:
            tree = self._make()
            if tree is not None:
                await self._write(tree)
            await self._sleep(PERIOD)

    def _changed(self, _: object) -> None:
        self._is_stale = True

    def _topology_updated(self, old: ClusterNetworkTopology, new: ClusterNetworkTopology) -> None:
        if old.spec != new.spec:
            self._is_stale = True

    def _node_updated(self, old: Node, new: Node) -> None:
        if old.metadata.labels != new.metadata.labels:
            self._is_stale = True

    def _make(self) -> Tree | None:
        """Rebuild the tree if something has changed.

        Without a usable topology this returns None and the previous tree stays.
        """
        self._made_at = self._clock.monotonic()
        topology = self._topologies.get("", DEFAULT_NAME)
        if topology is None:
            return None
        if not self._is_stale:
            return None if self._problem else self._tree
        self._is_stale = False
        try:
            self._tree = build(topology, sorted(self._nodes, key=lambda node: node.metadata.name))
        except TopologyError as error:
            if str(error) != self._problem:
                log.error("ClusterNetworkTopology %s: %s", DEFAULT_NAME, error)
            self._problem = str(error)
            return None
        self._problem = ""
        return self._tree

    async def _write(self, tree: Tree) -> None:
        topology = self._topologies.get("", DEFAULT_NAME)
        details = tree.status()
        if self._client is None or topology is None or topology.status.detail_status == details:
            return
        patch = {"status": {"detailStatus": msgspec.to_builtins(details)}}
        try:
            await self._client.patch_status(ClusterNetworkTopology, "", DEFAULT_NAME, patch)
        except (ApiError, ConnectionFailed) as error:
            log.error("status of ClusterNetworkTopology %s: %s", DEFAULT_NAME, error)
