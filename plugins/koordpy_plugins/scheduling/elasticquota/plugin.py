"""ElasticQuota: a pod is scheduled only while its quota has room.

Quotas form trees. What a quota may use at present, its runtime, follows from what all quotas of the tree
request: at least its minimum, at most its maximum, and of the rest a share by weight. PreFilter compares it
with what the quota's pods use; between filter and Reserve, beside kube-scheduler, a pod counts tentatively.

Source: Koordinator, `pkg/scheduler/plugins/elasticquota`.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import ClassVar

from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Needs
from koordpy.api.quota.args import ElasticQuotaArgs
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    BeforePreFilter,
    Changed,
    ChangeHelps,
    EnqueueExtensions,
    Plugin,
    PostFilter,
    Preempt,
    PreFilter,
    Reserve,
    SignPlugin,
    TentativeReserve,
    Victims,
)
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Status

from .admission import REASONS, QuotaCheck, move
from .preemption.quota_preemption import QuotaPreemption
from .preemption.rights import RIGHTS as PREEMPTION_RIGHTS
from .provider import QuotaControllers
from .rights import RIGHTS
from .state.settings import QuotaSettings
from .state.trees import QuotaTrees
from .waking import EVENTS, have_room

_UNSEEN: StateKey[bool] = StateKey("koordpy.dev/quota-pod-unseen")


class ElasticQuota(
    Plugin,
    BeforePreFilter,
    PreFilter,
    PostFilter,
    Preempt,
    Reserve,
    TentativeReserve,
    SignPlugin,
    EnqueueExtensions,
    QuotaControllers,
):
    """Admits pods while their quotas have room."""

    name = "ElasticQuota"
    needs: ClassVar[Needs] = Needs(leads=True, rights=(*PREEMPTION_RIGHTS, *RIGHTS))
    args: ElasticQuotaArgs
    beside_kube_scheduler = True
    for_each_pod = True
    known_reasons = REASONS

    def __init__(self, args: ElasticQuotaArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.trees = handle.cluster.shared(QuotaTrees, QuotaSettings.of(args, handle.gates))
        self._pods = handle.cluster.store(Pod)
        self.check = QuotaCheck(
            self.trees,
            runtime=args.enable_runtime_quota,
            parents=args.enable_check_parent_quota,
            nominator=handle.nominator if args.preemption_fits_quota else None,
        )
        self.preemption = QuotaPreemption(args, handle, self.trees, self.check)
        handle.on_forget(lambda pod, _: self.trees.unreserve(pod))

    # --- filter ----------------------------------------------------------------------------------

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Sign pods with their quota: whether it still has room is checked for each of them."""
        return self.trees.quota_of(pod)

    def before_pre_filter(self, state: CycleState, pod: Pod) -> tuple[Pod | None, Status]:
        """Note whether the watch has shown the pod: kube-scheduler may be faster."""
        if not self._is_seen(pod):
            state.write(_UNSEEN, True)
        return None, SUCCESS

    def _is_seen(self, pod: Pod) -> bool:
        known = self._pods.by_key(pod.metadata.key)
        return known is not None and known.metadata.uid == pod.metadata.uid

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Refuse a pod whose quota has no room for it."""
        return None, self.check.check(state, pod, is_seen=not state.read(_UNSEEN))

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Count a pod of the same quota in a preemption dry run."""
        return move(state, added, 1, self.trees)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Stop counting a pod of the same quota in a preemption dry run."""
        return move(state, removed, -1, self.trees)

    # --- no node ---------------------------------------------------------------------------------

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Preempt less important pods of the same quota."""
        return await self.preemption.post_filter(state, pod, outcome)

    def preempt(self, state: CycleState, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Drop nodes on which victims would be evicted in vain, because the quota stays exceeded."""
        return self.preemption.review(state, pod, victims)

    # --- commit ----------------------------------------------------------------------------------

    def reserve_tentatively(self, state: CycleState, pod: Pod) -> None:
        """Count the pod in its quota until its bind call."""
        self.trees.charge(pod)

    def unreserve_tentatively(self, pod: Pod) -> None:
        """Stop counting the pod tentatively."""
        self.trees.discharge(pod.metadata.uid)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Check again, since the quota may have changed after filter, and count the pod as used."""
        is_seen = self._is_seen(pod) or is_reserve_pod(pod)
        status = self.check.check(CycleState(), pod, is_seen=is_seen)  # what filter saw stays in the state
        if not (status.is_success or status.is_skip):
            return status
        self.trees.reserve(pod)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Stop counting the pod as used."""
        self.trees.unreserve(pod)

    # --- outside the cycle -----------------------------------------------------------------------

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """Quotas that change, pods that end, and nodes."""
        return EVENTS

    def may_pass(self, pods: Sequence[Pod], changed: Changed) -> list[bool]:
        """Return which refused pods their quotas have room for by now."""
        return have_room(self.check, pods)
