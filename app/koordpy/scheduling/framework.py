"""The runtime of one profile: its plugins, called point by point in Koordinator's order.

Nothing here talks to the network or knows who asks: the extender calls it verb by verb, the embedded
scheduler, what-ifs and reservations run whole cycles. How results of several plugins combine is Kubernetes'
and Koordinator's rule (`k8s.io/kubernetes/pkg/scheduler/framework/runtime`, Koordinator's
`pkg/scheduler/frameworkext/framework_extender.go`).
"""

import logging
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import ParamSpec, TypeVar

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.nodes import Int64, NodeSet
from koordpy.lib.feature_gates import FeatureGates

from .cycle_state import NOMINATED_PODS_TO_IGNORE, SCHEDULING_PHASE, CycleState
from .gates import (
    CROSS_SCHEDULER_NOMINATION,
    DYNAMIC_SCHEDULER_CHECK,
    RESIZE_POD,
    SKIP_FILTER_WITH_NOMINATED_PODS,
    scheduling_gates,
)
from .handle import Handle
from .interface import (
    MAX_NODE_SCORE,
    MIN_NODE_SCORE,
    AfterPostFilter,
    AfterPreFilter,
    BeforeFilter,
    BeforePreFilter,
    BeforeScore,
    Bind,
    Binding,
    Filter,
    FindOneNode,
    NextPod,
    NUMATopologyHintProvider,
    Permit,
    Plugin,
    PostBind,
    PostFilter,
    PreBind,
    Preempt,
    PreEnqueue,
    PreferNodes,
    PreFilter,
    PreScore,
    QueueSort,
    ReservationInfo,
    ReservationPreBind,
    Reserve,
    ResizePod,
    Score,
    Victims,
)
from .metrics import PLUGIN_DURATION
from .node_info import NodeInfo
from .outcome import FilterOutcome, PostFilterResult, Refusals, Scores
from .reservation_points import ReservationPoints
from .status import REJECTED, SUCCESS, Code, Status, Verdict

log = logging.getLogger(__name__)

P = ParamSpec("P")
R = TypeVar("R")
T = TypeVar("T")

MAX_PERMIT_WAIT = 15 * 60.0
"""Seconds; a Permit plugin cannot let a pod wait longer."""

_REJECTED_CODES = np.array([code in REJECTED for code in sorted(Code)])


@dataclass(slots=True)
class PreFilterOutcome:
    """What PreFilter came to: the only node names to look at (None: any), or why to stop."""

    status: Status = SUCCESS
    node_names: frozenset[str] | None = None
    rejectors: Sequence[str] = ()
    """The plugins that restricted the node names."""

    @property
    def absent_status(self) -> Status:
        """The status of nodes outside `node_names`."""
        return Status.unresolvable(f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(self.rejectors))}]")


class Broken(Exception):
    """A plugin raised, or answered what its point does not allow; carries the Error status."""

    def __init__(self, status: Status) -> None:
        super().__init__(status.message)
        self.status = status


class Framework:
    """The plugins of one profile, and the extension points that run them.

    `enabled` lists plugins by point (`koordpy.scheduling.config.POINTS`), in order; `weights` are those of
    Score; `plugins` are all of them in the order of construction.
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
    ) -> None:
        self.profile_name = profile_name
        self.plugins = tuple(plugins)
        self.handle = handle
        gates = gates or scheduling_gates()
        self._checks_scheduler = gates.enabled(DYNAMIC_SCHEDULER_CHECK)
        self._resizes = gates.enabled(RESIZE_POD)
        self._counts_foreign_nominations = gates.enabled(CROSS_SCHEDULER_NOMINATION)
        self._skips_second_pass = gates.enabled(SKIP_FILTER_WITH_NOMINATED_PODS)
        self._local_schedulers = local_schedulers | {profile_name}

        def at(point: str, role: type[T]) -> list[tuple[str, T]]:
            return [(p.name, p) for p in enabled.get(point, ()) if isinstance(p, role)]

        sorters = at("queue_sort", QueueSort)
        self.queue_sort: QueueSort | None = sorters[0][1] if sorters else None
        self._pre_enqueue = at("pre_enqueue", PreEnqueue)
        self._before_pre_filter = at("pre_filter", BeforePreFilter)
        self._pre_filter = at("pre_filter", PreFilter)
        self._after_pre_filter = at("pre_filter", AfterPreFilter)
        self._before_filter = at("filter", BeforeFilter)
        self._filter = at("filter", Filter)
        self._post_filter = at("post_filter", PostFilter)
        self._preempt = at("post_filter", Preempt)
        self._after_post_filter = at("post_filter", AfterPostFilter)
        self._pre_score = at("pre_score", PreScore)
        self._before_score = at("score", BeforeScore)
        self._score = [(name, plugin, weights.get(name) or 1) for name, plugin in at("score", Score)]
        self._reserve = at("reserve", Reserve)
        self._permit = at("permit", Permit)
        self._pre_bind = at("pre_bind", PreBind)
        self._pre_bind_reservation = at("pre_bind", ReservationPreBind)
        self._bind = at("bind", Bind)
        self._post_bind = at("post_bind", PostBind)
        self._resize = _with(plugins, ResizePod)
        self._find_one_node = _with(plugins, FindOneNode)[:1]
        self._prefer_nodes = _with(plugins, PreferNodes)[:1]
        self.next_pod: NextPod | None = next((p for _, p in _with(plugins, NextPod)), None)
        self.numa_hint_providers = [p for _, p in _with(plugins, NUMATopologyHintProvider)]
        self.reservations = ReservationPoints(plugins)
        handle.attach(self)

    @property
    def weights(self) -> dict[str, int]:
        """The weights of the Score plugins."""
        return {name: weight for name, _, weight in self._score}

    @property
    def scores(self) -> bool:
        """Whether any plugin scores."""
        return bool(self._score)

    def new_state(self) -> CycleState:
        """Return the state of a new attempt; every tenth has its plugins' times measured."""
        state = CycleState()
        state.measured = self.handle.rng.random() < 0.1
        return state

    # --- calling plugins -------------------------------------------------------------------------

    def _call(
        self, state: CycleState, point: str, name: str, method: Callable[P, R], *args: P.args, **kw: P.kwargs
    ) -> R:
        if not state.measured:
            try:
                return method(*args, **kw)
            except Exception as error:
                raise self._broken(point, name, error) from error
        started = time.perf_counter()
        outcome = "Success"
        try:
            return method(*args, **kw)
        except Exception as error:
            outcome = "Error"
            raise self._broken(point, name, error) from error
        finally:
            PLUGIN_DURATION.labels(name, point, outcome).observe(time.perf_counter() - started)

    def _broken(self, point: str, name: str, error: Exception) -> Broken:
        log.exception("plugin %s raised at %s", name, point)
        return Broken(
            Status(
                Code.ERROR,
                (f'running {point} plugin "{name}": {type(error).__name__}: {error}',),
                name,
                error=error,
            )
        )

    # --- queue -----------------------------------------------------------------------------------

    def run_pre_enqueue(self, pod: Pod) -> Status:
        """Return the first refusal to queue a pod, else Success."""
        for name, plugin in self._pre_enqueue:
            status = plugin.pre_enqueue(pod)
            if not status.is_success:
                return status.by(name)
        return SUCCESS

    # --- PreFilter -------------------------------------------------------------------------------

    def run_pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> PreFilterOutcome:
        """Run BeforePreFilter, PreFilter, AfterPreFilter, FindOneNode and PreferNodes."""
        try:
            return self._run_pre_filter(state, pod, nodes)
        except Broken as broken:
            return PreFilterOutcome(broken.status)

    def _run_pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> PreFilterOutcome:
        for name, before in self._before_pre_filter:
            changed, status = self._call(state, "BeforePreFilter", name, before.before_pre_filter, state, pod)
            if not status.is_success:
                return PreFilterOutcome(status.by(name))
            pod = changed or pod
        outcome = self._stock_pre_filter(state, pod, nodes)
        if not outcome.status.is_success:
            return outcome
        for name, after in self._after_pre_filter:
            status = self._call(
                state, "AfterPreFilter", name, after.after_pre_filter, state, pod, outcome.node_names
            )
            if not status.is_success:
                return PreFilterOutcome(status.by(name))
        for name, finder in self._find_one_node:
            node_name, status = self._call(
                state, "FindOneNodePlugin", name, finder.find_one_node, state, pod, outcome.node_names
            )
            if status.is_skip:
                continue
            if not status.is_success:
                return PreFilterOutcome(status.by(name))
            if not node_name:
                return PreFilterOutcome(
                    Status.failed(
                        f'FindOneNodePlugin "{name}" succeeded but produced no node for pod '
                        f"{pod.metadata.key}"
                    )
                )
            return PreFilterOutcome(node_names=frozenset((node_name,)))
        for name, preferrer in self._prefer_nodes:
            names, status = self._call(
                state, "PreferNodesPlugin", name, preferrer.prefer_nodes, state, pod, outcome.node_names
            )
            if status.is_skip:
                continue
            if not status.is_success:
                return PreFilterOutcome(status.by(name))
            for node_name in names:
                one, missing = nodes.table.select([node_name])
                if not missing and self.run_filters(state, pod, one).feasible.any():
                    return PreFilterOutcome(node_names=frozenset((node_name,)))
        return outcome

    def _stock_pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> PreFilterOutcome:
        node_names: frozenset[str] | None = None
        rejectors: list[str] = []
        refused: Status | None = None
        for name, plugin in self._pre_filter:
            allowed, status = self._call(state, "PreFilter", name, plugin.pre_filter, state, pod, nodes)
            if status.is_skip:
                state.skip_filter.add(name)
                continue
            if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                return PreFilterOutcome(status.by(name))
            if status.code is Code.UNSCHEDULABLE:
                refused = status.by(name)
                continue
            if not status.is_success:
                return PreFilterOutcome(_error(f'running PreFilter plugin "{name}"', status, name))
            if allowed is None:
                continue
            rejectors.append(name)
            node_names = allowed if node_names is None else node_names & allowed
            if not node_names:
                reason = (
                    f"node(s) didn't satisfy plugin(s) [{' '.join(sorted(rejectors))}] simultaneously"
                    if len(rejectors) > 1
                    else f"node(s) didn't satisfy plugin {name}"
                )
                return PreFilterOutcome(Status.unresolvable(reason))
        if refused is not None:
            return PreFilterOutcome(refused)
        return PreFilterOutcome(SUCCESS, node_names, rejectors)

    # --- Filter ----------------------------------------------------------------------------------

    def find_feasible(self, state: CycleState, pod: Pod, nodes: NodeSet) -> FilterOutcome:
        """Run PreFilter, then Filter on those of the nodes that PreFilter left."""
        outcome = self.run_pre_filter(state, pod, nodes)
        if not outcome.status.is_success:
            error = None if outcome.status.is_rejected else outcome.status
            return FilterOutcome(nodes, np.zeros(len(nodes), np.bool_), prefilter=outcome.status, error=error)
        if outcome.node_names is None:
            return self.run_filters(state, pod, nodes)
        left = np.fromiter((name in outcome.node_names for name in nodes.names), np.bool_, len(nodes))
        result = self.run_filters(state, pod, nodes.subset(left))
        result.absent = [nodes.names[i] for i in np.flatnonzero(~left).tolist()]
        result.absent_status = outcome.absent_status
        return result

    def run_filters(self, state: CycleState, pod: Pod, nodes: NodeSet) -> FilterOutcome:
        """Run BeforeFilter and Filter; nodes with nominated pods must also pass with these on them."""
        outcome = FilterOutcome(nodes, np.ones(len(nodes), np.bool_))
        try:
            shown_pod, shown = pod, nodes
            for name, before in self._before_filter:
                shown_pod, shown, verdict = self._call(
                    state, "BeforeFilter", name, before.before_filter, state, shown_pod, shown
                )
                self._take(outcome, name, verdict, None)
            self._filter_pass(state, shown_pod, shown, outcome)
            if self.handle.nominator:
                self._filter_with_nominated(state, shown_pod, shown, outcome)
        except Broken as broken:
            outcome.error = broken.status
        return outcome

    def _filter_pass(self, state: CycleState, pod: Pod, nodes: NodeSet, outcome: FilterOutcome) -> None:
        feasible = outcome.feasible
        total = len(nodes)
        for name, plugin in self._filter:
            if name in state.skip_filter:
                continue
            left = int(np.count_nonzero(feasible))
            if not left:
                return
            asked: Int64 | None = None
            subset = nodes
            if left < total and (left * 2 < total or type(plugin).filter_nodes is Filter.filter_nodes):
                asked = np.flatnonzero(feasible)
                subset = nodes.pick(asked)
            verdict = self._call(state, "Filter", name, plugin.filter_nodes, state, pod, subset)
            self._take(outcome, name, verdict, asked)

    def _take(self, outcome: FilterOutcome, name: str, verdict: Verdict, asked: Int64 | None) -> None:
        """Count a verdict against the nodes that are still feasible."""
        codes = verdict.codes
        if codes is None:
            return
        refused: Int64
        if asked is None:
            refused = np.flatnonzero((codes != 0) & outcome.feasible)
            failed = codes[refused]
        else:
            positions = np.flatnonzero(codes)
            refused, failed = asked[positions], codes[positions]
        if not len(refused):
            return
        refusals = Refusals(name, refused, verdict, asked)
        allowed = _REJECTED_CODES[failed]
        if not allowed.all():
            status = refusals.status(int(refused[int(np.argmin(allowed))]))
            raise Broken(_error(f'running "{name}" filter plugin', status, name))
        outcome.feasible[refused] = False
        outcome.refusals.append(refusals)

    def _filter_with_nominated(
        self, state: CycleState, pod: Pod, nodes: NodeSet, outcome: FilterOutcome
    ) -> None:
        """Try again, with the more important nominated pods in place, the nodes that have such pods."""
        ignored = state.read(NOMINATED_PODS_TO_IGNORE) or frozenset()
        counted: dict[str, list[Pod]] = {}
        for node_name in self.handle.nominator.node_names:
            pods = [
                nominated
                for nominated in self.handle.nominator.pods_on(node_name)
                if self._outranks(nominated, pod)
                and nominated.metadata.uid != pod.metadata.uid
                and nominated.metadata.uid not in ignored
            ]
            if pods:
                counted[node_name] = pods
        if not counted:
            return
        refused: list[Refusals] = []
        failing: list[int] = []
        for index, name in enumerate(nodes.names):
            if name not in counted:
                continue
            at = np.array([index], np.int64)
            one = FilterOutcome(nodes.pick(at).with_pods({name: counted[name]}), np.ones(1, np.bool_))
            what_if = state.clone()
            for added in counted[name]:
                self.add_pod(what_if, pod, added, NodeInfo(one.nodes, 0))
            self._filter_pass(what_if, pod, one.nodes, one)
            if not one.feasible[0]:
                failing.append(index)
                refused.extend(Refusals(r.plugin, at, r.verdict, at) for r in one.refusals)
            elif self._skips_second_pass:
                _readmit(outcome, at)
        _readmit(outcome, np.array(failing, np.int64))
        outcome.feasible[failing] = False
        outcome.refusals.extend(refused)

    def _outranks(self, nominated: Pod, pod: Pod) -> bool:
        """Tell whether a nominated pod's share counts against a pod."""
        mine, other = pod.spec.priority or 0, nominated.spec.priority or 0
        if (nominated.spec.scheduler_name or "default-scheduler") in self._local_schedulers:
            return other >= mine
        return self._counts_foreign_nominations and other > mine

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> None:
        """Tell the PreFilter plugins that another pod is on a node in this state. Raises Broken."""
        for name, plugin in self._pre_filter:
            if name not in state.skip_filter:
                status = self._call(state, "AddPod", name, plugin.add_pod, state, pod, added, node)
                if not status.is_success:
                    raise Broken(_error(f'running AddPod on PreFilter plugin "{name}"', status, name))

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        """Tell the PreFilter plugins that a pod is no longer on a node in this state. Raises Broken."""
        for name, plugin in self._pre_filter:
            if name not in state.skip_filter:
                status = self._call(state, "RemovePod", name, plugin.remove_pod, state, pod, removed, node)
                if not status.is_success:
                    raise Broken(_error(f'running RemovePod on PreFilter plugin "{name}"', status, name))

    # --- PostFilter ------------------------------------------------------------------------------

    async def run_post_filter(
        self, state: CycleState, pod: Pod, outcome: FilterOutcome
    ) -> tuple[PostFilterResult | None, Status]:
        """Run PostFilter and AfterPostFilter after no node was found."""
        state.write(SCHEDULING_PHASE, "PostFilter")
        result: PostFilterResult | None = None
        reasons: list[str] = []
        rejector = ""
        final: Status | None = None
        for name, plugin in self._post_filter:
            try:
                nominated, status = await plugin.post_filter(state, pod, outcome)
            except Exception as error:
                final = self._broken("PostFilter", name, error).status
                break
            if status.is_success or status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                result, final = nominated, status.by(name)
                break
            if not status.is_rejected:
                final = _error(f'running PostFilter plugin "{name}"', status, name)
                break
            if nominated is not None and nominated.override:
                result = nominated
            reasons.extend(status.reasons)
            rejector = rejector or name
        if final is None:
            final = Status(Code.UNSCHEDULABLE, tuple(reasons), rejector)
        for name, observer in self._after_post_filter:
            try:
                observer.after_post_filter(state, pod, outcome, final)
            except Exception:
                log.exception("plugin %s raised at AfterPostFilter", name)
        state.delete(SCHEDULING_PHASE)
        return result, final

    def run_preempt(
        self, state: CycleState, pod: Pod, victims: Mapping[str, Victims]
    ) -> tuple[Mapping[str, Victims], Status]:
        """Let plugins change proposed victims by node name; each sees what the one before left."""
        state.write(SCHEDULING_PHASE, "PostFilter")
        try:
            for name, plugin in self._preempt:
                victims = self._call(state, "PostFilter", name, plugin.preempt, state, pod, victims)
        except Broken as broken:
            return {}, broken.status
        finally:
            state.delete(SCHEDULING_PHASE)
        return victims, SUCCESS

    # --- Score -----------------------------------------------------------------------------------

    def run_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[Scores | None, Status]:
        """Run PreScore, BeforeScore and Score; return normalised, weighted scores of all the nodes."""
        try:
            status = self._run_pre_score(state, pod, nodes)
            if not status.is_success:
                return None, status
            for name, before in self._before_score:
                pod, nodes, status = self._call(
                    state, "BeforeScore", name, before.before_score, state, pod, nodes
                )
                if not status.is_success:
                    return None, status
            return self._run_score(state, pod, nodes), SUCCESS
        except Broken as broken:
            return None, broken.status

    def _run_pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        for name, plugin in self._pre_score:
            status = self._call(state, "PreScore", name, plugin.pre_score, state, pod, nodes)
            if status.is_skip:
                state.skip_score.add(name)
            elif not status.is_success:
                return _error(f'running PreScore plugin "{name}"', status, name)
        return SUCCESS

    def _run_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Scores:
        by_plugin: dict[str, Int64] = {}
        total = np.zeros(len(nodes), np.int64)
        for name, plugin, weight in self._score:
            if name in state.skip_score:
                continue
            raw = self._call(state, "Score", name, plugin.score_nodes, state, pod, nodes)
            scores = self._call(
                state, "ScoreExtensionNormalize", name, plugin.normalize_scores, state, pod, raw
            )
            if len(scores) and (scores.min() < MIN_NODE_SCORE or scores.max() > MAX_NODE_SCORE):
                outside = scores[(scores < MIN_NODE_SCORE) | (scores > MAX_NODE_SCORE)][0]
                raise Broken(
                    Status.failed(
                        f'plugin "{name}" returns an invalid score {outside}, it should in the range '
                        f"of [{MIN_NODE_SCORE}, {MAX_NODE_SCORE}] after normalizing"
                    ).by(name)
                )
            by_plugin[name] = scores * weight
            total += by_plugin[name]
        return Scores(nodes, by_plugin, total)

    # --- from host to binding --------------------------------------------------------------------

    def nominate_reservation(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Let the profile's nominator choose the reservation that the pod will use on its node."""
        nominator = self.reservations.nominator
        if nominator is None:
            return SUCCESS
        try:
            return nominator.nominate_reservation(state, pod, node_name)[1]
        except Exception as error:
            return self._broken("NominateReservation", type(nominator).__name__, error).status

    def run_resize_pod(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Pod, Status]:
        """Let plugins change what the pod requests (gate ResizePod); the first failure is the answer."""
        if not self._resizes:
            return pod, SUCCESS
        try:
            for name, plugin in self._resize:
                pod, status = self._call(state, "ResizePod", name, plugin.resize_pod, state, pod, node_name)
                if not status.is_success:
                    return pod, status.by(name)
        except Broken as broken:
            return pod, broken.status
        return pod, SUCCESS

    def run_reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Run Reserve; on a failure the caller runs `run_unreserve`."""
        state.write(SCHEDULING_PHASE, "Reserve")
        status = SUCCESS
        try:
            for name, plugin in self._reserve:
                status = self._call(state, "Reserve", name, plugin.reserve, state, pod, node_name)
                if not status.is_success:
                    if not status.is_rejected:
                        status = _error(f'running Reserve plugin "{name}"', status, name)
                    status = status.by(name)
                    break
        except Broken as broken:
            status = broken.status
        finally:
            if self.reservations.nominator is not None:
                self.reservations.nominator.delete_nominated_reservation(pod)
            state.delete(SCHEDULING_PHASE)
        return status

    def run_unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Run Unreserve of all Reserve plugins in reverse order; one that raises does not stop the others."""
        for name, plugin in reversed(self._reserve):
            try:
                plugin.unreserve(state, pod, node_name)
            except Exception:
                log.exception("plugin %s raised at Unreserve of pod %s", name, pod.metadata.key)

    def run_permit(self, state: CycleState, pod: Pod, node_name: str) -> tuple[Status, dict[str, float]]:
        """Run Permit; with code Wait also return the plugins that wait, with their timeouts in seconds."""
        waits: dict[str, float] = {}
        try:
            for name, plugin in self._permit:
                status = self._call(state, "Permit", name, plugin.permit, state, pod, node_name)
                if status.code is Code.WAIT:
                    waits[name] = min(status.timeout, MAX_PERMIT_WAIT)
                elif not status.is_success:
                    if not status.is_rejected:
                        status = _error(f'running Permit plugin "{name}"', status, name)
                    return status.by(name), {}
        except Broken as broken:
            return broken.status, {}
        return (Status(Code.WAIT) if waits else SUCCESS), waits

    async def run_pre_bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Check that the pod is still ours, then run PreBind, which fills the binding's annotations.

        A pod that the watch does not show (yet, or any more) counts as it was handed in: the API server
        refuses to bind what is gone.
        """
        if self._checks_scheduler:
            status = self._check_still_ours(pod)
            if not status.is_success:
                return status
        for name, plugin in self._pre_bind:
            try:
                status = await plugin.pre_bind(state, pod, binding.node_name, binding)
            except Exception as error:
                return self._broken("PreBind", name, error).status
            if not status.is_success:
                if not status.is_rejected:
                    status = _error(f'running PreBind plugin "{name}"', status, name)
                return status.by(name)
        return SUCCESS

    async def run_pre_bind_reservation(
        self, state: CycleState, reservation: ReservationInfo, binding: Binding
    ) -> Status:
        """Run PreBindReservation in PreBind's order; for reserve pods it takes PreBind's place."""
        for name, plugin in self._pre_bind_reservation:
            try:
                status = await plugin.pre_bind_reservation(state, reservation, binding.node_name, binding)
            except Exception as error:
                return self._broken("PreBindReservation", name, error).status
            if not status.is_success:
                return _error(f'running ReservationPreBindPlugin plugin "{name}"', status, name)
        return SUCCESS

    def _check_still_ours(self, pod: Pod) -> Status:
        live = self.handle.cluster.store(Pod).get(pod.metadata.namespace, pod.metadata.name) or pod
        if (live.spec.scheduler_name or "default-scheduler") != self.profile_name:
            return Status.failed("schedulerName unmatched")
        if live.metadata.deletion_timestamp:
            return Status.failed("pod is being deleted")
        return SUCCESS

    async def run_bind(self, state: CycleState, pod: Pod, binding: Binding) -> Status:
        """Run Bind plugins until one does not skip; without any the status is Skip."""
        for name, plugin in self._bind:
            try:
                status = await plugin.bind(state, pod, binding)
            except Exception as error:
                return self._broken("Bind", name, error).status
            if status.is_skip:
                continue
            if not status.is_success and not status.is_rejected:
                status = _error(f'running Bind plugin "{name}"', status, name)
            return status.by(name) if not status.is_success else status
        return Status.skip()

    def run_post_bind(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Tell PostBind plugins; one that raises does not stop the others."""
        for name, plugin in self._post_bind:
            try:
                plugin.post_bind(state, pod, node_name)
            except Exception:
                log.exception("plugin %s raised at PostBind of pod %s", name, pod.metadata.key)


def _with(plugins: Iterable[Plugin], role: type[T]) -> list[tuple[str, T]]:
    return [(plugin.name, plugin) for plugin in plugins if isinstance(plugin, role)]


def _error(where: str, status: Status, plugin: str) -> Status:
    return Status(Code.ERROR, (f"{where}: {status.message}",), plugin, error=status.error)


def _readmit(outcome: FilterOutcome, indexes: Int64) -> None:
    """Take back what the pass without nominated pods said of some nodes."""
    if not len(indexes):
        return
    outcome.feasible[indexes] = True
    for refusals in outcome.refusals:
        refusals.indexes = refusals.indexes[~np.isin(refusals.indexes, indexes)]
