"""CustomPriority: move pods from expensive nodes to cheaper ones.

The arguments order the levels of nodes. BestEffort evicts every pod that fits a cheaper node; DrainNode
evicts the pods of a node only if all of them find room on cheaper ones. Source: Koordinator,
`pkg/descheduler/framework/plugins/custompriority`.
"""

import asyncio
import logging
from collections.abc import Sequence

from koordpy.api.core import Node, Pod
from koordpy.api.label_selector import SelectorError
from koordpy.api.needs import Needs, Right
from koordpy.cluster.errors import ApiError, ConnectionFailed
from koordpy.descheduling.interface import SUCCESS, BalancePlugin, EvictOptions, Handle, Status
from koordpy.descheduling.toolkit import nodes as node_selection
from koordpy.descheduling.toolkit import pods as pod_filters
from koordpy.descheduling.toolkit.node_fit import NodeFit

from .args import CustomPriorityArgs
from .drain_plan import Room
from .levels import Level, Levels
from .requests import smallest_first

log = logging.getLogger(__name__)

MISSES = 5
"""After so many pods in a row that fit no cheaper node, the bigger ones of the node are not checked."""


class CustomPriority(BalancePlugin):
    """Balance from expensive to cheap nodes."""

    name = "CustomPriority"
    needs = Needs(rights=(Right("get", "nodes"), Right("patch", "nodes")))  # autoCordon
    args: CustomPriorityArgs

    def __init__(self, args: CustomPriorityArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._pods = handle.pods
        self._fit = NodeFit(handle.pods)
        self._levels = Levels([])
        """The nodes of the last cycle."""
        self._passes_filter = pod_filters.evictable(
            args.evictable_namespaces, handle.evictor.filter, args.pod_selectors
        )

    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Empty every level, most expensive first, towards all cheaper ones."""
        if self.args.paused:
            log.info("CustomPriority is paused")
            return SUCCESS
        try:
            selected = node_selection.matching(nodes, self.args.node_selector)
        except SelectorError as error:
            return Status(str(error))
        self._levels = Levels.of(self.args.eviction_order, selected)
        for level, targets in self._levels.sources:
            if self.args.drains_nodes:
                await self._drain_nodes(level, Room(targets, self._fit, check_fit=self.args.node_fit))
            else:
                await self._evict_fitting(level, targets)
        return SUCCESS

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node whose pods would have to move to a cheaper one again."""
        if self.args.paused or not self._passes_filter(pod):
            return None
        source = self._levels.source(node.metadata.name)
        if source is None:
            return None
        level, targets = source
        if self.args.drains_nodes:
            candidates = smallest_first(filter(self._passes_filter, (*pods, pod)))
            moves = Room(targets, self._fit, check_fit=self.args.node_fit).take(candidates)
        else:
            moves = not self.args.node_fit or self._fit.fits_any(pod, targets)
        return f"its level {level.name} would be emptied towards cheaper nodes again" if moves else None

    async def _evict_fitting(self, level: Level, targets: Sequence[Node]) -> None:
        for node in level.nodes:
            await asyncio.sleep(0)  # a big cluster takes seconds: yield, so that Leases are renewed meanwhile
            for pod in self._fitting(self._candidates(node), targets):
                await self._evict(
                    pod, f"evicting from {level.name} priority resource to lower priority resource"
                )

    def _fitting(self, candidates: Sequence[Pod], targets: Sequence[Node]) -> list[Pod]:
        if not self.args.node_fit:
            return list(candidates)
        fitting: list[Pod] = []
        misses = 0
        for position, pod in enumerate(candidates):
            if self._fit.fits_any(pod, targets):
                fitting.append(pod)
                misses = 0
            else:
                self.handle.evictor.skipped((pod,), "it fits no cheaper node")
                misses += 1
                if misses >= MISSES:
                    rest = candidates[position + 1 :]
                    self.handle.evictor.skipped(rest, f"{MISSES} smaller pods of its node fit no cheaper one")
                    break
        return fitting

    async def _drain_nodes(self, level: Level, room: Room) -> None:
        for node in level.nodes:
            await asyncio.sleep(0)
            candidates = self._candidates(node)
            if not candidates:
                continue
            if not room.take(candidates):
                self.handle.evictor.skipped(
                    candidates, f"not all pods of node {node.metadata.name} find room on cheaper nodes"
                )
                continue
            await self._drain(node, level, candidates)

    async def _drain(self, node: Node, level: Level, pods: Sequence[Pod]) -> None:
        """Evict pods until one is refused; then the node is schedulable again."""
        name = node.metadata.name
        if self.args.auto_cordon:
            await self._set_unschedulable(name, True)
        for position, pod in enumerate(pods):
            if not self._passes_filter(pod):  # the evictions before it may have changed that
                continue
            if not await self._evict(pod, f"drain node {name} (sourcePriority={level.name})"):
                if self.args.auto_cordon:
                    await self._set_unschedulable(name, False)
                rest = pods[position + 1 :]
                self.handle.evictor.skipped(rest, f"node {name} is not drained: {pod.metadata.key} stays")
                return

    def _candidates(self, node: Node) -> list[Pod]:
        """The pods of a node in any phase that pass the filter, smallest first."""
        return smallest_first(filter(self._passes_filter, self._pods.all_on(node.metadata.name)))

    async def _evict(self, pod: Pod, reason: str) -> bool:
        if self.args.dry_run:
            log.info("CustomPriority would evict pod %s in dry run: %s", pod.metadata.key, reason)
            self.handle.evictor.skipped((pod,), f"dryRun is set; it would be evicted: {reason}")
            return True
        return await self.handle.evictor.evict(pod, EvictOptions(reason=reason))

    async def _set_unschedulable(self, name: str, value: bool) -> None:
        """Cordon or uncordon a node, with `dryRun` of the plugin too; an error is only logged."""
        client = self.handle.client
        if client is None or self.handle.dry_run:
            return
        try:
            if (await client.get(Node, "", name)).spec.unschedulable != value:
                await client.patch(Node, "", name, {"spec": {"unschedulable": value}})
        except (ApiError, ConnectionFailed) as error:
            log.error("CustomPriority: cannot set unschedulable=%s of node %s: %s", value, name, error)
