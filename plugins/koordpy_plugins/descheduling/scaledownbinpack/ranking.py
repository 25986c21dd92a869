"""In which order pods leave, so that scaling down empties nodes.

A node comes first if little else would keep it occupied. Source: Koordinator,
`pkg/descheduler/framework/plugins/scaledownbinpack/ranker.go`.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from koordpy.api import quantity, resources
from koordpy.api.core import Node, Pod
from koordpy.api.meta import parse_time
from koordpy.descheduling.toolkit.pace import Pace


@dataclass(frozen=True)
class Occupancy:
    """The pods of a node, without those that ended."""

    node: Node
    eligible: Sequence[Pod]
    """Target pods that may be evicted."""
    skipped: Sequence[Pod]
    """Target pods that may not."""
    others: Sequence[Pod]
    """Pods of other workloads."""


@dataclass(frozen=True)
class NodeRank:
    """One node, with its pods in the order in which they leave."""

    node: Node
    score: float
    """The weighted requests of the pods that stay, per those of the pods that leave.

    Infinite if only pods that stay request anything.
    """
    pods: Sequence[Pod]

    @property
    def key(self) -> tuple[float, int, str]:
        """Nodes are emptied in the order of their keys, lowest first."""
        return self.score, len(self.pods), self.node.metadata.name


async def ranked(
    occupancies: Iterable[Occupancy], weights: Mapping[str, float], pace: Pace
) -> list[NodeRank]:
    """Return the nodes in the order in which they are emptied."""
    ranks = []
    for occupancy in occupancies:
        await pace.keep()
        ranks.append(rank(occupancy, weights))
    return sorted(ranks, key=lambda item: item.key)


def rank(occupancy: Occupancy, weights: Mapping[str, float]) -> NodeRank:
    """Return the rank of one node. Pods leave by size, biggest first, then the newest first."""
    sizes = _Sizes(occupancy.node, weights)
    score = sizes.score((*occupancy.others, *occupancy.skipped), occupancy.eligible)

    def key(pod: Pod) -> tuple[float, float, str, str]:
        created = pod.metadata.creation_timestamp
        age = -parse_time(created).timestamp() if created else float("inf")
        return -sizes.size(pod), age, pod.metadata.namespace, pod.metadata.name

    return NodeRank(occupancy.node, score, sorted(occupancy.eligible, key=key))


class _Sizes:
    """Requests relative to the allocatable resources of one node, weighted."""

    def __init__(self, node: Node, weights: Mapping[str, float]) -> None:
        allocatable = node.status.allocatable
        milli = {name: quantity.milli_value(allocatable.get(name, 0)) for name in sorted(weights)}
        self._weighted = [(name, weights[name], amount) for name, amount in milli.items() if amount > 0]
        """Resource, weight, thousandths."""
        self._requests: dict[int, dict[str, int]] = {}

    def requests(self, pod: Pod) -> dict[str, int]:
        """Return what a pod of the node requests, in thousandths."""
        known = self._requests.get(id(pod))  # the node's pods live as long as this
        if known is None:
            amounts = resources.pod_requests(pod)
            known = {name: amount.milli_value() for name, amount in amounts.items()}
            self._requests[id(pod)] = known
        return known

    def size(self, pod: Pod) -> float:
        requests = self.requests(pod)
        total = 0.0
        for name, weight, allocatable in self._weighted:
            total += weight * (requests.get(name, 0) / allocatable)
        return total

    def score(self, staying: Iterable[Pod], leaving: Iterable[Pod]) -> float:
        stay, leave = self._total(staying), self._total(leaving)
        numerator = denominator = 0.0
        for name, weight, allocatable in self._weighted:
            numerator += weight * (stay.get(name, 0) / allocatable)
            denominator += weight * (leave.get(name, 0) / allocatable)
        if denominator > 0:
            return numerator / denominator
        return float("inf") if numerator > 0 else 0.0

    def _total(self, pods: Iterable[Pod]) -> dict[str, int]:
        total: dict[str, int] = {}
        for pod in pods:
            for name, amount in self.requests(pod).items():
                total[name] = total.get(name, 0) + amount
        return total
