"""Whether LowNodeLoad would move a pod again from another node, and whether a node has changed since.

The usage of a node is what its NodeMetric reports, without the pods that are gone, and with those that are
expected there or have come since: with the usage that is known from their former node, else with their
requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from koordpy.api import label_selector, resources
from koordpy.api.core import Node, Pod
from koordpy.descheduling.interface import Handle
from koordpy.descheduling.toolkit.nodes import selected

from . import thresholds
from .args import LowNodeLoadArgs, NodePool
from .classification import is_over
from .totals import Amounts, UsageTotals, amounts, is_prod
from .usage import PODS, UNIT, NodeUsage, measure, read_pods

CLEAR_GROWTH: Final = 10.0
"""Percent of a node's capacity: if the others use so much more, the node may really have changed."""

MOST_USAGES: Final = 10_000
"""The most pods whose usage on their former node is remembered."""


class Objections:
    """LowNodeLoad's objections in one round."""

    def __init__(
        self, args: LowNodeLoadArgs, pools: Sequence[NodePool], handle: Handle, totals: UsageTotals
    ) -> None:
        self._args, self._handle = args, handle
        self._pools = [_own(pool) for pool in pools]
        self._totals = totals
        self._nodes: Sequence[Node] = ()
        self._measured: dict[tuple[str, str], NodeUsage | None] = {}
        self._in_round = False
        self._usages: dict[str, Amounts] = {}
        """The usage of pods on their former node, by `namespace/name`."""

    def begin(self, nodes: Sequence[Node]) -> None:
        """Start a round over nodes: earlier measurements are outdated."""
        self._nodes, self._in_round = nodes, True
        self._measured.clear()
        for key in list(self._usages)[: max(0, len(self._usages) - MOST_USAGES)]:
            del self._usages[key]

    def end(self) -> None:
        """End the round: from now on nodes are measured whenever they are asked about."""
        self._in_round = False

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Return which threshold a node would exceed with a pod, besides these pods."""
        if self._args.paused or not selected([node], self._handle.node_selector):
            return None
        prod = is_prod(pod)
        for pool in self._pools_of(node):
            measured = self._measure(pool, node)
            if measured is None:
                return "its usage is not known: it has no recent NodeMetric"
            if not measured.pod_usage:
                read_pods(measured, ())
            own = self._usage_of(pod)
            reason = self._exceeded(measured, pods, own, prod=False)
            if reason is None and prod:
                reason = self._exceeded(measured, pods, own, prod=True)
            if reason is not None:
                return reason
        return None

    def _exceeded(self, node: NodeUsage, pods: Sequence[Pod], own: Amounts, *, prod: bool) -> str | None:
        _, high = node.live(prod)
        usage = self._prod_usage(node, pods) if prod else self._usage(node, pods)
        for name in usage:
            usage[name] += UNIT if name == PODS else own.get(name, 0)
        if not is_over(usage, high):
            return None
        parts = [
            f"{name} usage({_percent(usage[name], node.allocatable.get(name, 0)):.2f}%)"
            f">threshold({_percent(limit, node.allocatable.get(name, 0)):.2f}%)"
            for name, limit in sorted(high.items())
            if name in usage and usage[name] > limit
        ]
        return f"{'prod' if prod else 'node'} {', '.join(parts)} with this pod"

    def _usage(self, node: NodeUsage, pods: Sequence[Pod]) -> Amounts:
        """Return the usage of a node with these pods."""
        usage, known = dict(node.usage), node.pod_usage
        keys = {pod.metadata.key for pod in pods}
        for key, used in known.items():
            if key not in keys:
                _add(usage, used, -1)
        for pod in pods:
            if pod.metadata.key not in known:
                _add(usage, self._expected(pod), 1)
        usage[PODS] = len(pods) * UNIT
        return usage

    def _prod_usage(self, node: NodeUsage, pods: Sequence[Pod]) -> Amounts:
        """Return the usage of the prod pods among these."""
        usage = dict.fromkeys(node.prod_usage, 0)
        prod = [pod for pod in pods if is_prod(pod)]
        for pod in prod:
            _add(usage, node.pod_usage.get(pod.metadata.key) or self._expected(pod), 1)
        usage[PODS] = len(prod) * UNIT
        return usage

    def _expected(self, pod: Pod) -> Amounts:
        """Return what a pod is expected to use that its node does not report yet."""
        known = self._usages.get(pod.metadata.key)
        if known is not None:
            return known
        return {name: amount.nano_value() for name, amount in resources.pod_requests(pod).items()}

    def _usage_of(self, pod: Pod) -> Amounts:
        """Return the usage of a pod on its present node, and remember it."""
        key = pod.metadata.key
        totals = self._totals.of(pod.spec.node_name)
        metric = None if totals is None else totals.metric
        for entry in () if metric is None else metric.status.pods_metric:
            if entry is not None and (entry.namespace, entry.name) == (
                pod.metadata.namespace,
                pod.metadata.name,
            ):
                self._usages[key] = amounts(entry.pod_usage.resources)
                break
        return self._expected(pod)

    # --- measurements ----------------------------------------------------------------------------

    def _pools_of(self, node: Node) -> Iterable[NodePool]:
        for pool in self._pools:
            if pool.node_selector is None or label_selector.of(pool.node_selector).matches(
                node.metadata.labels
            ):
                yield pool

    def _measure(self, pool: NodePool, node: Node) -> NodeUsage | None:
        """Return a node's usage with the thresholds of a pool, in a round measured once."""
        if not self._in_round:
            self._measured.clear()
        key = pool.name, node.metadata.name
        if key in self._measured:
            return self._measured[key]
        nodes = [node]
        if pool.use_deviation_thresholds:  # relative to the mean of all nodes
            nodes = [each for each in self._nodes if pool in self._pools_of(each)] or nodes
        percentages = thresholds.complete(pool)
        found = {each.metadata.name: self._now(each, percentages.resources) for each in nodes}
        known = [usage for usage in found.values() if usage is not None]
        thresholds.apply(percentages, known, pool.use_deviation_thresholds)
        for name, usage in found.items():
            self._measured[pool.name, name] = usage
        return self._measured.setdefault(key, None)

    def _now(self, node: Node, names: Iterable[str]) -> NodeUsage | None:
        name = node.metadata.name
        expiration = self._args.node_metric_expiration_seconds
        return measure(node, self._totals.of(name), names, self._handle.clock.now(), expiration)

    # --- changes of a node -----------------------------------------------------------------------

    def usage_of_others(self, pod: Pod, node: Node) -> dict[str, float] | None:
        """Return what system and other pods use of a node, in percent; None without a recent NodeMetric."""
        names = sorted({name for pool in self._pools_of(node) for name in thresholds.complete(pool).low})
        measured = self._now(node, names)
        if measured is None:
            return None
        read_pods(measured, ())
        others = [
            each
            for each in self._handle.pods.active_on(node.metadata.name)
            if each.metadata.uid != pod.metadata.uid
        ]
        usage = self._usage(measured, others)
        return {name: round(_percent(usage[name], measured.allocatable.get(name, 0)), 2) for name in names}

    def growth(self, before: Mapping[str, Any], pod: Pod, node: Node) -> str | None:
        """Return how the usage by others has grown so clearly that they alone are over a high threshold.

        None if it has not, or is not known. Where the pod itself makes the difference, moving it again would
        only repeat the move that brought it here.
        """
        if not isinstance(before, Mapping) or not before:
            return None
        now = self.usage_of_others(pod, node) or {}
        for name, percent in now.items():
            earlier = before.get(name)
            if not isinstance(earlier, int | float) or percent - earlier < CLEAR_GROWTH:
                continue
            if self._is_hot_without(pod, node, name):
                return (
                    f"others use {percent:.0f}% of the node's {name}, which is above the threshold without "
                    f"this pod, and used {earlier:.0f}%"
                )
        return None

    def _is_hot_without(self, pod: Pod, node: Node, name: str) -> bool:
        """Return whether other pods use more of a resource of a node than a high threshold."""
        others = [
            each
            for each in self._handle.pods.active_on(node.metadata.name)
            if each.metadata.uid != pod.metadata.uid
        ]
        for pool in self._pools_of(node):
            measured = self._measure(pool, node)
            if measured is None:
                continue
            if not measured.pod_usage:
                read_pods(measured, ())
            if _exceeds(self._usage(measured, others), measured.high, name):
                return True
            if is_prod(pod) and _exceeds(self._prod_usage(measured, others), measured.prod_high, name):
                return True
        return False


def _own(pool: NodePool) -> NodePool:
    """Return a pool that shares no map of thresholds with others: these are completed in place."""
    low, high, prod_low, prod_high = (
        None if each is None else dict(each) for each in (pool.low, pool.high, pool.prod_low, pool.prod_high)
    )
    return replace(pool, low=low, high=high, prod_low=prod_low, prod_high=prod_high)


def _add(total: Amounts, more: Mapping[str, int], sign: int) -> None:
    for name in total:
        total[name] += sign * more.get(name, 0)


def _exceeds(usage: Amounts, high: Amounts, name: str) -> bool:
    return name in usage and name in high and usage[name] > high[name]


def _percent(used: int, offered: int) -> float:
    return 100.0 * used / offered if offered else 0.0
