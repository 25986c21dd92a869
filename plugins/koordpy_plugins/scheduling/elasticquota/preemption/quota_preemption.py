"""Evicts pods of a quota for a more important pod of the same quota, and reviews other proposals.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/preempt.go`.
"""

from collections.abc import Callable, Mapping

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.extension import LABEL_QUOTA_PREEMPTIBLE
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.api.quota.info import DEFAULT, ROOT
from koordpy.scheduling.interface import Victims
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.preemption import Evaluator, Limit, Rules, priority_of

from ..admission import QUOTA_STATE, QuotaCheck, QuotaState
from ..state.amounts import Amounts, exceeded, masked, minus_not_negative, plus
from ..state.pod_accounts import is_non_preemptible
from ..state.trees import QuotaTrees
from .quota_limit import PathLimit, QuotaLimit, Step


class QuotaPreemption:
    """Preempts within quotas. Victims are evicted before the scheduler goes on."""

    def __init__(self, args: ElasticQuotaArgs, handle: Handle, trees: QuotaTrees, check: QuotaCheck) -> None:
        self._args, self._handle, self._trees, self._check = args, handle, trees, check
        self._checks_parents = args.enable_check_parent_quota
        self.evaluator = Evaluator(
            "ElasticQuota",
            handle,
            Rules(
                min_candidate_nodes_percentage=100,
                min_candidate_nodes_absolute=0,
                latest=lambda pod: handle.cluster.store(Pod).by_key(pod.metadata.key),
                in_background=False,
                starts_anywhere=False,
                may_preempt=self.may_preempt,
                waits_for=self._waits_for,
                limit=self._limit,
                counts_once=args.preemption_fits_quota,
                no_victims=_no_victims,
            ),
        )

    # --- points ----------------------------------------------------------------------------------

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Evict pods of the same quota for a pod that found no node."""
        if not outcome.prefilter.is_success:
            prepared = self._prepared(pod)
            if prepared is None:
                return None, Status.unschedulable()
            state, outcome = prepared
        return await self.evaluator.preempt(state, pod, outcome)

    def _prepared(self, pod: Pod) -> tuple[CycleState, FilterOutcome] | None:
        """Begin an attempt over all nodes; None if preemption cannot help by now.

        Beside kube-scheduler the attempt that was rejected had neither all nodes nor all plugins, and some
        time has passed since.
        """
        framework, nodes = self._handle.framework, self._handle.nodes.all()
        state = framework.new_state()
        before = framework.run_pre_filter(state, pod, nodes)
        if before.status.code is not Code.UNSCHEDULABLE:
            return None
        return state, FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), prefilter=before.status)

    def review(self, state: CycleState, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Return the proposals after which the pod would have room in its quota.

        kube-scheduler proposes victims without knowing quotas: a pod that still exceeds its quota would have
        evicted them in vain.
        """
        status = self._check.check(state, pod)
        snapshot = state.read(QUOTA_STATE)
        if status.is_success or status.is_skip or snapshot is None or snapshot.quota_info is None:
            return victims
        limit = self._path_limit(snapshot, pod)
        for node_name, proposal in victims.items():
            for victim in proposal.pods:
                limit.took(node_name, victim)
        return {name: proposal for name, proposal in victims.items() if limit.allows(name)}

    # --- rules -----------------------------------------------------------------------------------

    def may_preempt(self, pod: Pod, victim: Pod) -> bool:
        """Return whether a pod may evict another one: a less important, preemptible one of its quota."""
        if priority_of(pod) <= priority_of(victim):
            return False
        if victim.metadata.labels.get(LABEL_QUOTA_PREEMPTIBLE) == "false":
            return False
        name, _ = self._trees.quota_of(victim)
        if self._args.disable_default_quota_preemption and name == DEFAULT:
            return False
        return name == self._trees.quota_of(pod)[0]

    def _waits_for(self, pod: Pod, victim: Pod) -> bool:
        return (
            victim.metadata.deletion_timestamp is not None
            and priority_of(victim) < priority_of(pod)
            and self._trees.quota_of(victim)[0] == self._trees.quota_of(pod)[0]
        )

    def _limit(self, state: CycleState, pod: Pod) -> Callable[[], Limit]:
        snapshot = state.read(QUOTA_STATE)
        if snapshot is None or snapshot.skip or snapshot.quota_info is None:
            return _NoLimit
        if self._args.preemption_fits_quota:
            return lambda: self._path_limit(snapshot, pod)
        info, used, limit = snapshot.quota_info, snapshot.used, snapshot.used_limit
        requests = self._trees.tree_of(info.name).requests
        request = requests(pod)
        return lambda: QuotaLimit(info, used, limit, request, requests)

    def _path_limit(self, snapshot: QuotaState, pod: Pod) -> PathLimit:
        """Return the check of PreFilter for a pod, of its quota and of those ancestors that are checked.

        The pods that are placed together with it have to pass beside it, or evictions for it are in vain.
        """
        info = snapshot.quota_info
        assert info is not None
        requests = self._trees.tree_of(info.name).requests
        request = masked(requests(pod), info.max)
        others = self._requested_with(pod)
        refuses_others = any(
            name != info.name and self._exceeds(name, amounts) for name, amounts in others.items()
        )
        own, _ = self._trees.charged(pod.metadata.uid)
        steps = [Step(snapshot.used, snapshot.used_limit)]
        chain = self._trees.tree_of(info.name).chain(info.name) if self._checks_parents else []
        for above in chain[1:]:
            if above.name != ROOT:
                used = plus(above.used, minus_not_negative(above.tentative, own))
                steps.append(Step(used, self._check.limit_of(above), request))
        kept = plus(request, snapshot.non_preemptible_used)
        together = plus(request, others.get(info.name, {}))
        refuses = is_non_preemptible(pod) and bool(exceeded(kept, info.min))
        return PathLimit(info, steps, together, requests, refuses or refuses_others)

    def _requested_with(self, pod: Pod) -> Mapping[str, Amounts]:
        """Return by quota what the pods request that are placed together with a pod."""
        found: dict[str, Amounts] = {}
        for other in self._handle.framework.placed_with(pod):
            name, tree = self._trees.quota_of(other)
            manager = self._trees.managers.tree(tree) if name else None
            info = None if manager is None else manager.get(name)
            if manager is not None and info is not None:
                found[name] = plus(found.get(name, {}), masked(manager.requests(other), info.max))
        return found

    def _exceeds(self, name: str, request: Amounts) -> bool:
        """Return whether a quota has no room for more."""
        info = self._trees.quota(name)
        if info is None:
            return True
        return bool(exceeded(plus(request, plus(info.used, info.tentative)), self._check.limit_of(info)))


class _NoLimit(Limit):
    """A pod without a quota is not limited."""

    def took(self, node_name: str, pod: Pod) -> None:
        """Ignore it."""

    def gave_back(self, node_name: str, pod: Pod) -> None:
        """Ignore it."""

    def allows(self, node_name: str) -> bool:
        """Return true."""
        return True


def _no_victims(pod: Pod, node_name: str) -> Status:
    return Status.unresolvable(f"No victims found on node {node_name} for preemptor pod {pod.metadata.name}")
