"""Coscheduling: the pods of a gang are scheduled together, or none of them.

PreEnqueue holds pods back until their whole group of gangs exists. Where koordpy is the scheduler itself, the
pods of a group are then tried one after the other, in a round (`rounds.py`); beside kube-scheduler they are
planned at once (`jobs.py`). Permit is the last guard: a pod that has a node waits until its whole group does
(`waiting.py`).

Source: Koordinator, `pkg/scheduler/plugins/coscheduling`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import ClassVar

import numpy as np

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_name
from koordpy.api.gang.settings import GangDefaults
from koordpy.api.koordinator import PodGroup
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Needs
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.feature_gates import FeatureSpec
from koordpy.scheduling.interface import (
    AfterPostFilter,
    APIService,
    BeforePreFilter,
    Binding,
    Changed,
    ChangeHelps,
    Controller,
    ControllerProvider,
    EnqueueExtensions,
    Job,
    NextPod,
    Permit,
    PlansJobs,
    Plugin,
    PostBind,
    PostFilter,
    PreBind,
    PreEnqueue,
    PreFilter,
    PreScore,
    ReservationInfo,
    ReservationPreBind,
    Reserve,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.jobs import MOVED
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Status

from . import conditions
from .args import CoschedulingArgs
from .conditions import PendingConditions
from .controller.controller import PodGroupController
from .jobs import GangJobs
from .rights import RIGHTS
from .rounds import GangRounds
from .service import GangService
from .state.context import ContextHolder
from .state.gang_cache import GangCache
from .waiting import GangWaiting
from .waking import GangWaking


class Coscheduling(
    Plugin,
    PreEnqueue,
    NextPod,
    PlansJobs,
    BeforePreFilter,
    PreFilter,
    PostFilter,
    AfterPostFilter,
    PreScore,
    Score,
    Reserve,
    Permit,
    PreBind,
    ReservationPreBind,
    PostBind,
    SignPlugin,
    EnqueueExtensions,
    ControllerProvider,
    APIService,
):
    """Schedules gangs whole."""

    name = "Coscheduling"
    needs = Needs(leads=True, rights=RIGHTS)
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {conditions.GATE: conditions.SPEC}
    args: CoschedulingArgs
    beside_kube_scheduler = True
    pre_enqueue_events = (PodGroup,)

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        defaults = GangDefaults(args.default_timeout, args.default_match_policy)
        self.cache = GangCache(handle, defaults)
        self.holder = ContextHolder(handle.clock)
        self.waiting = GangWaiting(self.name, handle, self.cache, self.holder)
        self._conditions = PendingConditions(handle, self.cache)
        self.rounds = GangRounds(handle, self.cache, self.holder, self.waiting, self._conditions)
        self._jobs = GangJobs(
            self.name, handle, self.cache, self.holder, self.rounds, self.waiting, self._conditions
        )
        self._waking = GangWaking(self.cache, handle.cluster.store(Pod))
        self._service = GangService(self.cache)
        handle.on_forget(self._forgotten)

    # --- which pods are tried --------------------------------------------------------------------

    def may_refuse(self, pod: Pod) -> bool:
        """Pods without a gang are never held back."""
        return bool(gang_name(pod))

    def pre_enqueue(self, pod: Pod) -> Status:
        """Admit pods whose whole group of gangs has enough pods."""
        return self.rounds.pre_enqueue(pod)

    def next_pod(self) -> Pod | None:
        """Try all pods of a group before any other pod."""
        return self.rounds.next_pod()

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """PodGroups and members that may complete a gang."""
        return self._waking.events()

    def may_pass(self, pods: Sequence[Pod], changed: Changed) -> list[bool]:
        """Return for each pod whether its group has become complete."""
        return self._waking.may_pass(pods, changed)

    # --- jobs ------------------------------------------------------------------------------------

    def may_plan(self, pod: Pod) -> bool:
        """Only pods of gangs are planned."""
        return bool(gang_name(pod))

    def job_of(self, pod: Pod) -> Job | None:
        """Return the pending pods of the pod's group."""
        return self._jobs.job_of(pod)

    def planning(self, job: Job) -> None:
        """Begin the round of a group."""
        self._jobs.planning(job)

    def job_planned(self, job: Job, nodes: Mapping[str, str]) -> None:
        """End the round: the group has nodes."""
        self._jobs.job_planned()

    def job_refused(self, job: Job, status: Status) -> None:
        """End the round: the group does not fit."""
        self._jobs.job_refused(job, status)

    def job_examined(self, job: Job) -> None:
        """End the round: it was about nothing but whether the group fits."""
        self._jobs.job_examined()

    # --- filter ----------------------------------------------------------------------------------

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Sign no pod of a gang: what becomes of it depends on the others."""
        return None if gang_name(pod) else ()

    def before_pre_filter(self, state: CycleState, pod: Pod) -> tuple[Pod | None, Status]:
        """Refuse pods of incomplete groups, and the rest of a group that has failed in this round."""
        return None, self.rounds.before_pre_filter(state, pod)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Leave all nodes."""
        return None, Status.skip()

    # --- no node ---------------------------------------------------------------------------------

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Leave it to the next plugin, with the reason why preemption did not help the group before."""
        return None, self.rounds.post_filter(state)

    def after_post_filter(self, state: CycleState, pod: Pod, outcome: FilterOutcome, status: Status) -> None:
        """Let the whole group fail with the pod."""
        self.rounds.after_post_filter(state, pod, outcome, status)

    # --- score -----------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Score nothing."""
        return Status.skip()

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Score all nodes alike."""
        return np.zeros(len(nodes), np.int64)

    # --- from the chosen node to the binding -----------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Allocate nothing: Permit records the pod."""
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Let the pods of a Strict gang that wait fail with the pod."""
        self.waiting.unreserve(pod, is_moved=state.read(MOVED) is True)

    def permit(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Let the pod wait until its whole group has nodes."""
        return self.waiting.permit(pod)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Add the number of pods that are bound together."""
        self.waiting.annotate(binding)
        return SUCCESS

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        """Do the same for a Reservation."""
        self.waiting.annotate(binding)
        return SUCCESS

    def post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Count the pod as bound."""
        self.waiting.post_bind(pod)

    def _forgotten(self, pod: Pod, node_name: str) -> None:
        gang = self.cache.gang_of(pod)
        if gang is not None:
            gang.unbind(pod.metadata.key)

    # --- outside the cycle -----------------------------------------------------------------------

    def controllers(self) -> Sequence[Controller]:
        """The controller of the status of PodGroups."""
        return (PodGroupController(self.handle, self.cache, self.args.controller_workers),)

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """One gang, and all gangs."""
        return {"gang/{namespace}/{name}": self._service.gang, "gangs": self._service.gangs}
