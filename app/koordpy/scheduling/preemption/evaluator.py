"""From a pod that fits nowhere to the node on which pods are evicted for it.

Source: Kubernetes, `Evaluator.Preempt` in `pkg/scheduler/framework/preemption` and the methods of
`framework/plugins/defaultpreemption` that it calls.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from koordpy.api.core import Pod, PodDisruptionBudget
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.framework.metrics import PREEMPTION_ATTEMPTS
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.fit_error import fit_error
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Code, Status

from .budgets import Budgets
from .choice import least_loss
from .dry_run import NO_VICTIMS, DryRun, Findings, Limit
from .executor import Executor
from .extenders import agreed
from .importance import priority_of

NEVER = "not eligible due to preemptionPolicy=Never."
STILL_TERMINATING = "not eligible due to a terminating pod on the nominated node."
NOT_HELPFUL = "Preemption is not helpful for scheduling"


@dataclass(frozen=True, slots=True)
class Rules:
    """What differs between plugins that preempt."""

    min_candidate_nodes_percentage: int
    """The least number of candidates to search for, in percent of the nodes that may help..."""
    min_candidate_nodes_absolute: int
    """...and absolute."""
    latest: Callable[[Pod], Pod | None]
    """Return the pod as it is now, None when it is gone."""
    spares: Callable[[Pod], bool] = lambda _: False
    """Return whether a pod must not be evicted even though it is less important."""
    starts_anywhere: bool = True
    """Whether the search starts at a random node."""
    in_background: bool = True
    """Whether the scheduler continues while victims are evicted."""
    may_preempt: Callable[[Pod, Pod], bool] = lambda pod, victim: priority_of(victim) < priority_of(pod)
    """Return whether the first pod may evict the second one, unless it is spared."""
    waits_for: Callable[[Pod, Pod], bool] = lambda pod, victim: (
        priority_of(victim) < priority_of(pod) and is_preempted(victim)
    )
    """Return whether the first pod has to wait for the second one, on the node that it is nominated to."""
    limit: Callable[[CycleState, Pod], Callable[[], Limit]] | None = None
    """Return what limits a pod besides the filters, in the state of its attempt."""
    counts_once: bool = False
    """See `DryRun`."""
    no_victims: Callable[[Pod, str], Status] = lambda pod, node_name: NO_VICTIMS
    """Return the status of a node without possible victims."""

    def candidates_wanted(self, nodes: int) -> int:
        """Return how many candidates are enough among so many nodes."""
        share = nodes * self.min_candidate_nodes_percentage // 100
        return min(max(share, self.min_candidate_nodes_absolute), nodes)


class Evaluator:
    """Preempts on behalf of one plugin."""

    def __init__(self, plugin: str, handle: Handle, rules: Rules) -> None:
        self._handle, self._rules = handle, rules
        self._budgets = handle.cluster.store(PodDisruptionBudget)
        self.executor = Executor(plugin, handle)

    async def preempt(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Evict for a pod that found no node and nominate it to the one it gets.

        A result without a node clears the pod's nomination; no result leaves it unchanged. The status message
        begins with "preemption: ".
        """
        PREEMPTION_ATTEMPTS.inc()
        result, status = await self._preempt(state, pod, outcome)
        if status.message:
            status = Status(status.code, (f"preemption: {status.message}",), error=status.error)
        return result, status

    async def _preempt(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        latest = self._rules.latest(pod)
        if latest is None:
            return None, Status.failed(f'pod "{pod.metadata.name}" not found')
        pod = latest
        refusal = self.ineligible(pod, outcome)
        if not refusal and self.executor.awaits_deletions(pod.metadata.uid):
            refusal = STILL_TERMINATING
        if refusal:
            return None, Status.unschedulable(refusal)
        nodes = self._handle.nodes.all()
        if not len(nodes):
            return None, Status.failed("no nodes available")
        findings = self.find(state, pod, outcome)
        if not findings.candidates:
            return self._nothing_found(findings, len(nodes))
        candidates, status = await agreed(
            self._handle.extenders, pod, findings.candidates, self._handle.nodes
        )
        if not status.is_success:
            return None, status
        node_name = least_loss(candidates, self._handle.clock.now())
        if not node_name:
            return None, Status.unschedulable("no candidate node for preemption")
        victims = candidates[node_name].pods
        if self._rules.in_background:
            self.executor.evict_in_background(pod, node_name, victims)
        else:
            status = await self.executor.evict(pod, node_name, victims)
            if not status.is_success:
                return None, status
        return PostFilterResult(node_name, override=True), SUCCESS

    def ineligible(self, pod: Pod, outcome: FilterOutcome) -> str:
        """Return why a pod must not preempt; empty if it may."""
        if pod.spec.preemption_policy == "Never":
            return NEVER
        name = pod.status.nominated_node_name or self._handle.nominator.node_of(pod.metadata.uid)
        if not name or outcome.status_of(name).code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
            return ""
        row = self._handle.nodes.row_of(name)
        if row is None:
            return ""
        if any(self._rules.waits_for(pod, victim) for victim in self._handle.nodes.pods_on(row)):
            return STILL_TERMINATING
        return ""

    def potential(self, outcome: FilterOutcome) -> NodeSet:
        """Return the nodes on which evictions may help: those rejected with the code Unschedulable."""
        refused = outcome.refused_with(Code.UNSCHEDULABLE)
        return self._handle.nodes.select(refused)[0]

    def find(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> Findings:
        """Search for candidates, starting at a random node; nothing is evicted."""
        nodes = self.potential(outcome)
        if not len(nodes):
            return Findings()
        rules = self._rules
        offset = self._handle.rng.randrange(len(nodes)) if rules.starts_anywhere else 0

        def may_go(victim: Pod) -> bool:
            return rules.may_preempt(pod, victim) and not rules.spares(victim)

        run = DryRun(
            self._handle.framework,
            state,
            pod,
            may_go,
            Budgets(self._budgets),
            self._handle.clock.now(),
            limit=None if rules.limit is None else rules.limit(state, pod),
            counts_once=rules.counts_once,
            no_victims=lambda node_name: rules.no_victims(pod, node_name),
        )
        order = np.roll(np.arange(len(nodes)), -offset)
        return run.run(nodes.pick(order), rules.candidates_wanted(len(nodes)))

    @staticmethod
    def _nothing_found(findings: Findings, total: int) -> tuple[PostFilterResult | None, Status]:
        errors = findings.errors
        if errors:
            return None, Status.failed(errors[0] if len(errors) == 1 else f"[{', '.join(errors)}]")
        reasons: Counter[str] = Counter()
        for status in findings.refused.values():
            reasons.update(status.reasons)
        reasons[NOT_HELPFUL] += total - len(findings.refused)
        return PostFilterResult("", override=True), Status.unschedulable(fit_error(total, reasons))


def is_preempted(pod: Pod) -> bool:
    """Return whether a pod is terminating because a scheduler evicted it."""
    if pod.metadata.deletion_timestamp is None:
        return False
    for condition in pod.status.conditions:
        if condition.type == "DisruptionTarget":
            return condition.status == "True" and condition.reason == "PreemptionByScheduler"
    return False
