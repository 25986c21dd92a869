"""LowNodeLoad: evict pods from nodes with high usage, to be rescheduled on nodes with low usage.

Usage comes from NodeMetrics, not from requests. Nodes are grouped in pools with separate thresholds, a node
must be over its thresholds for several consecutive cycles before pods are evicted, and prod pods may have
tighter thresholds than the whole node. Source: Koordinator, `pkg/descheduler/framework/plugins/loadaware`.
"""

import logging
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from koordpy.api import label_selector
from koordpy.api.core import Node, Pod
from koordpy.api.needs import Lack, Needs
from koordpy.descheduling.interface import SUCCESS, BalancePlugin, EvictOptions, Handle, Status
from koordpy.descheduling.toolkit import pods as pod_filters
from koordpy.descheduling.toolkit import usage_score
from koordpy.descheduling.toolkit.node_fit import NodeFit
from koordpy.descheduling.toolkit.nodes import is_ready
from koordpy.descheduling.toolkit.pace import Pace
from koordpy.lib import duration

from . import balancing, thresholds
from .anomaly import DetectorCache
from .args import LowNodeLoadArgs, NodePool, node_pools
from .classification import NodeClass, classify
from .explanation import Eviction, PoolReport
from .objection import Objections
from .totals import UsageTotals
from .usage import NodeUsage, counted, measure, read_pods

log = logging.getLogger(__name__)

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class LowNodeLoad(BalancePlugin):
    """Balance by usage."""

    name = "LowNodeLoad"
    needs = Needs(elsewhere=("an agent on every node that reports NodeMetrics (koordlet)",))
    args: LowNodeLoadArgs

    def __init__(self, args: LowNodeLoadArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._pods = handle.pods
        self._totals = handle.cluster.shared(UsageTotals)
        self._fit = NodeFit(handle.pods) if args.node_fit else None
        self._pools = node_pools(args)
        self._node_detectors = DetectorCache(args.detector_cache_timeout, self._now)
        self._prod_detectors = DetectorCache(args.detector_cache_timeout, self._now)
        self._objections = Objections(args, self._pools, handle, self._totals)
        self._passes_filter = pod_filters.every(
            (
                self._recorded(
                    pod_filters.in_namespaces(args.evictable_namespaces),
                    "evictableNamespaces excludes its namespace",
                ),
                handle.evictor.filter,
                self._recorded(pod_filters.selected(args.pod_selectors), "no podSelectors selects it"),
            )
        )

    def _recorded(self, passes: pod_filters.PodFilter, reason: str) -> pod_filters.PodFilter:
        """Return a filter of the arguments that records what it refuses."""

        def recorded(pod: Pod) -> bool:
            if passes(pod):
                return True
            self.handle.evictor.skipped((pod,), reason)
            return False

        return recorded

    def lacks(self) -> Iterable[Lack]:
        """Return which ready nodes have no NodeMetric that is fresh enough: their usage is unknown."""
        expiration = duration.of_seconds(self.args.node_metric_expiration_seconds)
        now = self.handle.clock.now()
        wanted = [node.metadata.name for node in self.handle.nodes() if is_ready(node)]
        blind = []
        for name in wanted:
            totals = self._totals.of(name)
            if totals is None or totals.reported is None or now - totals.reported >= expiration:
                blind.append(name)
        if not blind:
            return
        fix = "run koordlet on these nodes, and see its log; kubectl get nodemetrics shows the last updates"
        seconds = self.args.node_metric_expiration_seconds
        if len(blind) == len(wanted):
            what = f"no node has a NodeMetric younger than {seconds} s: nothing is balanced"
            yield Lack(what, fix)
        else:
            what = (
                f"{len(blind)} of {len(wanted)} nodes ({', '.join(blind[:3])}"
                f"{', ...' if len(blind) > 3 else ''}) have no NodeMetric younger than {seconds} s: they are "
                "neither relieved nor used as targets"
            )
            yield Lack(what, fix, is_problem=False)

    def _now(self) -> int:
        return (self.handle.clock.now() - _EPOCH) // timedelta(microseconds=1) * 1000

    def objection(self, pod: Pod, node: Node, pods: Sequence[Pod]) -> str | None:
        """Return which threshold the node would exceed with the pod; None if it would exceed none."""
        return self._objections.objection(pod, node, pods)

    def node_state(self, pod: Pod, node: Node) -> Mapping[str, Any]:
        """Return the node's state, and what others use of it, in percent."""
        usage = self._objections.usage_of_others(pod, node)
        return {**super().node_state(pod, node), **({} if usage is None else {"usage": usage})}

    def has_changed(self, before: Mapping[str, Any], pod: Pod, node: Node) -> str | None:
        """Return what has really changed; that others alone have made the node hot is a change too."""
        usage = before.get("usage") or {}
        return super().has_changed(before, pod, node) or self._objections.growth(usage, pod, node)

    async def balance(self, nodes: Sequence[Node]) -> Status:
        """Process the pools; an error in one is logged and does not stop the others."""
        if self.args.paused:
            log.info("LowNodeLoad is paused")
            return SUCCESS
        self._objections.begin(nodes)
        self._node_detectors.drop_expired()
        self._prod_detectors.drop_expired()
        processed: set[str] = set()
        try:
            for pool in self._pools:
                report = PoolReport(name=pool.name)
                try:
                    await self._balance_pool(pool, nodes, processed, report)
                except Exception as error:
                    log.exception("LowNodeLoad: node pool %s failed", pool.name)
                    report.outcome = f"failed: {error}"
                self.handle.report(report)
        finally:
            self._objections.end()
        return SUCCESS

    async def _balance_pool(
        self, pool: NodePool, nodes: Sequence[Node], processed: set[str], report: PoolReport
    ) -> None:
        members = _members(pool, nodes, processed)
        if not members:
            report.outcome = "no nodes"
            return
        percentages = thresholds.complete(pool)
        pace = Pace(self.handle.clock)
        measured = await self._measure(members, percentages.resources, pace)
        thresholds.apply(percentages, measured, pool.use_deviation_thresholds)
        await pace.keep()
        classes: dict[NodeClass, list[NodeUsage]] = {node_class: [] for node_class in NodeClass}
        found = []
        for node in measured:
            await pace.keep()
            found.append(classify(node))
        for node, node_class in zip(measured, found, strict=True):
            classes[node_class].append(node)
        await pace.keep()
        report.measured(measured, found)
        report.set_thresholds(percentages, pool.use_deviation_thresholds)
        report.unmeasured = sorted(
            {node.metadata.name for node in members} - {node.name for node in measured}
        )

        sources, prod_sources = classes[NodeClass.SOURCE], classes[NodeClass.PROD_HIGH]
        low, prod_low = classes[NodeClass.LOW], classes[NodeClass.PROD_LOW]
        both_low = classes[NodeClass.BOTH_LOW]
        if not sources and not prod_sources:
            report.outcome = "no node is overutilized"
            return
        abnormal = self._abnormal(pool, sources, self._node_detectors)
        prod_abnormal = self._abnormal(pool, prod_sources, self._prod_detectors)
        report.abnormal = [node.name for node in (*abnormal, *prod_abnormal)]
        if not abnormal and not prod_abnormal:
            report.outcome = "no overutilized node is abnormal yet"
            return
        takers = len(low) + len(prod_low) + len(both_low)
        if takers == 0:
            report.outcome = "no node is underutilized"
            return
        await pace.keep()
        for node in (*low, *both_low):
            self._node_detectors.reset(node.name)
        for node in prod_low:
            self._prod_detectors.reset(node.name)
        if takers <= self.args.number_of_nodes:
            few = "1 underutilized node" if takers == 1 else f"{takers} underutilized nodes"
            report.outcome = f"{few}, numberOfNodes is {self.args.number_of_nodes}"
            return
        if takers == len(members):
            report.outcome = "all nodes are underutilized"
            return
        for node in (*abnormal, *prod_abnormal):
            await pace.keep()
            read_pods(node, self._pods.active_on(node.name))
        policy = balancing.Policy(
            percentages,
            pool.weights,
            self._passes_filter,
            self._fit,
            lambda pod, reason, prod: self._evict(pod, reason, prod, report),
            self._recovered,
            self.handle.evictor.skipped,
            pace,
            bool(self.args.prefer_size_fit),
        )
        await _balance_both(
            policy,
            balancing.Sources(False, _hottest_first(abnormal, pool, prod=False), [*low, *both_low]),
            balancing.Sources(True, _hottest_first(prod_abnormal, pool, prod=True), [*prod_low, *both_low]),
            low,
            both_low,
            prod_low,
        )
        for node in abnormal:
            self._node_detectors.mark_normal(node.name)
        for node in prod_abnormal:
            self._prod_detectors.mark_normal(node.name)
        processed.update(node.name for node in sources)
        report.outcome = balancing.outcome(abnormal, prod_abnormal)

    async def _measure(self, nodes: Sequence[Node], resources: Sequence[str], pace: Pace) -> list[NodeUsage]:
        now, expiration = self.handle.clock.now(), self.args.node_metric_expiration_seconds
        found = []
        for node in nodes:
            await pace.keep()
            usage = measure(node, self._totals.of(node.metadata.name), resources, now, expiration)
            if usage is not None:
                found.append(usage)
        return found

    def _abnormal(
        self, pool: NodePool, sources: Sequence[NodeUsage], detectors: DetectorCache
    ) -> list[NodeUsage]:
        if pool.anomaly.consecutive_abnormalities == 1:
            return list(sources)
        return [node for node in sources if detectors.detect(node.name, pool.anomaly)]

    def _recovered(self, node: NodeUsage, prod: bool) -> None:
        (self._prod_detectors if prod else self._node_detectors).reset(node.name)

    async def _evict(self, pod: Pod, reason: str, prod: bool, report: PoolReport) -> bool:
        evicted = True
        if self.args.dry_run:
            log.info("LowNodeLoad would evict pod %s in dry run: %s", pod.metadata.key, reason)
            self.handle.evictor.skipped((pod,), f"only LowNodeLoad's dryRun keeps it: {reason}")
        else:
            evicted = await self.handle.evictor.evict(pod, EvictOptions(reason=reason))
        report.evictions.append(
            Eviction(
                pod=pod.metadata.key,
                node=pod.spec.node_name,
                prod=prod,
                reason=reason,
                evicted=evicted,
                dry_run=self.args.dry_run,
            )
        )
        return evicted


async def _balance_both(
    policy: balancing.Policy,
    node_pass: balancing.Sources,
    prod_pass: balancing.Sources,
    low: Sequence[NodeUsage],
    both_low: Sequence[NodeUsage],
    prod_low: Sequence[NodeUsage],
) -> None:
    """Balance whole nodes first; the prod pass uses the remaining capacity of nodes that are low in both."""
    names = policy.thresholds.resources
    of_both = balancing.budget(names, both_low, prod=False)
    left = balancing.budget(names, node_pass.targets, prod=False)
    await policy.pace.keep()
    prod_of_both = balancing.budget(names, both_low, prod=True)
    of_prod = balancing.budget(names, prod_low, prod=True)
    await policy.pace.keep()
    await balancing.balance(node_pass, left, policy)
    prod_left = {name: of_prod[name] + min(prod_of_both[name], of_both[name], left[name]) for name in names}
    await balancing.balance(prod_pass, prod_left, policy)


def _members(pool: NodePool, nodes: Sequence[Node], processed: set[str]) -> list[Node]:
    """The nodes of a pool; without a selector all nodes, also those that another pool has processed."""
    if pool.node_selector is None:
        return list(nodes)
    selector = label_selector.of(pool.node_selector)
    return [
        node
        for node in nodes
        if node.metadata.name not in processed and selector.matches(node.metadata.labels)
    ]


def _hottest_first(nodes: Sequence[NodeUsage], pool: NodePool, *, prod: bool) -> list[NodeUsage]:
    def score(node: NodeUsage) -> int:
        used = node.prod_usage if prod else node.usage
        return usage_score.node_score(
            {name: counted(name, amount) for name, amount in used.items()},
            {name: counted(name, amount) for name, amount in node.allocatable.items()},
            pool.weights,
        )

    return sorted(nodes, key=score, reverse=True)
