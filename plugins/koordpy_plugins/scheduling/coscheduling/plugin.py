"""Coscheduling: the pods of a gang are scheduled together, or none of them.

PreEnqueue holds pods back until their whole group of gangs exists. Where koordpy is the scheduler itself, the
pods of a group are then tried one after the other, in a round (`rounds.py`); beside kube-scheduler they are
planned at once (`jobs.py`). Permit is the last guard: a pod that has a node waits until its whole group does
(`waiting.py`).

Source: Koordinator, `pkg/scheduler/plugins/coscheduling`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import ClassVar

from koordpy.api.core import Pod
from koordpy.api.gang.membership import gang_id, gang_name
from koordpy.api.gang.settings import GangDefaults
from koordpy.api.koordinator import PodGroup
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Needs
from koordpy.api.network_topology import ANNOTATION_SELECTOR
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
    FindOneNode,
    Job,
    NextPod,
    Permit,
    PlacementPlan,
    PlansJobs,
    Plugin,
    PostBind,
    PostFilter,
    PreBind,
    Preempt,
    PreEnqueue,
    PreFilter,
    PreScore,
    Reach,
    ReservationInfo,
    ReservationPreBind,
    Reserve,
    Score,
    SignPlugin,
    Victims,
)
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.jobs import MOVED
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.status import SUCCESS, Status

from . import conditions, waking
from .args import CoschedulingArgs
from .conditions import PendingConditions
from .controller.controller import PodGroupController
from .jobs import GangJobs
from .preemption.gang_preemption import GangPreemption
from .rights import RIGHTS
from .rounds import GangRounds
from .service import GangService
from .state.context import GANG_GONE, ContextHolder
from .state.gang_cache import GangCache
from .topology.layouts import Layouts
from .topology.members import selector_of
from .topology.placement import NetworkPlacement
from .topology.selector_counts import SelectorCounts
from .topology.selector_score import SelectorScore
from .waiting import GangWaiting
from .waking import GangWaking


class Coscheduling(
    Plugin,
    PreEnqueue,
    NextPod,
    PlansJobs,
    BeforePreFilter,
    PreFilter,
    FindOneNode,
    PostFilter,
    Preempt,
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
    reach = Reach.NOWHERE
    reads_requests = False
    is_separable = True
    needs = Needs(leads=True, rights=RIGHTS)
    feature_gates: ClassVar[Mapping[str, FeatureSpec]] = {conditions.GATE: conditions.SPEC}
    args: CoschedulingArgs
    reruns = ("NodeResourcesFit",)  # kube-scheduler does not know what planned gangs hold
    beside_kube_scheduler = True
    pre_enqueue_events = (PodGroup,)
    known_reasons = waking.REASONS

    def __init__(self, args: CoschedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.beside_kube_scheduler = args.enable_preemption
        defaults = GangDefaults(args.default_timeout, args.default_match_policy)
        self.cache = GangCache(handle, defaults)
        self.holder = ContextHolder(handle.clock)
        self.waiting = GangWaiting(self.name, handle, self.cache, self.holder)
        self._conditions = PendingConditions(handle, self.cache)
        self.rounds = GangRounds(
            handle,
            self.cache,
            self.holder,
            self.waiting,
            self._conditions,
            ignores_topology=args.ignore_network_topology_spec,
        )
        counts, layouts = handle.cluster.shared(SelectorCounts), Layouts(handle)
        self._placement = NetworkPlacement(handle, counts, layouts)
        self._selector_score = SelectorScore(handle, counts, layouts)
        self._jobs = GangJobs(
            self.name, handle, self.cache, self.holder, self.rounds, self.waiting, self._conditions
        )
        self._preemption = GangPreemption(
            args, handle, self.cache, self.rounds, self._jobs, self.waiting, self._placement, layouts
        )
        self._waking = GangWaking(self.cache, handle.cluster.store(Pod))
        if handle.network_topology is not None and args.aware_network_topology:
            self._waking.follow_network(handle)
        self._service = GangService(self.cache)
        handle.on(PodGroup, delete=self._pod_group_gone)  # after the cache has handled it
        handle.on_forget(self._forgotten)

    # --- which pods are tried --------------------------------------------------------------------

    def may_refuse(self, pod: Pod) -> bool:
        """Pods without a gang are never held back."""
        return bool(gang_name(pod))

    def pre_enqueue(self, pod: Pod) -> Status:
        """Admit pods whose whole group of gangs has enough pods."""
        return self.rounds.pre_enqueue(pod)

    def pre_enqueue_concerned(self, changed: Changed) -> Iterable[str]:
        """The pods of groups that may have become complete."""
        return self._waking.concerned(changed)

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
        """Sign pods with their gang, whose pods are planned together; not those with a selector, whose place
        depends on where each of the others is."""
        return None if selector_of(pod) else gang_id(pod)

    def sign_member(self, pod: Pod) -> Hashable | None:
        """Sign pods alike, unless their group wants a place in the network, or they are scored by the nodes
        that the others before them got."""
        gang = self.cache.gang_of(pod)
        is_alone = gang is None or gang.settings.topology_spec is not None
        return None if is_alone or ANNOTATION_SELECTOR in pod.metadata.annotations else ()

    def before_pre_filter(self, state: CycleState, pod: Pod) -> tuple[Pod | None, Status]:
        """Refuse pods of incomplete groups, and the rest of a group that has failed in this round."""
        return None, self.rounds.before_pre_filter(state, pod)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Keep a pod of a group that is planned by network topology to its planned node."""
        return self._placement.pre_filter(self.rounds.context_of(state), state, pod)

    def find_one_node(
        self, state: CycleState, pod: Pod, node_names: frozenset[str] | None
    ) -> tuple[str | PlacementPlan, Status]:
        """Plan the nodes of a whole group, if it wants a place in the network."""
        if not self.args.aware_network_topology:
            return "", Status.skip()
        context = self.rounds.context_of(state)
        pending = [] if context is None else self.rounds.pending(context)
        plan, status = self._placement.find_one_node(context, pending, state, node_names)
        return plan or "", status

    # --- no node ---------------------------------------------------------------------------------

    def preempt(self, state: CycleState, pod: Pod, victims: Mapping[str, Victims]) -> Mapping[str, Victims]:
        """Evict nobody for a pod that could not be bound anyway, and would preempt again and again."""
        return {} if self.waiting.is_in_vain(pod) else victims

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Evict less important pods for the whole group, if that is enabled."""
        if self.args.enable_preemption:
            return await self._preemption.post_filter(state, pod, outcome)
        return None, self.rounds.post_filter(state)

    def after_post_filter(self, state: CycleState, pod: Pod, outcome: FilterOutcome, status: Status) -> None:
        """Let the whole group fail with the pod."""
        self.rounds.after_post_filter(state, pod, outcome, status)

    # --- score -----------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Score only for pods with a selector, where the network is known."""
        return self._selector_score.pre_score(state, pod, nodes)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Rank nodes by how near they are to pods of the same selector, the best 0."""
        return self._selector_score.score_nodes(state, pod, nodes)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
        """Turn ranks into scores: the best node gets 100."""
        return self._selector_score.normalize_scores(scores)

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

    def _pod_group_gone(self, pod_group: PodGroup) -> None:
        """Let those go that wait for the others of a gang that has ended: nobody would ever allow them."""
        self.waiting.reject((pod_group.metadata.key,), GANG_GONE)

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
