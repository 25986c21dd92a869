"""ScaleDownBinPack: let pods that leave empty whole nodes.

The pods of the selected workloads are ranked so that the nodes with the least other work are emptied first.
CalculateOnly writes the rank to each pod as its deletion cost, so that ReplicaSets that scale down delete
pods in this order; EvictDirectly evicts the first ones. Source: Koordinator,
`pkg/descheduler/framework/plugins/scaledownbinpack`.
"""

import asyncio
import logging
from collections.abc import Iterable, Sequence

from koordpy.api import label_selector
from koordpy.api.core import Node, Pod
from koordpy.api.needs import Needs, Right
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.descheduling.interface import SUCCESS, BalancePlugin, EvictOptions, Handle, Status
from koordpy.descheduling.toolkit import nodes as node_selection
from koordpy.descheduling.toolkit import pods as pod_filters
from koordpy.descheduling.toolkit.pace import Pace
from koordpy.descheduling.toolkit.pod_sorter import ANNOTATION_POD_DELETION_COST

from .args import ScaleDownBinPackArgs
from .ranking import NodeRank, Occupancy, rank, ranked

log = logging.getLogger(__name__)

REASON = "scale-down binpack"
HIGHEST_COST = (1 << 31) - 1
"""The deletion cost of target pods that may not be evicted."""


class ScaleDownBinPack(BalancePlugin):
    """Rank pods for scaling down."""

    name = "ScaleDownBinPack"
    needs = Needs(rights=(Right("patch", "pods"),))
    args: ScaleDownBinPackArgs

    def __init__(self, args: ScaleDownBinPackArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._pods = handle.pods
        self._is_eligible = pod_filters.evictable(
            args.evictable_namespaces, handle.evictor.filter, args.pod_selectors
        )
        selectors = [entry.selector for entry in args.pod_selectors]
        self._targets = (
            None  # an entry without a selector selects all pods
            if not selectors or None in selectors
            else [label_selector.of(selector) for selector in selectors]
        )
        self.ranking: list[NodeRank] = []
        """The result of the last cycle that had pods to rank: nodes as they are emptied."""

    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Rank the pods, then write their deletion costs or evict the first ones."""
        if self.args.paused:
            log.info("ScaleDownBinPack is paused")
            return SUCCESS
        occupancies = []
        for node in node_selection.matching(nodes, self.args.node_selector):
            await asyncio.sleep(0)  # a big cluster takes seconds: yield, so that Leases are renewed meanwhile
            occupancy = self._occupancy(node, self._pods.active_on(node.metadata.name))
            if occupancy.eligible:
                occupancies.append(occupancy)
        if not occupancies:
            return SUCCESS
        self.ranking = await ranked(occupancies, self.args.resource_weights, Pace(self.handle.clock))
        pods = [pod for node in self.ranking for pod in node.pods]
        log.debug("ScaleDownBinPack: %s pods on %s nodes are ranked", len(pods), len(occupancies))
        if self.handle.dry_run:
            self.handle.evictor.skipped(pods, "it is only ranked in a dry run")
            return SUCCESS
        if self.args.evicts:
            await self._evict(pods)
            return SUCCESS
        return await self._write_costs(pods, [pod for item in occupancies for pod in item.skipped])

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node that would be emptied before the one that the pod leaves."""
        if self.args.paused or not self.args.evicts or not self._is_eligible(pod):
            return None
        if not node_selection.matching([node], self.args.node_selector):
            return None
        left = next((item for item in self.ranking if item.node.metadata.name == pod.spec.node_name), None)
        there = rank(self._occupancy(node, [*pods, pod]), self.args.resource_weights)
        if left is None or there.key > left.key:
            return None
        return f"it would be emptied before node {pod.spec.node_name}"

    def _occupancy(self, node: Node, pods: Iterable[Pod]) -> Occupancy:
        eligible: list[Pod] = []
        skipped: list[Pod] = []
        others: list[Pod] = []
        for pod in pods:
            if self._is_eligible(pod):
                eligible.append(pod)
            elif self._is_target(pod):
                skipped.append(pod)
            else:
                others.append(pod)
        return Occupancy(node, eligible, skipped, others)

    def _is_target(self, pod: Pod) -> bool:
        """Whether the selectors match, regardless of namespaces and filters."""
        return self._targets is None or any(
            selector.matches(pod.metadata.labels) for selector in self._targets
        )

    async def _evict(self, pods: Sequence[Pod]) -> None:
        """Evict in order up to `maxPodsToEvict`; those that are refused do not count."""
        left = self.args.max_pods_to_evict
        for position, pod in enumerate(pods):
            if left is not None and left <= 0:
                limit = f"maxPodsToEvict={self.args.max_pods_to_evict} is reached"
                self.handle.evictor.skipped(pods[position:], limit)
                return
            if await self.handle.evictor.evict(pod, EvictOptions(reason=REASON)) and left is not None:
                left -= 1

    async def _write_costs(self, pods: Sequence[Pod], skipped: Sequence[Pod]) -> Status:
        """Write each pod's rank as its deletion cost; pods that may not be evicted are deleted last."""
        failed = 0
        costs = [*enumerate(pods), *((HIGHEST_COST, pod) for pod in skipped)]
        for cost, pod in costs:
            failed += not await self._write_cost(pod, cost)
        return Status(f"failed to patch {failed} pods") if failed else SUCCESS

    async def _write_cost(self, pod: Pod, cost: int) -> bool:
        client = self.handle.client
        if client is None:
            return True
        annotations = {ANNOTATION_POD_DELETION_COST: str(cost)}
        patch = {"metadata": {"annotations": annotations}}
        try:
            await client.patch(Pod, pod.metadata.namespace, pod.metadata.name, patch)
        except (ApiError, ConnectionFailed) as error:
            log.error("ScaleDownBinPack: pod %s: cannot write its deletion cost: %s", pod.metadata.key, error)
            return False
        return True
