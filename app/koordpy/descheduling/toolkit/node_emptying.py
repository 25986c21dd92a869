"""Evictions from some nodes for as long as others have room, for High- and LowNodeUtilization.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/nodeutilization` (`evictPodsFromSourceNodes`).
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass

from koordpy.api.core import Pod

from .node_utilization import Destinations, Source


@dataclass(frozen=True)
class Eviction:
    """What a plugin's evictions have in common."""

    may_leave: Callable[[Pod], bool]
    """Whether a pod can be chosen at all."""
    may_be_evicted: Callable[[Pod], bool]
    """Whether a chosen pod may be evicted."""
    evict: Callable[[Pod, Source], Awaitable[bool]]
    most_per_node: int | None = None


async def empty(sources: Iterable[Source], destinations: Destinations, eviction: Eviction) -> None:
    """Evict the pods of each node in turn until it is done or no room is left.

    A pod that cannot go anywhere, may not be evicted or is not, is skipped.
    """
    for source in sources:
        await asyncio.sleep(0)
        if source.is_done or not destinations.have_room:
            continue
        count = 0
        for pod in source.removable(eviction.may_leave):
            if eviction.most_per_node is not None and count >= eviction.most_per_node:
                break
            if not destinations.tolerated_by(pod) or not eviction.may_be_evicted(pod):
                continue
            if not await eviction.evict(pod, source):
                continue
            count += 1
            source.moved(pod, destinations)
            if source.is_done or not destinations.have_room:
                break
