"""One profile: its plugins, and the phases of scheduling that run them point by point in Koordinator's order.

Nothing here talks to the network or depends on the caller: the extender calls it verb by verb, the embedded
scheduler, what-ifs and reservations run whole cycles.
"""

from collections.abc import Mapping, Sequence

from koordpy.api.core import Pod
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface import (
    Filter,
    NextPod,
    NUMATopologyHintProvider,
    PlansJobs,
    Plugin,
    PreEnqueue,
    QueueSort,
    SignPlugin,
    TentativeReserve,
)
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.gates import OPPORTUNISTIC_BATCHING, scheduling_gates
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status

from .bind_phase import BindPhase
from .enabled_plugins import EnabledPlugins
from .filter_phase import FilterPhase
from .plugin_call import Broken, broken, call, timed, timed_async
from .post_filter_phase import PostFilterPhase
from .reservation_phase import ReservationPhase
from .score_phase import ScorePhase
from .signature import Signer

_FIT = "NodeResourcesFit"


class Framework:
    """The plugins of one profile, and the extension points that run them.

    `enabled` lists plugins by point (`profiles.config.POINTS`), in order; `weights` are those of Score;
    `plugins` are all of them in the order of construction; `reruns` names those that kube-scheduler has run
    already (`Plugin.reruns`).
    """

    def __init__(
        self,
        profile_name: str,
        plugins: Sequence[Plugin],
        enabled: Mapping[str, Sequence[Plugin]],
        weights: Mapping[str, int],
        handle: Handle,
        *,
        gates: FeatureGates | None = None,
        local_schedulers: frozenset[str] = frozenset(),
        reruns: frozenset[str] = frozenset(),
    ) -> None:
        self.profile_name = profile_name
        self.plugins = tuple(plugins)
        self.handle = handle
        gates = handle.gates = gates or scheduling_gates()
        self.enabled = by_point = EnabledPlugins(self.plugins, enabled)
        sorters = by_point.at("queue_sort", QueueSort)
        self.queue_sort: QueueSort | None = sorters[0][1] if sorters else None
        self.pre_enqueue_plugins = dict(by_point.at("pre_enqueue", PreEnqueue))
        self.next_pod: NextPod | None = next((p for _, p in by_point.having(NextPod)), None)
        self.numa_hint_providers = [p for _, p in by_point.having(NUMATopologyHintProvider)]
        self.reservations = ReservationPhase(self.plugins, handle.debug_flags)

        self.tentative = by_point.at("reserve", TentativeReserve)
        """The plugins that count pods between filter and bind, with their names."""
        planners = by_point.at("pre_filter", PlansJobs)
        self._plans_jobs = planners[0][1] if planners else None
        self._separable = [
            each.name for each in self.plugins if isinstance(each, SignPlugin) and each.is_separable
        ]
        self.signer = Signer(by_point, enabled=gates.enabled(OPPORTUNISTIC_BATCHING))

        # The phases do the work; their methods are the framework's.
        schedulers = local_schedulers | {profile_name}
        filters = FilterPhase(by_point, handle.nominator, gates, schedulers, reruns)
        self.run_pre_filter = filters.run_pre_filter
        self.pre_filter_each = filters.pre_filter_each
        self.pre_filter_again = filters.pre_filter_again
        self.find_feasible = filters.find_feasible
        self.run_filters = filters.run_filters
        self.add_pod = filters.add_pod
        self.remove_pod = filters.remove_pod
        self.tracks_pods = filters.tracks_pods
        self.entangled = filters.entangled
        self._fit = next((plugin for name, plugin in by_point.at("filter", Filter) if name == _FIT), None)
        post_filters = PostFilterPhase(by_point)
        self.run_post_filter = timed_async("PostFilter", profile_name, post_filters.run_post_filter)
        self.has_post_filter = post_filters.enabled
        """Whether any plugin preempts for pods that fit nowhere."""
        beside = PostFilterPhase(by_point, beside_kube_scheduler=True)
        self.run_post_filter_beside = timed_async("PostFilter", profile_name, beside.run_post_filter)
        self.preempts_beside = beside.enabled
        """Whether any plugin preempts beside kube-scheduler."""
        self.explain_failure = post_filters.explain_failure
        self.run_preempt = post_filters.run_preempt
        scores = ScorePhase(by_point, weights)
        self.run_score = scores.run_score
        self.raw_scores = scores.raw_scores
        self.is_normalizing = scores.is_normalizing
        self.weighted_scores = scores.weighted
        self.replaces_before_score = scores.replaces_before_score
        self.are_relative = scores.are_relative
        self.weights = scores.weights
        """The weights of the Score plugins."""
        self.gpu_choosers = scores.gpu_choosers
        binds = BindPhase(by_point, handle.cluster, gates, profile_name, self.reservations.nominator)
        self.nominate_reservation = binds.nominate_reservation
        self.delete_nominated_reservation = binds.delete_nominated_reservation
        self.run_resize_pod = binds.run_resize_pod
        self.run_reserve = timed("Reserve", profile_name, binds.run_reserve)
        self.run_unreserve = binds.run_unreserve
        self.run_permit = timed("Permit", profile_name, binds.run_permit)
        self.run_pre_bind = timed_async("PreBind", profile_name, binds.run_pre_bind)
        self.run_pre_bind_reservation = binds.run_pre_bind_reservation
        self.run_bind = timed_async("Bind", profile_name, binds.run_bind)
        self.run_post_bind = timed("PostBind", profile_name, binds.run_post_bind)

    @property
    def scores(self) -> bool:
        """Whether any plugin scores."""
        return bool(self.weights)

    def placed_with(self, pod: Pod) -> Sequence[Pod]:
        """Return the pods that are placed together with a pod and have no node yet, without the pod."""
        if self._plans_jobs is None or not self._plans_jobs.may_plan(pod):
            return ()
        job = self._plans_jobs.job_of(pod)
        return () if job is None else [each for each in job.pods if each.metadata.uid != pod.metadata.uid]

    def new_state(self) -> CycleState:
        """Return the state of a new attempt; in every tenth the plugins are timed."""
        state = CycleState()
        state.measured = self.handle.rng.random() < 0.1
        return state

    def run_fit(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Return whether a pod fits beside the pods on the only node of a set.

        Filter sees nodes as transformers show them, and with Koordinator's reservations these may show more
        free resources than there are: an owner that takes more than its reservation holds makes others appear
        smaller. A profile without NodeResourcesFit leaves this to kube-scheduler.
        """
        if self._fit is None:
            return SUCCESS
        try:
            status = call(state, "Filter", _FIT, self._fit.filter_nodes, state, pod, nodes).status(0)
        except Broken as failure:
            return failure.status
        return status if status.is_success else status.by(_FIT)

    def drop_lookups(self, state: CycleState) -> None:
        """Drop what separable plugins stored to find a node for a pod that has one now: it may be large."""
        for name in self._separable:
            state.delete(StateKey(f"PreFilter{name}"))
            state.delete(StateKey(f"PreScore{name}"))

    def run_pre_enqueue(self, pod: Pod) -> Status:
        """Return the first rejection by a PreEnqueue plugin, else Success."""
        for name, plugin in self.pre_enqueue_plugins.items():
            status = pre_enqueue(name, plugin, pod)
            if not status.is_success:
                return status
        return SUCCESS


def pre_enqueue(name: str, plugin: PreEnqueue, pod: Pod) -> Status:
    """Return the status of one PreEnqueue plugin for a pod; an Error if it raises."""
    try:
        status = plugin.pre_enqueue(pod) if plugin.may_refuse(pod) else SUCCESS
    except Exception as error:
        return broken("PreEnqueue", name, error).status
    return status if status.is_success else status.by(name)
