"""Whether a quota has room for a pod.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/plugin.go` (`PreFilter`) and `plugin_helper.go`
(`checkQuotaRecursive`).
"""

from dataclasses import dataclass, field, replace
from typing import Final

from koordpy.api.core import Pod
from koordpy.api.quota.info import ROOT
from koordpy.api.resource_list import Quantities
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.nominator import Nominator
from koordpy.scheduling.interface.status import SUCCESS, Status
from koordpy.scheduling.preemption.importance import priority_of

from .state.amounts import Amounts, exceeded, masked, minus_not_negative, plus, text
from .state.pod_accounts import PodAccounts, is_non_preemptible
from .state.quota_info import QuotaInfo
from .state.trees import QuotaTrees

REASONS: Final = (
    "Insufficient quotas, ",
    "Insufficient non-preemptible quotas, ",
    "CheckPod failed for hook",
)
"""How the reasons begin for which pods are refused."""


@dataclass(frozen=True)
class QuotaState:
    """The quota of a pod as an attempt sees it; Koordinator's PostFilterState. `skip`: it has no quota."""

    skip: bool = False
    quota_info: QuotaInfo | None = None
    used: Amounts = field(default_factory=dict)
    non_preemptible_used: Amounts = field(default_factory=dict)
    used_limit: Amounts = field(default_factory=dict)


QUOTA_STATE: Final[StateKey[QuotaState]] = StateKey("PostFilterElasticQuota")


class QuotaCheck:
    """Compares what a pod requests with what its quota, and optionally the quota's ancestors, may still use.

    Pods that are counted tentatively count as usage, except the pod itself. With a `nominator`, so do more
    important pods of the same quota that are nominated to a node: what others were evicted for is kept for
    them, as their node is, from pods that are created again in place of the evicted ones.
    """

    def __init__(
        self, trees: QuotaTrees, *, runtime: bool, parents: bool, nominator: Nominator | None = None
    ) -> None:
        self.trees = trees
        self._runtime, self._parents = runtime, parents
        self._nominator = nominator

    def check(self, state: CycleState, pod: Pod, *, is_seen: bool = True) -> Status:
        """Check a pod and record its quota in the state.

        A pod that the watch has not shown yet (`is_seen` false) does not count in what its quota requests,
        which decides about the runtime; it is added for the time of another check if it is refused.
        """
        name, tree = self.trees.quota_of(pod)
        if not name:
            state.write(QUOTA_STATE, QuotaState(skip=True))
            return Status.skip()
        manager = self.trees.managers.tree(tree)
        if manager is None:
            return Status.failed(
                f"Could not find the specified ElasticQuotaManager for quota: {name}, tree: {tree}"
            )
        info = manager.get(name)
        status = self._check(state, manager, name, pod)
        if status.is_success or is_seen or info is None or info.has(pod):
            return status  # a greater request never lowers the runtime of a quota or its ancestors
        manager.add_pod(name, pod)
        try:
            return self._check(state, manager, name, pod)
        finally:
            manager.delete_pod(name, pod)

    def _check(self, state: CycleState, manager: PodAccounts, name: str, pod: Pod) -> Status:
        if self._runtime:
            manager.refresh_runtime(name)
        info = manager.get(name)
        if info is None:
            return Status.failed("Could not find the specified ElasticQuota")
        own, own_kept = self.trees.charged(pod.metadata.uid)
        used = self._with_nominated(_with_tentative(info.used, info.tentative, own), manager, info, pod)
        kept_used = _with_tentative(info.non_preemptible_used, info.non_preemptible_tentative, own_kept)
        limit = self.limit_of(info)
        state.write(QUOTA_STATE, QuotaState(False, info, used, kept_used, limit))
        request = masked(manager.requests(pod), info.max)
        if names := exceeded(plus(request, used), limit):
            return Status.unschedulable(
                f"Insufficient quotas, quotaName: {name}, runtime: {text(limit)}, used: {text(used)}, "
                f"pod's request: {text(request)}, exceedDimensions: {_listed(names)}"
            )
        if is_non_preemptible(pod) and (names := exceeded(plus(request, kept_used), info.min)):
            return Status.unschedulable(
                f"Insufficient non-preemptible quotas, quotaName: {name}, min: {text(info.min)}, "
                f"nonPreemptibleUsed: {text(kept_used)}, pod's request: {text(request)}, "
                f"exceedDimensions: {_listed(names)}"
            )
        if refusal := self.trees.refusal_of_hooks(manager, name, pod):
            return Status.unschedulable(refusal)
        return self._check_parents(manager, info, request, own) if self._parents else SUCCESS

    def _with_nominated(self, used: Amounts, manager: PodAccounts, info: QuotaInfo, pod: Pod) -> Amounts:
        """Return what is used, with what more important pods are nominated for."""
        if not self._nominator:
            return used
        mine = priority_of(pod)
        for name in self._nominator.node_names:
            for other in self._nominator.pods_on(name):
                if priority_of(other) > mine and info.has(other) and not info.is_assigned(other):
                    charged, _ = self.trees.charged(other.metadata.uid)
                    if not charged:
                        used = plus(used, masked(manager.requests(other), info.max))
        return used

    def _check_parents(self, manager: PodAccounts, info: QuotaInfo, request: Amounts, own: Amounts) -> Status:
        path = [info.name]
        parent = info.parent_name
        while True:
            is_cycle = parent in path
            path.insert(0, parent)
            if parent == ROOT:
                return SUCCESS
            if is_cycle:
                return Status.failed(f"elasticQuota {parent} is below itself, quotaNameTopo: {_listed(path)}")
            step = manager.get(parent)
            if step is None:
                return Status.failed(
                    f"Could not find the elasticQuota {parent}, quotaNameTopo: {_listed(path)}"
                )
            used, limit = _with_tentative(step.used, step.tentative, own), self.limit_of(step)
            if names := exceeded(masked(plus(request, used), request), limit):
                return Status.unschedulable(
                    f"Insufficient quotas, quotaNameTopo: {_listed(path)}, runtime: {text(limit)}, "
                    f"used: {text(used)}, pod's request: {text(request)}, exceedDimensions: {_listed(names)}"
                )
            parent = step.parent_name

    def limit_of(self, info: QuotaInfo) -> Quantities:
        """Return what a quota may use: its runtime as of the last refresh, or its maximum."""
        return info.runtime if self._runtime else info.max


def move(state: CycleState, pod: Pod, sign: int, trees: QuotaTrees) -> Status:
    """Add a pod to, or remove it from, the usage that an attempt sees, if it counts in the same quota."""
    known = state.read(QUOTA_STATE)
    if known is None:
        return Status.failed(f'error reading "{QUOTA_STATE.name}" from cycleState: not found')
    state.write(QUOTA_STATE, moved(known, pod, sign, trees))
    return SUCCESS


def moved(known: QuotaState, pod: Pod, sign: int, trees: QuotaTrees) -> QuotaState:
    """Return what an attempt sees of its quota with a pod more or less; pods of other quotas do not count."""
    info = known.quota_info
    if known.skip or info is None or not info.has(pod):
        return known
    request = masked(trees.managers.default.requests(pod), info.max)
    used = plus(known.used, request) if sign > 0 else minus_not_negative(known.used, request)
    return replace(known, used=used)


def _with_tentative(used: Amounts, tentative: Amounts, own: Amounts) -> Amounts:
    """Return what is used, with what other pods are counted for tentatively."""
    if not tentative:
        return used
    others = minus_not_negative(tentative, own)
    return plus(used, {name: amount for name, amount in others.items() if not amount.is_zero})


def _listed(names: list[str]) -> str:
    return f"[{' '.join(names)}]"
