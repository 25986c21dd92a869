"""FragmentationAware: evict the pod whose removal best evens out the requested resources of a node.

A node with much memory requested and little cpu strands the cpu that is left. Of every node that is too
uneven, at most one pod is evicted in a cycle. Source: Koordinator,
`pkg/descheduler/framework/plugins/fragmentationaware`.
"""

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import dataclass

from koordpy.api.core import Node, Pod
from koordpy.descheduling.interface import SUCCESS, BalancePlugin, EvictOptions, Handle, Status
from koordpy.descheduling.toolkit import nodes as node_selection
from koordpy.descheduling.toolkit import pods as pod_filters
from koordpy.descheduling.toolkit.node_fit import NodeFit

from .args import FragmentationAwareArgs
from .imbalance import RequestedFractions

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Candidate:
    """A pod, and the imbalance of its node with it and without it."""

    pod: Pod
    before: float
    after: float

    @property
    def gain(self) -> float:
        """By how much the imbalance falls without the pod."""
        return self.before - self.after


class FragmentationAware(BalancePlugin):
    """Balance the resources of each node."""

    name = "FragmentationAware"
    args: FragmentationAwareArgs

    def __init__(self, args: FragmentationAwareArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._pods = handle.pods
        self._fit = NodeFit(handle.pods)
        self._passes_filter = pod_filters.evictable(
            args.evictable_namespaces, handle.evictor.filter, args.named_pod_selectors
        )

    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Evict the best pod of every node above the imbalance threshold."""
        if self.args.paused:
            log.info("FragmentationAware is paused")
            return SUCCESS
        selected = node_selection.matching(nodes, self.args.node_selector)
        for node in selected:
            await asyncio.sleep(0)  # a big cluster takes seconds: yield, so that Leases are renewed meanwhile
            best = self._best(node, selected)
            if best is not None and self.handle.evictor.pre_eviction_filter(best.pod):
                await self._evict(best)
        return SUCCESS

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node that would be above the threshold and gain enough without the pod."""
        if self.args.paused or not node_selection.matching([node], self.args.node_selector):
            return None
        if not self._passes_filter(pod):
            return None
        fractions = RequestedFractions(node, [*pods, pod], self.args.resources, self._fit)
        candidate = Candidate(pod, fractions.deviation(), fractions.deviation_without(pod))
        if not self._is_uneven(candidate.before) or not self._gains(candidate):
            return None
        return (
            f"its imbalance would be {candidate.before:.4f}, above imbalanceThreshold "
            f"{self.args.imbalance_threshold:g}, and {candidate.after:.4f} without the pod"
        )

    def _best(self, node: Node, others: Sequence[Node]) -> Candidate | None:
        """The evictable pod with the largest gain, of equal ones the first."""
        pods = self._pods.active_on(node.metadata.name)
        fractions = RequestedFractions(node, pods, self.args.resources, self._fit)
        before = fractions.deviation()
        if not self._is_uneven(before):
            return None
        best: Candidate | None = None
        for pod in filter(self._passes_filter, pods):
            candidate = Candidate(pod, before, fractions.deviation_without(pod))
            if not self._gains(candidate):
                self._skip(candidate, f"without it the imbalance falls by {candidate.gain:.4f} only")
            elif best is not None and candidate.gain <= best.gain:
                self._skip(candidate, f"without {best.pod.metadata.key} the imbalance falls as much or more")
            elif self.args.node_fit and not self._fit.fits_any_other(pod, others):
                self._skip(candidate, "it fits no other node")
            else:
                if best is not None:
                    self._skip(best, f"without {pod.metadata.key} the imbalance falls more")
                best = candidate
        return best

    def _skip(self, candidate: Candidate, reason: str) -> None:
        self.handle.evictor.skipped((candidate.pod,), reason)

    def _is_uneven(self, deviation: float) -> bool:
        return deviation > self.args.imbalance_threshold

    def _gains(self, candidate: Candidate) -> bool:
        return candidate.gain > self.args.min_improvement_threshold

    async def _evict(self, best: Candidate) -> None:
        figures = f"stdBefore={best.before:.4f} stdAfter={best.after:.4f} gain={best.gain:.4f}"
        reason = f"fragmentation reduction: {figures}"
        if self.args.dry_run:
            log.info("FragmentationAware would evict pod %s in dry run: %s", best.pod.metadata.key, reason)
            self._skip(best, f"dryRun is set; it would be evicted: {reason}")
            return
        await self.handle.evictor.evict(best.pod, EvictOptions(reason=reason))
