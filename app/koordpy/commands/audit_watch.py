"""Following a cluster with an audit: what is handed out twice is told as soon as it has lasted."""

import asyncio
import time
from collections.abc import Callable

from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.audit.auditing import audit
from koordpy.audit.auditor import Auditor
from koordpy.audit.finding import Finding
from koordpy.audit.objects import TYPES
from koordpy.audit.persisting import Persisting
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import Forbidden, NotFound
from koordpy.cluster.informers import Informers

TICK = 0.5
"""Seconds between two looks at what has changed."""
_SYNCED_WITHIN = 120.0
_WHOLE_SHARE = 20
"""What is not of one node (quotas) is audited for one part in so many of the time."""


class Watch:
    """Follows a cluster until `stopping` is set, and tells each finding that lasts for `recheck` seconds.

    With `recheck` 0 nodes are audited at every event. A finding that goes and comes back is told again.
    """

    def __init__(self, client: Client, recheck: float, tell: Callable[[Finding], None]) -> None:
        self._client, self._tell = client, tell
        self._at_once = recheck == 0
        self._auditor = Auditor()
        self._of_nodes, self._of_all = Persisting(recheck), Persisting(recheck)
        self._changed = False
        self._synced = False
        self._whole_at = 0.0
        self._whole: list[Finding] = []
        self.told = 0

    async def run(self, stopping: asyncio.Event) -> None:
        """Follow the cluster. Raises ApiError where nodes or pods cannot be listed, and TimeoutError."""
        cluster = Cluster()
        for type_ in TYPES:
            if await self._can_list(type_):
                self._follow(cluster, type_)
        async with Informers(cluster, self._client) as informers:
            await informers.wait_synced(_SYNCED_WITHIN)
            self._synced = True
            while not stopping.is_set():
                self._look()
                try:
                    async with asyncio.timeout(TICK):
                        await stopping.wait()
                except TimeoutError:
                    continue

    async def _can_list(self, type_: type[KubeObject]) -> bool:
        try:
            await self._client.list_page(type_, limit=1)
        except (Forbidden, NotFound):
            if type_ in (Node, Pod):
                raise
            return False
        return True

    def _follow(self, cluster: Cluster, type_: type[KubeObject]) -> None:
        cluster.store(type_, optional=type_ not in (Node, Pod)).subscribe(
            self._put, lambda _, new: self._put(new), self._gone
        )

    def _put(self, obj: KubeObject) -> None:
        self._auditor.apply(obj)
        self._event()

    def _gone(self, obj: KubeObject) -> None:
        self._auditor.remove(obj)
        self._event()

    def _event(self) -> None:
        self._changed = True
        if self._at_once and self._synced:
            self._told(self._of_nodes.of(self._auditor.findings(), time.monotonic()))

    def _look(self) -> None:
        self._told(self._of_nodes.of(self._auditor.findings(), time.monotonic()))
        began = time.monotonic()
        if self._changed and began >= self._whole_at:
            self._changed = False
            found = audit(self._auditor.quota_objects()).findings
            self._whole = [each for each in found if not each.node]
            self._whole_at = began + _WHOLE_SHARE * (time.monotonic() - began)
        self._told(self._of_all.of(self._whole, began))

    def _told(self, findings: list[Finding]) -> None:
        self.told += len(findings)
        for found in findings:
            self._tell(found)
