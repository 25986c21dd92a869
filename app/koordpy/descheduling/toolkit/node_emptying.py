"""Evictions from some nodes for as long as others have room, for High- and LowNodeUtilization.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/nodeutilization` (`evictPodsFromSourceNodes`).
"""

from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass

from koordpy.api.core import Pod

from .node_utilization import Destinations, Source
from .pace import Pace


@dataclass(frozen=True)
class Eviction:
    """What a plugin's evictions have in common."""

    may_leave: Callable[[Pod], bool]
    """Whether a pod can be chosen at all."""
    may_be_evicted: Callable[[Pod], bool]
    """Whether a chosen pod may be evicted."""
    evict: Callable[[Pod, Source], Awaitable[bool]]
    skipped: Callable[[Sequence[Pod], str], None]
    """Records why pods are not evicted."""
    pace: Pace
    most_per_node: int | None = None


async def empty(sources: Iterable[Source], destinations: Destinations, eviction: Eviction) -> None:
    """Evict the pods of each node in turn until it is done or no room is left.

    A pod that cannot go anywhere, may not be evicted or is not, is skipped.
    """
    for source in sources:
        await eviction.pace.keep()
        if source.is_done or not destinations.have_room:
            continue
        count = 0
        pods = source.removable(eviction.may_leave)
        for index, pod in enumerate(pods):
            if eviction.most_per_node is not None and count >= eviction.most_per_node:
                eviction.skipped(pods[index:], f"evictionLimits.node is {eviction.most_per_node}")
                break
            if not destinations.tolerated_by(pod):
                eviction.skipped((pod,), "it does not tolerate the taints of any node with room")
                continue
            if not eviction.may_be_evicted(pod):
                eviction.skipped((pod,), "its namespace is not one of evictableNamespaces")
                continue
            if not await eviction.evict(pod, source):
                continue
            count += 1
            source.moved(pod, destinations)
            if source.is_done or not destinations.have_room:
                reason = "other pods were enough" if source.is_done else "no room is left on other nodes"
                eviction.skipped(pods[index + 1 :], reason)
                break
