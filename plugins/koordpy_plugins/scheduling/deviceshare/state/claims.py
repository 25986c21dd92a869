"""Who says that a pod has devices of a node: its Reservation, the pod itself, or an allocation under way."""

from collections.abc import Collection, Iterator
from enum import IntEnum
from typing import Final

from koordpy.api.device_allocations import DeviceAllocations


class Source(IntEnum):
    """Where an allocation is known from; the lowest counts."""

    RESERVATION = 0
    POD = 1
    RESERVED = 2
    """Allocated here, and not yet observed on an object."""


_NOTHING: Final[DeviceAllocations] = {}


class Claims:
    """The allocations of each pod (`namespace/name`) of each node, by source.

    A pod may be named like a reserve pod, so that two objects say different things of one name.
    """

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, dict[Source, DeviceAllocations]]] = {}
        self._reserved: dict[str, str] = {}

    @property
    def reserved(self) -> Collection[str]:
        """The pods whose allocation no object shows yet."""
        return self._reserved.keys()

    def node_of_reserved(self, key: str) -> str | None:
        """Return the node of which devices are allocated to a pod that no object shows on a node."""
        return self._reserved.get(key)

    def set(self, node: str, key: str, source: Source, allocations: DeviceAllocations) -> None:
        """Note what a source says; nothing removes it."""
        pods = self._by_node.setdefault(node, {})
        sources = pods.setdefault(key, {})
        if allocations:
            sources[source] = allocations
        else:
            sources.pop(source, None)
        if source is Source.RESERVED:
            if allocations:
                self._reserved[key] = node
            else:
                self._reserved.pop(key, None)
        if not sources:
            del pods[key]
            if not pods:
                del self._by_node[node]

    def of(self, node: str, key: str) -> DeviceAllocations:
        """Return what a pod has of a node."""
        sources = self._by_node.get(node, {}).get(key)
        return sources[min(sources)] if sources else _NOTHING

    def any_on(self, node: str) -> bool:
        """Return whether a pod has devices of a node."""
        return node in self._by_node

    def __iter__(self) -> Iterator[str]:
        """Yield the nodes of which pods have devices."""
        return iter(self._by_node)
