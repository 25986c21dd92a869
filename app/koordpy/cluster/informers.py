"""All informers of a process: every type requested from the cluster is listed and watched."""

import asyncio
import random
from contextlib import suppress
from typing import Any, Self

from koordpy.api.meta import KubeObject
from koordpy.lib import supervise

from .client import PAGE_SIZE, Client
from .cluster import Cluster
from .errors import NotFound
from .informer import SILENCE, Health, Informer
from .sharing import Sharing
from .store import Store

_LOOK_EVERY = 0.02


class Informers:
    """Starts an informer for every store of a cluster, with the selector requested there.

    Also an asynchronous context manager.
    """

    def __init__(
        self,
        cluster: Cluster,
        client: Client,
        *,
        page_size: int = PAGE_SIZE,
        silence: float = SILENCE,
        rng: random.Random | None = None,
    ) -> None:
        self._cluster, self._client = cluster, client
        self._page_size, self._silence, self._rng = page_size, silence, rng
        self._sharing = Sharing()
        self._informers: dict[type[KubeObject], Informer[Any]] = {}
        self._tasks: list[asyncio.Task[None]] = []

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start following every requested type, and late ones as they are requested.

        Other types that are requested later need another start.
        """
        for store in self._cluster.stores:
            if store.type not in self._informers:
                self._follow(store)
        self._cluster.on_late_store(self._follow)

    def _follow(self, store: Store[Any]) -> None:
        store.is_followed = True
        informer = self._informers[store.type] = Informer(
            store,
            self._client,
            selector=store.selector,
            optional=store.optional,
            page_size=self._page_size,
            silence=self._silence,
            sharing=self._sharing,
            rng=self._rng,
        )
        name = f"informer {informer.kind}"
        self._tasks.append(asyncio.create_task(supervise.forever(name, informer.run), name=name))

    async def stop(self) -> None:
        """Stop following; the stores keep their objects."""
        self._cluster.on_late_store(None)
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for informer in self._informers.values():
            informer.store.is_followed = False
        self._informers.clear()

    @property
    def synced(self) -> bool:
        """Whether every type, except late ones, has been listed once, or is optional and absent."""
        stores = [informer.store for informer in self._informers.values()]
        return all(store.synced or store.late for store in stores)

    @property
    def health(self) -> list[Health]:
        """The health of each informer, by kind."""
        return sorted((i.health for i in self._informers.values()), key=lambda health: health.kind)

    async def catch_up(self, *types: type[KubeObject]) -> None:
        """Return once the stores of these types show everything written before the call.

        A type that the server does not serve has nothing to show. Raises ApiError, ConnectionFailed.
        """

        async def catch_up(informer: Informer[Any]) -> None:
            with suppress(NotFound):
                await informer.catch_up()

        await asyncio.gather(*(catch_up(self._informers[type_]) for type_ in types))

    async def wait_synced(self, timeout: float | None = None) -> None:
        """Return when everything is synced.

        Raises TimeoutError naming the types that are not, with their last errors.
        """
        try:
            async with asyncio.timeout(timeout):
                while not self.synced:
                    await asyncio.sleep(_LOOK_EVERY)
        except TimeoutError:
            waiting = "; ".join(
                f"{h.kind} is {h.state}{': ' + h.error if h.error else ''}"
                for h in self.health
                if not h.synced
            )
            raise TimeoutError(f"not synced within {timeout:g} s: {waiting}") from None
