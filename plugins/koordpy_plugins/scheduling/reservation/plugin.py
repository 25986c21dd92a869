"""Reservation: pods use what was set aside for them, and nobody else does.

Before PreFilter the plugin finds the reservations that are for the pod; BeforeFilter and BeforeScore show
later plugins nodes with what the other reservations hold; Filter looks whether the pod fits with one
reservation of a node, Score prefers nodes whose reservation it would fill, Reserve takes it. Reservations
themselves come by as reserve pods. Source: Koordinator, `pkg/scheduler/plugins/reservation`.
"""

from collections.abc import Callable, Hashable, Mapping, Sequence

import numpy as np

from koordpy.api import extension
from koordpy.api import reservation_annotations as annotations
from koordpy.api.core import Pod
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Needs
from koordpy.api.reservation import Reservation as ReservationObject
from koordpy.api.reservation_status import may_help_pods
from koordpy.api.reserve_pod import is_reserve_pod
from koordpy.api.resources import pod_requests
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    APIService,
    BeforeFilter,
    BeforePreFilter,
    BeforeScore,
    Bind,
    Binding,
    ChangeHelps,
    Controller,
    ControllerProvider,
    EnqueueExtensions,
    ExplainsFailure,
    Filter,
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
from koordpy.scheduling.interface.args import PluginArgs
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.failure import Failure
from koordpy.scheduling.interface.gates import OMIT_NODE_LABELS_FOR_RESERVATION, SKIP_RESERVATION_FITS_NODE
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.outcome import FilterOutcome, PostFilterResult
from koordpy.scheduling.interface.reservation_info import ReservationInfo
from koordpy.scheduling.interface.status import PASS, SUCCESS, Code, Status, Verdict

from . import scoring, service
from .args import ReservationArgs
from .cache import ReservationCache
from .candidates import Candidates
from .commit import Commit
from .controller.controller import ReservationController
from .judge import NO_MATCH, Judge
from .matches import NodeMatch
from .nominations import Nominations
from .nominator import Nominator
from .overlay import Shower
from .pods import MISSING_NODE, Pods
from .post_filter_reasons import reasons_for, status_lookup
from .pre_allocation import NO_POD, NOTHING_FITS, PreAllocation
from .preemption import ReservationPreemption
from .preparation import Preparation
from .prepared import PREPARED, Prepared
from .reserve_pods import ReservePods
from .restoring import Restoring
from .rights import RIGHTS
from .selector_index import SelectorIndex
from .withheld import Withheld


class Reservation(
    Plugin,
    BeforePreFilter,
    PreFilter,
    BeforeFilter,
    Filter,
    PostFilter,
    ExplainsFailure,
    PreScore,
    BeforeScore,
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
    """Finds, withholds, scores and hands out reservations; places Reservations."""

    name = "Reservation"
    needs = Needs(leads=True, rights=RIGHTS)
    args_type = ReservationArgs
    looks_again = ("NodeResourcesFit", "NodePorts")
    node_local = True

    def __init__(self, args: PluginArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        assert isinstance(args, ReservationArgs)
        config = args.pre_allocation_config
        pods = handle.cluster.store(Pod)
        self.cache = handle.cluster.shared(ReservationCache)
        self.withheld = handle.cluster.shared(Withheld)
        self.selectors = SelectorIndex(args.reservation_selector_index)
        if self.selectors.enabled:
            self.cache.on_reservations(self.selectors.put, self.selectors.discard)
        self.nominations = Nominations(self.cache, pods, self.cache.reservations)
        self._preparation = Preparation(
            args, handle, self.cache, self.withheld, self.selectors, Candidates(config, pods)
        )
        self._restoring = Restoring(handle.nodes, self.withheld)
        self._shower = Shower(self.cache, self.withheld)
        self._judge = Judge(args.ignores, self.withheld)
        self._pre_allocation = PreAllocation(self._judge, prefers_none=config.prefer_no_pre_allocated_pods)
        self._nominator = Nominator(handle.nodes, self.nominations, lambda: handle.framework.reservations)
        self._commit = Commit(handle, self.cache)
        self._pods = Pods(
            self,
            self.withheld,
            self._shower,
            self._judge,
            self._nominator,
            lambda: handle.framework.reservations,
            self.score_reservation,
            lambda: handle.gates.enabled(SKIP_RESERVATION_FITS_NODE),
        )
        self._reserve_pods = ReservePods(
            self,
            self.withheld,
            self._pre_allocation,
            self._nominator,
            lambda: handle.framework.reservations,
            self.score_reservation,
        )
        self._preemption = ReservationPreemption(args, handle) if args.enable_preemption else None
        handle.on_forget(self._forgotten)
        handle.on_failure(self._attempt_failed)

    # --- what there is for a pod -----------------------------------------------------------------

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """A pod that has to do with reservations is a case of its own: the next one finds less in them."""
        said = pod.metadata.annotations
        if (
            is_reserve_pod(pod)
            or extension.ANNOTATION_RESERVATION_AFFINITY in said
            or extension.ANNOTATION_EXACT_MATCH_RESERVATION in said
            or annotations.is_ignored_by(pod)
            or annotations.is_operating(pod.metadata)
        ):
            return None
        if self.nominations.has(pod) or any(True for _ in self.cache.owners.groups_of(pod)):
            return None
        return ()

    def before_pre_filter(self, state: CycleState, pod: Pod) -> tuple[Pod | None, Status]:
        """Find the reservations that are for the pod."""
        omit = self.handle.gates.enabled(OMIT_NODE_LABELS_FOR_RESERVATION)
        if is_reserve_pod(pod):
            prepared, status = self._preparation.of_reserve_pod(pod, omit_node_labels=omit)
        else:
            prepared, status = self._preparation.of_pod(state, pod, omit_node_labels=omit)
        if prepared is not None:
            state.write(PREPARED, prepared)
            status = self._restoring.restore(state, prepared, self.handle.framework.reservations)
        return None, status

    def _prepared(self, state: CycleState, pod: Pod) -> Prepared | None:
        """What was found; anew where BeforePreFilter did not run."""
        prepared = state.read(PREPARED)
        if prepared is None:
            self.before_pre_filter(state, pod)
            prepared = state.read(PREPARED)
        return prepared

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Leave only the nodes with reservations to a pod that needs one; skip pods without any."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return None, Status.skip()
        if is_reserve_pod(pod):
            if prepared.problem:
                return None, Status.failed(prepared.problem)
            if not prepared.required:
                return None, SUCCESS
            names = frozenset(map(self.handle.nodes.name_of, prepared.matches))
            return (names, SUCCESS) if names else (None, Status.unresolvable(NO_POD))
        if prepared.wish.affinity is not None:
            names = frozenset(map(self.handle.nodes.name_of, prepared.matches))
            return (names, SUCCESS) if names else (None, Status.unresolvable(NO_MATCH))
        return None, SUCCESS if prepared.has_nodes else Status.skip()

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> Status:
        """Count a pod that preemption puts back in thought."""
        return self._move(state, pod, added, node, -1)

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> Status:
        """Count what a pod frees that preemption takes away in thought."""
        return self._move(state, pod, removed, node, 1)

    def _move(self, state: CycleState, pod: Pod, moved: Pod, node: NodeInfo, sign: int) -> Status:
        prepared = state.read(PREPARED)
        if prepared is not None:
            info = self.cache.used_by(moved, node.name) or self.nominations.get(moved, node.name)
            prepared.preemptible.move(node.name, "" if info is None else info.uid, moved, sign)
        return SUCCESS

    def unmatched_on(self, prepared: Prepared, row: int) -> Sequence[ReservationInfo]:
        """Return the reservations of a node that other pods use and this attempt may not."""
        return self._restoring.unmatched_on(prepared, row)

    # --- filter ----------------------------------------------------------------------------------

    def before_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Verdict]:
        """Show what is withheld from the pod."""
        prepared = self._prepared(state, pod)
        return pod, nodes if prepared is None else self._shower.show(prepared, nodes), PASS

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Look at the nodes with something for the pod, and at policies that exclude each other."""
        prepared = self._prepared(state, pod)
        if prepared is None:
            return PASS
        kind = self._reserve_pods if is_reserve_pod(pod) else self._pods
        return kind.filter(state, prepared, pod, nodes)

    def filter_reservations(self, state: CycleState, pairs: ReservationPairs) -> Verdict:
        """Have no objection beside Filter's."""
        return PASS

    def filter_nominate_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> Status:
        """Look whether the pod still fits into a reservation, alone."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return Status.unschedulable(NO_MATCH)
        if not prepared.is_pre_allocation:
            return self._pods.judge_alone(prepared, reservation, node_name)
        row = self.handle.nodes.row_of(node_name)
        if row is None or self.handle.nodes.node(row) is None:
            return Status.unschedulable(MISSING_NODE)
        node = NodeInfo(self._shower.show(prepared, self.handle.nodes.select([node_name])[0]), 0)
        match = prepared.matches.get(row) or NodeMatch(node_name)
        return self._pre_allocation.nominate(prepared, match, node, pod)

    async def post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Make room if that is enabled, and say what the pod's reservations had to do with it."""
        if self._preemption is None:
            return None, Status.unschedulable(*self.reasons(state, pod, outcome))
        result, status = await self._preemption.post_filter(state, pod, outcome)
        if status.code is not Code.UNSCHEDULABLE:
            return result, status
        return result, Status.unschedulable(*status.reasons, *self.reasons(state, pod, outcome))

    def reasons(self, state: CycleState, pod: Pod, outcome: FilterOutcome) -> list[str]:
        """Return the reasons that are about reservations; none for most pods."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return []
        has_affinity = prepared.wish.affinity is not None
        if prepared.places is None:  # a Reservation's attempt, which has counted already
            return reasons_for(prepared.diagnoses.items(), status_lookup(outcome), has_affinity=False)
        omit = self.handle.gates.enabled(OMIT_NODE_LABELS_FOR_RESERVATION)
        diagnoses = self._preparation.diagnose(prepared.wish, prepared.places, omit_node_labels=omit)
        return reasons_for(diagnoses, status_lookup(outcome), has_affinity=has_affinity)

    # --- score -----------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Nominate a reservation on every node that has one for the pod."""
        prepared = self._prepared(state, pod)
        if prepared is None or prepared.wish.ignores_reservations:
            return Status.skip()
        kind = self._reserve_pods if is_reserve_pod(pod) else self._pods
        return kind.pre_score(state, prepared, pod, nodes)

    def before_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Pod, NodeSet, Status]:
        """Show what is withheld from the pod."""
        prepared = self._prepared(state, pod)
        return pod, nodes if prepared is None else self._shower.show(prepared, nodes), SUCCESS

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Rank nodes by the reservation nominated there; one that goes before all others wins."""
        prepared = state.read(PREPARED)
        if prepared is None:
            return np.zeros(len(nodes), np.int64)
        if is_reserve_pod(pod):
            return self._reserve_pods.score(state, prepared, nodes)
        return self._pods.score(prepared, nodes)

    def normalize_scores(self, state: CycleState, pod: Pod, scores: Int64) -> Int64:
        """Bring the highest score of a pod to 100; those of Reservations stay."""
        return scores if is_reserve_pod(pod) else scoring.normalize(scores)

    def score_reservation(
        self, state: CycleState, pod: Pod, reservation: ReservationInfo, node_name: str
    ) -> int:
        """Tell how full the pod would make a reservation."""
        prepared = state.read(PREPARED)
        freed = {} if prepared is None else prepared.preemptible.in_(node_name, reservation.uid)
        if prepared is not None and prepared.wish.pod.metadata.uid == pod.metadata.uid:
            return scoring.score(prepared.wish.requests, reservation, freed)
        return scoring.score(pod_requests(pod), reservation, freed)

    # --- nominate and commit ---------------------------------------------------------------------

    def nominate_reservation(
        self, state: CycleState, pod: Pod, node_name: str
    ) -> tuple[ReservationInfo | None, Status]:
        """Choose on the node that was chosen."""
        prepared = self._prepared(state, pod)
        if prepared is None or prepared.wish.ignores_reservations:
            return None, SUCCESS
        if is_reserve_pod(pod):
            return None, self._reserve_pods.nominate(state, prepared, pod, node_name)
        info, status = self._nominator.for_pod(
            state, prepared, pod, self.handle.nodes.row_of(node_name), node_name
        )
        if not status.is_success:
            return None, status
        if info is None:
            wanted = prepared.wish.affinity is not None
            return None, Status.unschedulable(NO_MATCH) if wanted else SUCCESS
        self.nominations.add(pod, node_name, info)
        return info, SUCCESS

    def _forgotten(self, pod: Pod, node_name: str) -> None:
        self.nominations.discard(pod)
        self._commit.forget(pod, node_name)

    def _attempt_failed(self, failure: Failure) -> bool:
        """Forget what was chosen for a pod that is promised no node: it may find another one."""
        if failure.keeps_no_node:
            self.nominations.discard(failure.pod)
        return False

    def delete_nominated_reservation(self, pod: Pod) -> None:
        """Forget what was chosen for a pod."""
        self.nominations.discard(pod)

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Count the pod in its reservation, the Reservation on its node."""
        prepared = self._prepared(state, pod)
        if prepared is None:
            return SUCCESS
        if is_reserve_pod(pod):
            pods = prepared.nominated.get(node_name, ())
            status = self._commit.take_node(prepared, node_name, pods)
            if status.is_success and prepared.required and not pods:
                return Status.unschedulable(NOTHING_FITS)
            return status
        info, status = self.nominate_reservation(state, pod, node_name)
        return status if info is None else self._commit.take(prepared, pod, info)

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Give back what Reserve took."""
        prepared = state.read(PREPARED)
        if is_reserve_pod(pod):
            self._commit.give_node_back(prepared, pod, node_name)
        elif prepared is not None:
            self._commit.give_back(prepared, pod, node_name)

    async def pre_bind(self, state: CycleState, pod: Pod, node_name: str, binding: Binding) -> Status:
        """Say in the binding which reservation the pod uses."""
        prepared = state.read(PREPARED)
        if prepared is not None:
            self._commit.annotate(prepared, binding)
        return SUCCESS

    async def pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, node_name: str, binding: Binding
    ) -> Status:
        """Mark the running pods that a Reservation takes over."""
        prepared = state.read(PREPARED)
        return SUCCESS if prepared is None else await self._commit.mark_running(prepared)

    async def bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Write a Reservation's status; leave pods to the next plugin."""
        if not is_reserve_pod(pod):
            return Status.skip()
        return await self._commit.bind(pod, binding.node_name)

    # --- beside the cycle ------------------------------------------------------------------------

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """Reservations that become available, end, or offer something else to other pods."""
        return {ReservationObject: may_help_pods}

    def controllers(self) -> Sequence[Controller]:
        """The one that keeps the status of placed Reservations true."""
        assert isinstance(self.args, ReservationArgs)
        return (ReservationController(self.handle, self.args),)

    # --- REST ------------------------------------------------------------------------------------

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """The reservations of a node, and what the index by labels holds."""
        return {
            "nodeReservations/{node_name}": lambda node_name: service.node_reservations(
                self.cache.on_node.get(node_name, {}).values()
            ),
            "reservationSelectorIndex": lambda detail="": self.selectors.describe(detail=detail == "true"),
        }
