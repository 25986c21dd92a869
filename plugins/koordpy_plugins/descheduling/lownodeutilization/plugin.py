"""LowNodeUtilization: evict pods from nodes of which much is requested, for nodes of which little is.

Usage is that by requests alone: metrics, which the descheduler can use, are refused, as by Koordinator.
Source: `sigs.k8s.io/descheduler`, `pkg/framework/plugins/nodeutilization` (`lownodeutilization.go`).
"""

import logging
from collections.abc import Mapping, Sequence

from koordpy.api.config_model import ConfigError
from koordpy.api.core import Node, Pod
from koordpy.descheduling.interface import SUCCESS, Handle, Status
from koordpy.descheduling.toolkit.node_emptying import Eviction, empty
from koordpy.descheduling.toolkit.node_utilization import (
    METRIC_RESOURCE,
    Destinations,
    NodeUtilization,
    Source,
    around_mean,
    by_total,
    considered,
    exceeded,
    is_below,
)
from koordpy.descheduling.toolkit.pods import in_namespaces
from koordpy.descheduling.toolkit.utilization_report import UtilizationReport
from koordpy.descheduling.upstream_plugin import UpstreamPlugin, in_turns
from koordpy.lib.counting import counted

from .args import KUBERNETES_METRICS, PROMETHEUS, LowNodeUtilizationArgs

log = logging.getLogger(__name__)


class LowNodeUtilization(UpstreamPlugin):
    """Balance by requests, towards equal nodes."""

    name = "LowNodeUtilization"
    args: LowNodeUtilizationArgs

    def __init__(self, args: LowNodeUtilizationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        if text := _unsupported(args):
            raise ConfigError(text)
        self._resources = considered(args.thresholds)
        self._in_namespaces = in_namespaces(args.evictable_namespaces)
        self._targets: Mapping[str, float] = {}
        """The upper thresholds of the present or last run."""

    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Evict pods from the overutilized nodes for as long as the underutilized ones have room."""
        measured = []
        async for node in in_turns(nodes, self.pace()):
            measured.append(self._measure(node, self.handle.pods.active_on(node.metadata.name)))
        lower, upper = self._thresholds(measured)
        self._targets = upper
        low: list[NodeUtilization] = []
        high: list[tuple[NodeUtilization, list[str]]] = []
        between: list[NodeUtilization] = []
        for each in measured:
            percentages = each.percentages
            if not each.node.spec.unschedulable and is_below(percentages, lower):
                low.append(each)
            elif over := exceeded(percentages, upper):
                high.append((each, over))
            else:
                between.append(each)
        reason = self._nothing_to_do(len(low), len(high), len(nodes))
        classes = {
            "underutilized": low,
            "overutilized": [each for each, _ in high],
            "appropriatelyUtilized": between,
        }
        self.handle.report(UtilizationReport.of(reason or "balanced", classes, dict(lower), dict(upper)))
        if reason:
            log.info("%s: nothing to do: %s", self.name, reason)
            return SUCCESS
        reasons = {each.node.metadata.name: _reason(each, over, upper) for each, over in high}
        limits = self.args.eviction_limits
        await empty(
            [
                Source(each, each.capped(upper))
                for each in by_total((each for each, _ in high), descending=True)
            ],
            Destinations((each, each.capped(upper)) for each in low),
            Eviction(
                may_leave=self.handle.evictor.filter,
                may_be_evicted=self._in_namespaces,
                evict=lambda pod, source: self.evict(pod, reasons[source.node.node.metadata.name]),
                skipped=self.handle.evictor.skipped,
                pace=self.pace(),
                most_per_node=None if limits is None else limits.node,
            ),
        )
        return SUCCESS

    def _thresholds(
        self, measured: Sequence[NodeUtilization]
    ) -> tuple[Mapping[str, float], Mapping[str, float]]:
        if self.args.use_deviation_thresholds:
            return around_mean(measured, self.args.thresholds, self.args.target_thresholds)
        return self.args.thresholds, self.args.target_thresholds

    def _nothing_to_do(self, low: int, high: int, nodes: int) -> str:
        if not low:
            return "no node is underutilized"
        if low <= self.args.number_of_nodes:
            return f"{counted(low, 'underutilized node')}, numberOfNodes is {self.args.number_of_nodes}"
        if low == nodes:
            return "all nodes are underutilized"
        return "" if high else "no node is overutilized"

    def _measure(self, node: Node, pods: Sequence[Pod]) -> NodeUtilization:
        return NodeUtilization.of(node, pods, self._resources)

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Object to a node that would be overutilized with the pod."""
        if not self._in_namespaces(pod):
            return None
        targets = self._targets if self.args.use_deviation_thresholds else self.args.target_thresholds
        measured = self._measure(node, [*pods, pod])
        over = exceeded(measured.percentages, targets)
        if not over:
            return None
        return f"the node would be overutilized with it: {_described(measured, over, targets)}"


def _reason(node: NodeUtilization, over: Sequence[str], targets: Mapping[str, float]) -> str:
    return f"node is overutilized: {_described(node, over, targets)}"


def _described(node: NodeUtilization, over: Sequence[str], targets: Mapping[str, float]) -> str:
    percentages = node.percentages
    return ", ".join(f"{name} {percentages[name]:.0f} % > {targets[name]:.0f} %" for name in over)


def _unsupported(args: LowNodeUtilizationArgs) -> str:
    """Return why the plugin cannot be created with these metrics, as Koordinator's adaptor does."""
    metrics = args.metrics_utilization
    if metrics is None:
        return ""
    if metrics.source == PROMETHEUS:
        for name, thresholds in (
            ("thresholds", args.thresholds),
            ("targetThresholds", args.target_thresholds),
        ):
            if list(thresholds) != [METRIC_RESOURCE]:
                return (
                    f'{name} are expected to specify a single instance of "{METRIC_RESOURCE}" resource, got '
                    f"[{' '.join(sorted(thresholds))}] instead"
                )
    if metrics.metrics_server or metrics.source == KUBERNETES_METRICS:
        return "metrics client not initialized"
    if metrics.source == PROMETHEUS:
        return "prometheus client not initialized"
    return "unrecognized metrics source" if metrics.source else "metrics source is empty"
