"""Evict pods from abnormal nodes while underutilized nodes have capacity for their usage.

The steps are those of Koordinator's `pkg/descheduler/framework/plugins/loadaware/utilization_util.go`: the
targets' capacity below their high thresholds is the budget of the whole pool; a pod is removable if it passes
the filter and fits a target; removable pods are evicted in order until their node is no longer overutilized
or the budget is used up.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from koordpy.api.core import Pod
from koordpy.descheduling.toolkit import pod_sorter, usage_score
from koordpy.descheduling.toolkit.node_fit import NodeFit
from koordpy.descheduling.toolkit.pace import Pace

from .classification import is_over
from .size_fit import preferring_fit, size_fit
from .targets import Targets
from .thresholds import Thresholds
from .totals import Amounts
from .usage import PODS, UNIT, NodeUsage, counted, milli


@dataclass(frozen=True)
class Sources:
    """The abnormal nodes of a pass, highest usage first, and the target nodes."""

    prod: bool
    nodes: Sequence[NodeUsage]
    targets: Sequence[NodeUsage]


@dataclass(frozen=True)
class Policy:
    """The constants of a pass."""

    thresholds: Thresholds
    weights: Mapping[str, int]
    passes_filter: Callable[[Pod], bool]
    fit: NodeFit | None
    """Whether a pod could run on a node; None where targets are not checked."""
    evict: Callable[[Pod, str, bool], Awaitable[bool]]
    """Evict a pod of a node for a reason; the flag marks the prod pass."""
    recovered: Callable[[NodeUsage, bool], None]
    """Called for each node that is no longer overutilized before all its pods are evicted."""
    skipped: Callable[[Sequence[Pod], str | Callable[[], str]], None]
    """Record pods that are not evicted for a reason other than the filter's."""
    pace: Pace
    prefers_size_fit: bool = False
    """Whether pods that remove the excess of their node alone come first (see `size_fit`)."""


def budget(resources: Iterable[str], targets: Iterable[NodeUsage], prod: bool) -> Amounts:
    """Return the sum of the targets' capacity below their high thresholds; may be negative."""
    left = dict.fromkeys(resources, 0)
    for target in targets:
        usage, high = target.live(prod)
        for name in left:
            left[name] += high.get(name, 0) - usage.get(name, 0)
    return left


async def balance(sources: Sources, left: Amounts, policy: Policy) -> None:
    """Evict pods of every source; `left` and the usages of sources and targets are updated."""
    if not sources.targets:
        return
    targets = None if policy.fit is None else Targets(sources.targets, sources.prod, policy.fit)
    for node in sources.nodes:
        await policy.pace.keep()
        candidates = node.prod_pods if sources.prod else node.pods
        removable = [pod for pod in candidates if _is_removable(pod, node, targets, policy)]
        if removable:
            await _relieve(
                node, in_eviction_order(removable, node, sources.prod, policy), sources, left, policy
            )


def _is_removable(pod: Pod, node: NodeUsage, targets: Targets | None, policy: Policy) -> bool:
    if not policy.passes_filter(pod):
        return False
    if targets is None:
        return True
    used = node.pod_usage.get(pod.metadata.key)
    if used is None:
        policy.skipped((pod,), f"the NodeMetric of {node.name} has no usage of it")
        return False
    if targets.place(pod, used):
        return True
    policy.skipped((pod,), lambda: targets.reason_against(pod, used))
    return False


def in_eviction_order(pods: Sequence[Pod], node: NodeUsage, prod: bool, policy: Policy) -> list[Pod]:
    """Return pods in eviction order; of equally important ones, the best fit to the excess first."""
    usage, high = node.live(prod)
    exceeding = {
        name: counted(name, usage[name] - limit)
        for name, limit in high.items()
        if name in usage and usage[name] > limit
    }
    weights = {name: policy.weights.get(name, 0) for name in exceeding}

    def key(pod: Pod) -> tuple[float, ...]:
        amounts = node.pod_usage.get(pod.metadata.key)
        used = None if amounts is None else {name: counted(name, each) for name, each in amounts.items()}
        score = None if used is None else usage_score.pod_score(used, exceeding, weights)
        order = pod_sorter.sort_key(pod, score)
        return preferring_fit(order, size_fit(used, exceeding)) if policy.prefers_size_fit else order

    return sorted(pods, key=key)


async def _relieve(
    node: NodeUsage, pods: Sequence[Pod], sources: Sources, left: Amounts, policy: Policy
) -> None:
    usage, high = node.live(sources.prod)
    for position, pod in enumerate(pods):
        await policy.pace.keep()
        if not is_over(usage, high):
            policy.recovered(node, sources.prod)
            policy.skipped(pods[position:], f"{node.name} is no longer overutilized without those evicted")
            return
        if any(amount <= 0 for amount in left.values()):
            policy.skipped(pods[position:], lambda: _used_up(left))
            return
        if not policy.passes_filter(pod):
            continue
        if not await policy.evict(pod, reason(node, sources.prod, policy.thresholds), sources.prod):
            continue
        used = node.pod_usage.get(pod.metadata.key)
        if used is None:
            continue
        for name in left:
            amount = UNIT if name == PODS else used.get(name, 0)
            left[name] -= amount
            if name in node.usage:
                node.usage[name] -= amount
            if sources.prod and name in node.prod_usage:
                node.prod_usage[name] -= amount


_MOST_NAMED: Final = 5


def outcome(nodes: Iterable[NodeUsage], prod_nodes: Iterable[NodeUsage]) -> str:
    """Return how balancing of abnormal nodes ended: which of them stay overutilized."""
    over = [node.name for node in nodes if is_over(*node.live(False))]
    over += [node.name for node in prod_nodes if is_over(*node.live(True))]
    if not over:
        return "balanced"
    names = ", ".join(over[:_MOST_NAMED])
    more = f" and {len(over) - _MOST_NAMED} more" if len(over) > _MOST_NAMED else ""
    stay = "stays" if len(over) == 1 else "stay"
    return f"{names}{more} {stay} overutilized: no more of the pods can be evicted now"


def _used_up(left: Amounts) -> str:
    names = ", ".join(sorted(name for name, amount in left.items() if amount <= 0))
    return f"the underutilized nodes have no capacity left below their high thresholds: {names}"


def reason(node: NodeUsage, prod: bool, thresholds: Thresholds) -> str:
    """Return why a pod of a node is evicted: every resource above its high threshold, in percent."""
    usage, high = node.live(prod)
    percentages = thresholds.prod_high if prod else thresholds.high
    who = "prod" if prod else "node"
    parts = []
    for name in sorted(thresholds.high):  # in the prod pass too
        if name in usage and name in high and usage[name] > high[name]:
            percent = _percent(milli(usage[name]), milli(node.allocatable.get(name, 0)))
            parts.append(f"{who} {name} usage({percent})>threshold({percentages.get(name, 0.0):.2f}%)")
    return f"node is overutilized, {', '.join(parts)}"


def _percent(used: int, offered: int) -> str:
    """Format a percentage; usage of a resource that a node does not have is 0."""
    return f"{100 * float(used) / float(offered) if offered else 0.0:.2f}%"
