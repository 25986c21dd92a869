"""Following a cluster with an audit: what is handed out twice is told as soon as it has lasted."""

import asyncio
import time
from collections.abc import Callable

from koordpy.api.core import Node, Pod
from koordpy.api.meta import KubeObject
from koordpy.api.scheme import DecodeError
from koordpy.audit.auditing import audit
from koordpy.audit.auditor import Auditor
from koordpy.audit.finding import Finding
from koordpy.audit.objects import TYPES
from koordpy.audit.persisting import Persisting
from koordpy.cluster.client import Client
from koordpy.cluster.cluster import Cluster
from koordpy.cluster.errors import ApiError, ConnectionFailed, Forbidden, NotFound
from koordpy.cluster.informers import Informers

from .audit_lists import listed, why_missing

TICK = 0.5
"""Seconds between two looks at what has changed."""
_SYNCED_WITHIN = 120.0
_WHOLE_SHARE = 20
"""What is not of one node (quotas, owners of Reservations) is audited for one part in so many of the time."""

_LIST_SHARE = 4
"""Everything is listed again, to confirm findings, for one part in so many of the time."""


class Watch:
    """Follows a cluster until `stopping` is set, and tells each finding that lasts for `recheck` seconds.

    Watches of several types are not of one moment, and one of them may be far behind the others: so what has
    lasted is told if new lists show it, too. With `recheck` 0 it is told at the event that shows it, which
    may be of no moment. A finding that goes and comes back is told again.
    """

    def __init__(self, client: Client, recheck: float, tell: Callable[[Finding], None]) -> None:
        self._client, self._tell = client, tell
        self._at_once = recheck == 0
        self._missing: dict[str, str] = {}
        self._auditor = Auditor(self._missing)
        self._of_nodes, self._of_all = Persisting(recheck), Persisting(recheck)
        self._changed = False
        self.synced = False
        """Whether everything was listed once."""
        self._whole_at = 0.0
        self._whole: list[Finding] = []
        self._lasting: dict[tuple[str, ...], Finding] = {}
        self._listed_at = 0.0
        self.told = 0

    async def run(self, stopping: asyncio.Event) -> None:
        """Follow the cluster. Raises ApiError where nodes or pods cannot be listed, and TimeoutError."""
        cluster = Cluster()
        for type_ in TYPES:
            if await self._can_list(type_):
                self._follow(cluster, type_)
        async with Informers(cluster, self._client) as informers:
            await informers.wait_synced(_SYNCED_WITHIN)
            self.synced = True
            while not stopping.is_set():
                await self._look()
                try:
                    async with asyncio.timeout(TICK):
                        await stopping.wait()
                except TimeoutError:
                    continue

    async def _can_list(self, type_: type[KubeObject]) -> bool:
        try:
            await self._client.list_page(type_, limit=1)
        except (Forbidden, NotFound) as error:
            if type_ in (Node, Pod):
                raise
            self._missing[type_.__name__] = why_missing(error)
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
        if self._at_once and self.synced:
            self._told(self._of_nodes.of(self._auditor.findings(), time.monotonic()))

    async def _look(self) -> None:
        began = time.monotonic()
        lasting = self._of_nodes.of(self._auditor.findings(), began)
        if self._changed and began >= self._whole_at:
            self._changed = False
            self._whole = self._auditor.findings_of_all()
            self._whole_at = began + _WHOLE_SHARE * (time.monotonic() - began)
        lasting += self._of_all.of(self._whole, began)
        if self._at_once:
            self._told(lasting)
            return
        self._lasting.update((found.identity, found) for found in lasting)
        if self._lasting and began >= self._listed_at:
            started = time.monotonic()
            self._told(await self._confirmed(list(self._lasting.values())))
            self._lasting.clear()
            ended = time.monotonic()
            self._listed_at = ended + _LIST_SHARE * (ended - started)

    async def _confirmed(self, lasting: list[Finding]) -> list[Finding]:
        """Return those findings that new lists show, too; the others are found again if they are there."""
        try:
            now = {found.identity for found in audit(await listed(self._client)).findings}
        except (ApiError, ConnectionFailed, DecodeError):
            now = set()
        for persisting in (self._of_nodes, self._of_all):
            persisting.forget(found.identity for found in lasting if found.identity not in now)
        return [found for found in lasting if found.identity in now]

    def _told(self, findings: list[Finding]) -> None:
        self.told += len(findings)
        for found in findings:
            self._tell(found)
