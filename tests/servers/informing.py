"""An informer on a scripted collection, and what its store told its handlers."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from koordpy.api.core import Pod
from koordpy.cluster.client import Client
from koordpy.cluster.connection import Access, Connection
from koordpy.cluster.informer import Informer
from koordpy.cluster.store import Store
from tests.eventually import PATIENCE

from .collection import Collection


@dataclass
class Following:
    """A running informer and the changes that it caused, as `verb name`."""

    informer: Informer[Pod]
    store: Store[Pod]
    changes: list[str]
    pauses: list[float]

    async def until(self, condition: Callable[[], bool]) -> None:
        """Wait until something is true; the test's time limit is the bound."""
        async with asyncio.timeout(PATIENCE):
            while not condition():
                await asyncio.sleep(0.001)

    async def has(self, *names: str) -> None:
        """Wait until the store holds exactly these."""
        await self.until(lambda: sorted(pod.metadata.name for pod in self.store) == sorted(names))

    async def synced(self) -> None:
        """Wait for the first list."""
        await self.until(lambda: self.store.synced)


@asynccontextmanager
async def following(server: Collection, **options: Any) -> AsyncIterator[Following]:
    """Run an informer of pods on a server; its pauses last no time."""
    store: Store[Pod] = Store(Pod)
    changes: list[str] = []
    pauses: list[float] = []
    store.subscribe(
        on_add=lambda pod: changes.append(f"add {pod.metadata.name}"),
        on_update=lambda _, pod: changes.append(f"update {pod.metadata.name}"),
        on_delete=lambda pod: changes.append(f"delete {pod.metadata.name}"),
    )

    async def sleep(seconds: float) -> None:
        pauses.append(seconds)
        await asyncio.sleep(0.002)

    client = Client(Connection.to(Access(server.url)), sleep=sleep, attempts=1)
    informer = Informer(store, client, sleep=sleep, rng=random.Random(1), **options)
    task = asyncio.create_task(informer.run())
    try:
        yield Following(informer, store, changes, pauses)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await client.close()
