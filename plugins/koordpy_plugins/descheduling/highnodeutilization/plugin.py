"""HighNodeUtilization: empty nodes of which little is requested, so that fewer nodes are used.

Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/nodeutilization` (`highnodeutilization.go`).
"""

import logging
from collections.abc import Sequence

from koordpy.api.core import Node, Pod
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.toolkit.node_emptying import Eviction, empty
from koordpy.descheduling.toolkit.node_utilization import (
    Destinations,
    NodeUtilization,
    Source,
    by_total,
    considered,
    is_below,
)
from koordpy.descheduling.toolkit.pods import in_namespaces
from koordpy.descheduling.toolkit.utilization_report import UtilizationReport
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns
from koordpy.lib.counting import counted

from .args import ONLY_THRESHOLDING_RESOURCES, HighNodeUtilizationArgs

log = logging.getLogger(__name__)


class HighNodeUtilization(UpstreamPlugin):
    """Balance by requests, towards full nodes."""

    name = "HighNodeUtilization"
    args: HighNodeUtilizationArgs

    def __init__(self, args: HighNodeUtilizationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = considered(args.thresholds)
        self._in_namespaces = in_namespaces(args.evictable_namespaces)
        self._only_thresholding = ONLY_THRESHOLDING_RESOURCES in args.eviction_modes

    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Empty the underutilized nodes into the others that are schedulable."""
        low: list[NodeUtilization] = []
        others: list[NodeUtilization] = []
        cordoned: list[NodeUtilization] = []
        async for node in in_turns(nodes, self.pace()):
            measured = self._measure(node, self.handle.pods.active_on(node.metadata.name))
            if is_below(measured.percentages, self.args.thresholds):
                low.append(measured)
            elif not node.spec.unschedulable:
                others.append(measured)
            else:
                cordoned.append(measured)
        reason = self._nothing_to_do(len(low), len(others), len(nodes))
        classes = {"underutilized": low, "target": others, "unschedulable": cordoned}
        self.handle.report(UtilizationReport.of(reason or "balanced", classes, self.args.thresholds))
        if reason:
            log.info("%s: nothing to do: %s", self.name, reason)
            return SUCCESS
        full = dict.fromkeys(self.args.thresholds, 100.0)
        await empty(
            map(Source, by_total(low, descending=False)),
            Destinations((node, node.capped(full)) for node in others),
            Eviction(
                may_leave=self._may_leave,
                may_be_evicted=self._in_namespaces,
                evict=lambda pod, source: self.evict(pod, _reason(source.node)),
                skipped=self.handle.evictor.skipped,
                pace=self.pace(),
            ),
        )
        return SUCCESS

    def _nothing_to_do(self, low: int, others: int, nodes: int) -> str:
        if not low:
            return "no node is underutilized"
        if low <= self.args.number_of_nodes:
            return f"{counted(low, 'underutilized node')}, numberOfNodes is {self.args.number_of_nodes}"
        if low == nodes:
            return "all nodes are underutilized"
        return "" if others else "no other node is schedulable"

    def _measure(self, node: Node, pods: Sequence[Pod]) -> NodeUtilization:
        return NodeUtilization.of(node, pods, self._resources)

    def _may_leave(self, pod: Pod) -> bool:
        if self._only_thresholding and not self._requests_a_threshold(pod):
            return False
        return self.handle.evictor.filter(pod)

    def _requests_a_threshold(self, pod: Pod) -> bool:
        containers = (*pod.spec.containers, *pod.spec.init_containers)
        return any(
            name in container.resources.requests for name in self.args.thresholds for container in containers
        )

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node that would be underutilized even with the pod."""
        if not self._in_namespaces(pod) or (self._only_thresholding and not self._requests_a_threshold(pod)):
            return None
        measured = self._measure(node, [*pods, pod])
        if not is_below(measured.percentages, self.args.thresholds):
            return None
        return "the node would be underutilized with it"


def _reason(node: NodeUtilization) -> str:
    return f"node is underutilized: {described(node.percentages)}"


def described(percentages: dict[str, float]) -> str:
    """Return percentages in words."""
    return ", ".join(f"{name} {percentages[name]:.0f} %" for name in sorted(percentages))
