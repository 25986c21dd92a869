"""Nodes that join and leave, and objects that are created and deleted, at their times."""

import asyncio
import heapq
import itertools
import logging
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress

from koordpy.api.core import Node
from koordpy.api.koordinator import NodeMetric
from koordpy.cluster.errors import ApiError, NotFound
from koordpy.embedded.kubelet.koordlets import Koordlets
from koordpy.embedded.kubelet.usage import Usage
from koordpy.lib.clock import Clock

from .journal import Journal
from .plane import ControlPlane
from .planned import Document, Plan, PlannedNode, PlannedObject
from .workloads import Workloads

log = logging.getLogger(__name__)


class Fleet:
    """Executes the plan of nodes and objects; `standing` are further objects that exist from the start."""

    def __init__(
        self,
        plan: Plan,
        plane: ControlPlane,
        clock: Clock,
        journal: Journal,
        usage: Usage,
        workloads: Workloads,
        koordlets: Koordlets,
        standing: Sequence[Document] = (),
    ) -> None:
        self._plane, self._clock, self._journal, self._usage = plane, clock, journal, usage
        self._workloads, self._koordlets = workloads, koordlets
        self._events: list[tuple[float, int, Callable[[], Awaitable[None]]]] = []
        self._numbers = itertools.count()
        for document in standing:
            self._at(0.0, self._creation(PlannedObject(document, 0.0, None)))
        for thing in plan.objects:
            self._at(thing.at, self._creation(thing))
        for node in plan.nodes:
            self._at(node.joins, self._joining(node))

    async def begin(self) -> None:
        """Do everything that is due at the start."""
        await self._until(self._clock.monotonic())

    async def run(self) -> None:
        """Do the rest when it is due."""
        while self._events:
            await asyncio.sleep(max(self._events[0][0] - self._clock.monotonic(), 0.0))
            await self._until(self._clock.monotonic())

    async def _until(self, now: float) -> None:
        while self._events and self._events[0][0] <= now + 1e-6:
            _, _, happen = heapq.heappop(self._events)
            await happen()

    def _at(self, moment: float, happen: Callable[[], Awaitable[None]]) -> None:
        heapq.heappush(self._events, (moment, next(self._numbers), happen))

    def _creation(self, thing: PlannedObject) -> Callable[[], Awaitable[None]]:
        async def create() -> None:
            try:
                await self._plane.objects.create(thing.document)
            except (ApiError, LookupError) as error:
                meta = thing.document.get("metadata") or {}
                told = error.message if isinstance(error, ApiError) else str(error)
                self._journal.problems.append(f"{thing.document.get('kind')} {meta.get('name', '')}: {told}")
                return
            if thing.until is not None:
                self._at(thing.until, delete)

        async def delete() -> None:
            with suppress(NotFound):
                await self._plane.objects.delete(thing.document)

        return create

    def _joining(self, node: PlannedNode) -> Callable[[], Awaitable[None]]:
        async def join() -> None:
            await self._plane.objects.create(node.document)
            self._usage.join(node.name)
            if node.leaves is not None:
                self._at(node.leaves, leave)

        async def leave() -> None:
            for pod in [pod for pod in self._journal.alive.values() if pod.node == node.name]:
                await self._workloads.delete(pod, "node-left")
            for type_ in (NodeMetric, Node):
                with suppress(NotFound):
                    await self._plane.client.delete(type_, "", node.name)
            self._usage.leave(node.name)
            self._koordlets.gone(node.name)

        return join
