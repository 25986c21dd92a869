"""A copy of a cluster view, for hypothetical work that wants stores and derived states of its own.

The copy shares the objects, which nobody changes, and nothing else. Types that the live view does not follow
are listed once.
"""

import asyncio
from typing import Any

from .client import Client
from .cluster import Cluster
from .errors import NotFound
from .store import Store

_AT_ONCE = 2000
"""Objects that are copied before control returns to the event loop."""


async def fill(copy: Cluster, live: Cluster, client: Client | None) -> list[str]:
    """Fill all stores that `copy` was asked for from those of `live`; return the kinds that are missing.

    A type that `live` does not have is listed by `client`; without one, or if the API server does not serve
    the type, it stays empty; optional types are not missed. Raises ApiError, ConnectionFailed.
    """
    known = {store.type: store for store in live.stores}
    missing: list[str] = []
    for store in list(copy.stores):
        source = known.get(store.type)
        if source is not None and (source.synced or source.is_followed):
            await _put(store, list(source))
            continue
        if client is None:
            missing.append(store.type.__name__)
            continue
        try:
            listed = await client.list_all(store.type)
        except NotFound:
            if not store.optional:
                missing.append(store.type.__name__)
            continue
        await _put(store, [live.transformed(each) for each in listed])
    return missing


async def _put(store: Store[Any], objects: list[Any]) -> None:
    for start in range(0, len(objects), _AT_ONCE):
        for each in objects[start : start + _AT_ONCE]:
            store.put(each)
        await asyncio.sleep(0)
    store.synced = True
