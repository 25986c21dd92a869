"""Reservation: reserved resources are used by their owners, and by no other pods.

Before PreFilter the plugin finds the reservations that match the pod; from then on the resources of the other
reservations are withheld in the attempt's nodes. Filter compares the pod with the reservations of a node,
Score prefers nodes whose reservation the pod would fill, Reserve allocates it. Reservations themselves are
scheduled as reserve pods. What each point does is in `points`, for pods and for reserve pods.

Source: Koordinator, `pkg/scheduler/plugins/reservation`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import numpy as np

from koordpy.api import extension
from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Needs
from koordpy.api.reservation import Reservation as ReservationObject
from koordpy.api.reservation_status import may_help_pods
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.device_classes import DeviceClasses
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    APIService,
    BeforePreFilter,
    Bind,
    Binding,
    ChangeHelps,
    Controller,
    ControllerProvider,
    EnqueueExtensions,
    ExplainsFailure,
    Filter,
    NodeTransformer,
    Plugin,
    PostFilter,
    PreBind,
    PreFilter,
    PreScore,
    ReservationFilter,
    ReservationNominator,
    ReservationPairs,
    ReservationPreBind,
    ReservationScore,
    Reserve,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import SCORED, CycleState
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import PASS, SUCCESS, Code, Status, Verdict

from .args import ReservationArgs
from .attempt.node_view import NodeView
from .attempt.pod_preparation import PodPreparation
from .attempt.prepared import PREPARED, Prepared
from .attempt.reserve_pod_preparation import ReservePodPreparation
from .attempt.restoring import Restoring
from .commit.pods import PodCommit
from .commit.reservations import ReservationCommit
from .commit.users import ReservationUsers
from .controller.controller import ReservationController
from .explain.service import node_reservations
from .filter.node import NO_MATCH, NodeFilter
from .filter.pods import PodFilter
from .filter.pre_allocation import PreAllocation
from .filter.reserve_pods import ReservePodFilter
from .nomination.nominator import Nominator
from .nomination.pods import PodNomination
from .nomination.reserve_pods import ReservePodNomination
from .nomination.score import score_reservation
from .points.pods import PodPoints
from .points.points import Points
from .points.reserve_pods import ReservePodPoints
from .preemption import ReservationPreemption
from .published import PublishedReservations
from .rights import RIGHTS
from .state.cache import ReservationCache
from .state.nominations import Nominations
from .state.selector_index import SelectorIndex
from .state.withheld import Withheld


class Reservation(
    Plugin,
    BeforePreFilter,
    NodeTransformer,
    PreFilter,
    Filter,
    PostFilter,
    ExplainsFailure,
    PreScore,
    Score,
    Reserve,
    PreBind,
    Bind,
    ReservationFilter,
    ReservationScore,
    ReservationNominator,
    ReservationPreBind,
    SignPlugin,
    EnqueueExtensions,
    ControllerProvider,
    APIService,
):
    """Matches, withholds, scores and allocates reservations; schedules Reservations."""

    name = "Reservation"
    needs = Needs(leads=True, rights=RIGHTS)
    args: ReservationArgs
    reruns = ("NodeResourcesFit", "NodePorts", "InterPodAffinity", "PodTopologySpread")
    node_local = True

    def __init__(self, args: ReservationArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        cluster, config = handle.cluster, args.pre_allocation_config
        # What follows the cluster, shared by all profiles of a process.
        self.cache = cluster.shared(ReservationCache)
        self.withheld = cluster.shared(Withheld)
        # What this profile keeps: an index by labels as it is configured, and nominations of its pods.
        self.selectors = SelectorIndex(args.reservation_selector_index)
        if self.selectors.enabled:
            self.cache.on_reservations(self.selectors.put, self.selectors.discard)
        self.nominations = Nominations(self.cache, cluster.store(Pod), self.cache.reservations)
        # What attempts see, and the rules by which nodes are filtered and reservations nominated.
        self._view = NodeView(self.cache, self.withheld)
        self._restoring = Restoring(handle, self.withheld)
        node_filter = NodeFilter(args.ignores, self.withheld, cluster.shared(DeviceClasses))
        pre_allocation = PreAllocation(node_filter, prefers_none=config.prefer_no_pre_allocated_pods)
        nominator = Nominator(handle, self.nominations)
        self._pod_filter = PodFilter(self, self.withheld, self._view, node_filter)
        self._reserve_pod_filter = ReservePodFilter(
            self, self.withheld, self._view, pre_allocation, nominator.pre_allocation_totals
        )
        # What is taken and written.
        users = ReservationUsers(handle)
        self._pod_commit = PodCommit(handle, self.cache, users)
        self._reservation_commit = ReservationCommit(handle, self.cache, users)
        self._pods = PodPoints(
            handle.nodes,
            self.nominations,
            preparation=PodPreparation(handle, self.cache, self.withheld, self.selectors),
            pod_filter=self._pod_filter,
            nomination=PodNomination(self, self.withheld, self._pod_filter, nominator),
            nominator=nominator,
            commit=self._pod_commit,
        )
        self._reserve_pods = ReservePodPoints(
            handle.nodes,
            preparation=ReservePodPreparation(handle, self.withheld, config),
            reserve_pod_filter=self._reserve_pod_filter,
            nomination=ReservePodNomination(nominator),
            commit=self._reservation_commit,
        )
        self._preemption = ReservationPreemption(args, handle) if args.enable_preemption else None
        handle.publish_reservations(PublishedReservations(self.cache, self.nominations, handle.nodes))
        handle.on_forget(self._forgotten)
        handle.on_failure(self._attempt_failed)

    def _points(self, pod: Pod) -> Points:
        return self._reserve_pods if is_reserve_pod(pod) else self._pods

    def _prepared(self, state: CycleState, pod: Pod) -> Prepared | None:
        """Return what BeforePreFilter prepared, or prepare it where BeforePreFilter did not run."""
        prepared = state.read(PREPARED)
        if prepared is None:
            self.before_pre_filter(state, pod)
            prepared = state.read(PREPARED)
        return prepared

    # --- filter ----------------------------------------------------------------------------------

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Sign no pod that reservations make a difference to: the next one like it finds less in them."""
        on_pod = pod.metadata.annotations
        if (
            is_reserve_pod(pod)
            or extension.ANNOTATION_RESERVATION_AFFINITY in on_pod
            or extension.ANNOTATION_EXACT_MATCH_RESERVATION in on_pod
            or annotations.is_ignored_by(pod)
            or annotations.is_operating(pod.metadata)
        ):
            return None
        if self.nominations.has(pod) or any(True for _ in self.cache.owners.groups_of(pod)):
            return None
        return ()

    def before_pre_filter(self, state: CycleState, pod: Pod) -> tuple[Pod | None, Status]:
        """Find what is for the pod, and let other plugins give it back."""
        prepared, status = self._points(pod).prepare(state, pod)
        if prepared is not None:
            state.write(PREPARED, prepared)
            status = self._restoring.restore(state, prepared)
        return None, status

    def transform_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NodeSet:
        """Show nodes with what is withheld from the pod."""
        prepared = self._prepared(state, pod)
        return nodes if prepared is None else self._view.of(prepared, nodes)

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Restrict a pod that must use a reservation to its possible nodes; skip pods without any."""
        prepared = state.read(PREPARED)
        return (None, Status.skip()) if prepared is None else self._points(pod).pre_filter(prepared)

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Add a pod in a preemption dry run."""
        return self._count_moved(state, added, node, -1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Remove a pod in a preemption dry run."""
        return self._count_moved(state, removed, node, 1)

    def _count_moved(self, state: CycleState, moved: Pod, node: NodeInfo, sign: int) -> Status:
        prepared = state.read(PREPARED)
        if prepared is not None:
            info = self.cache.used_by(moved, node.name) or self.nominations.get(moved, node.name)
            prepared.preemptible.move(node.name, "" if info is None else info.uid, moved, sign)
        return SUCCESS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Refuse nodes where the pod does not fit with any of its reservations."""
        prepared = self._prepared(state, pod)
        return PASS if prepared is None else self._points(pod).filter(state, prepared, pod, nodes)

    def filter_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Refuse none: Filter compares the pod with its reservations itself."""
        return PASS

    def filter_nominate_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> Status:
        """Return whether the pod still fits into a reservation, or the Reservation by taking over the pod."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return Status.unschedulable(NO_MATCH)
        if reservation.is_pre_allocation:
            return self._reserve_pod_filter.filter_one(prepared, reservation, pod, node_name)
        return self._pod_filter.filter_one(prepared, reservation, node_name)

    def unmatched_on(self, prepared: Prepared, row: int) -> Sequence[ReservationInfo]:
        """Return the reservations of a node that other pods use and this attempt may not."""
        return self._restoring.unmatched_on(prepared, row)

    # --- no node ---------------------------------------------------------------------------------

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Preempt if that is enabled, and add the reasons that concern reservations."""
        if self._preemption is None:
            return None, Status.unschedulable(*self.reasons(state, pod, outcome))
        result, status = await self._preemption.post_filter(state, pod, outcome)
        if status.code is not Code.UNSCHEDULABLE:
            return result, status
        return result, Status.unschedulable(*status.reasons, *self.reasons(state, pod, outcome))

    def reasons(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> list[str]:
        """Return the reasons that concern reservations; none for most pods."""
        prepared = state.read(PREPARED)
        return [] if prepared is None else self._points(pod).reasons(prepared, outcome)

    def _attempt_failed(self, failure: Failure) -> bool:
        """Drop the nominations of a pod without a nominated node: it may find another one."""
        if failure.keeps_no_node:
            self.nominations.discard(failure.pod)
        return False

    # --- score -----------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Nominate a reservation on every node that has one for the pod."""
        prepared = self._prepared(state, pod)
        return Status.skip() if prepared is None else self._points(pod).pre_score(state, prepared, pod, nodes)

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Score nodes by the nominated reservations."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return np.zeros(len(nodes), np.int64)
        return self._points(pod).score(prepared, nodes)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
        """Scale a pod's highest score to 100; scores of Reservations stay."""
        return self._points(pod).normalize(scores)

    def score_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> int:
        """Return how full the pod would make a reservation."""
        return score_reservation(state.read(PREPARED), pod, reservation, node_name)

    # --- nominate and commit ---------------------------------------------------------------------

    def nominate_reservation(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        """Nominate on the chosen node."""
        prepared = self._prepared(state, pod)
        if prepared is None:
            return None, SUCCESS
        return self._points(pod).nominate(state, prepared, pod, node_name)

    def delete_nominated_reservation(self, pod: Pod) -> None:
        """Drop the nominations of a pod."""
        self.nominations.discard(pod)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Allocate the reservation to the pod, or the node to the Reservation."""
        prepared = self._prepared(state, pod)
        status = SUCCESS
        if prepared is not None:
            status = self._points(pod).reserve(state, prepared, pod, node_name)
        if status.is_success and (prepared is None or prepared.assumed is None):
            return self._missed(state, node_name)
        return status

    def _missed(self, state: CycleState, node_name: str) -> Status:
        """Refuse a node that was chosen for a reservation which the pod did not get, if others are left.

        Koordinator allocates a reservation in the scheduling cycle that chooses it. Where kube-scheduler
        chooses the node, the next pod is scored while the bind of the one before is in flight, so two
        replicas may count on the same reservation: the second is scheduled again, instead of leaving its own
        unused.
        """
        scored = state.read(SCORED)
        before = None if scored is None else scored.read(PREPARED)
        row = self.handle.nodes.row_of(node_name)
        if before is None or row is None:
            return SUCCESS
        nominated = before.nominated_reservations
        expected = nominated.get(row)
        if expected is None and nominated.preferred != row:
            return SUCCESS
        for other in nominated.infos:
            if other is not expected and self.nominations.stands(other):
                return Status.unschedulable(
                    f"the reservation on the node was allocated meanwhile, {other.name} is left"
                )
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Roll back Reserve."""
        self._points(pod).unreserve(state.read(PREPARED), pod, node_name)

    def _forgotten(self, pod: Pod, node_name: str) -> None:
        self.nominations.discard(pod)
        self._pod_commit.forget(pod)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Name the reservation that the pod uses in the binding."""
        prepared = state.read(PREPARED)
        if prepared is not None:
            self._pod_commit.annotate(prepared, binding)
        return SUCCESS

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        """Annotate the running pods that a Reservation takes over."""
        prepared = state.read(PREPARED)
        return SUCCESS if prepared is None else await self._reservation_commit.annotate_running(prepared)

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Write a Reservation's status; leave pods to the next plugin."""
        if not is_reserve_pod(pod):
            return Status.skip()
        return await self._reservation_commit.bind(pod, binding.node_name)

    # --- outside the cycle -----------------------------------------------------------------------

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """Reservations that become available, end, or offer something else to other pods."""
        return {ReservationObject: may_help_pods}

    def controllers(self) -> Sequence[Controller]:
        """The controller of the status of placed Reservations."""
        assert isinstance(self.args, ReservationArgs)
        return (ReservationController(self.handle, self.args),)

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """The reservations of a node, and the contents of the label index."""
        return {
            "nodeReservations/{node_name}": self._node_reservations,
            "reservationSelectorIndex": self._selector_index,
        }

    def _node_reservations(self, node_name: str) -> Mapping[str, Any]:
        return node_reservations(self.cache.on_node.get(node_name, {}).values())

    def _selector_index(self, detail: str = "") -> Mapping[str, Any]:
        return self.selectors.describe(detail=detail == "true")
