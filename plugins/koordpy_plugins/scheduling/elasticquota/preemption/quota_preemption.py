"""Evicts less important pods of the same quota for a pod that its quota, or every node, has no room for.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota/preempt.go`.
"""

from collections.abc import Callable
from dataclasses import replace

from koordpy.api.core import Pod
from koordpy.api.quota.info import DEFAULT
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import Code, Status
from koordpy.scheduling.preemption import Evaluator, Rules, priority_of

from ..admission import QUOTA_STATE, QuotaState, moved
from ..state.amounts import exceeded, masked, plus
from ..state.pod_accounts import is_non_preemptible
from ..state.trees import QuotaTrees


class QuotaLimit:
    """The quota of a preempting pod, followed for each node of a dry run by itself."""

    def __init__(self, trees: QuotaTrees, known: QuotaState, pod: Pod) -> None:
        self._trees, self._known = trees, known
        self._request = trees.managers.default.requests(pod)
        self._on_node: dict[str, QuotaState] = {}

    def took(self, node_name: str, pod: Pod) -> None:
        """Note that a pod was removed from a node."""
        self._move(node_name, pod, -1)

    def gave_back(self, node_name: str, pod: Pod) -> None:
        """Note that a pod was put back."""
        self._move(node_name, pod, 1)

    def allows(self, node_name: str) -> bool:
        """Return whether the pod is within the limit of its quota in the resources that it requests."""
        known = self._on_node.get(node_name, self._known)
        if known.skip:
            return True
        used = masked(plus(known.used, self._request), self._request)
        return not exceeded(used, known.used_limit)

    def _move(self, node_name: str, pod: Pod, sign: int) -> None:
        known = self._on_node.get(node_name, self._known)
        self._on_node[node_name] = moved(known, pod, sign, self._trees)


class QuotaPreemption:
    """Koordinator's rules of preemption within a quota."""

    def __init__(self, name: str, handle: Handle, trees: QuotaTrees, *, spares_default: bool) -> None:
        self._trees, self._spares_default = trees, spares_default
        pods = handle.cluster.store(Pod)
        self.evaluator = Evaluator(
            name,
            handle,
            Rules(
                min_candidate_nodes_percentage=100,
                min_candidate_nodes_absolute=0,
                latest=lambda pod: pods.by_key(pod.metadata.key),
                spares=self._spares,
                starts_anywhere=False,
                in_background=False,
                may_preempt=self._is_less_important_peer,
                waits_for=lambda pod, victim: (
                    bool(victim.metadata.deletion_timestamp) and self._is_less_important_peer(pod, victim)
                ),
                limit=self._limit,
                no_victims=lambda pod, node: Status.unresolvable(
                    f"No victims found on node {node} for preemptor pod {pod.metadata.name}"
                ),
            ),
        )

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Preempt within the quota; a message says that it is about preemption."""
        result, status = await self.evaluator.preempt(state, pod, outcome)
        if status.code is Code.SUCCESS or not status.message:
            return result, status
        return result, replace(status, reasons=(f"preemption: {status.message}",))

    def _spares(self, victim: Pod) -> bool:
        if is_non_preemptible(victim):
            return True
        return self._spares_default and self._trees.quota_of(victim)[0] == DEFAULT

    def _is_less_important_peer(self, pod: Pod, victim: Pod) -> bool:
        if priority_of(victim) >= priority_of(pod):
            return False
        return self._trees.quota_of(victim)[0] == self._trees.quota_of(pod)[0]

    def _limit(self, state: CycleState, pod: Pod) -> Callable[[], QuotaLimit]:
        known = state.read(QUOTA_STATE) or QuotaState(skip=True)
        return lambda: QuotaLimit(self._trees, known, pod)
