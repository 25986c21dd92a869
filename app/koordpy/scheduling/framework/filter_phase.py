"""Which nodes a pod can go to: PreFilter, Filter, and the points around them.

The rules for combining results of several plugins are Kubernetes' and Koordinator's
(`k8s.io/kubernetes/pkg/scheduler/framework/runtime`, Koordinator's
`pkg/scheduler/frameworkext/framework_extender.go`).
"""

from collections.abc import Collection

import numpy as np

from koordpy.api.core import Pod
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.feature_gates import FeatureGates
from koordpy.scheduling.interface import (
    AfterPreFilter,
    BeforeFilter,
    BeforePreFilter,
    Filter,
    FindOneNode,
    NodeTransformer,
    PreferNodes,
    PreFilter,
)
from koordpy.scheduling.interface.cycle_state import NOMINATED_PODS_TO_IGNORE, CycleState
from koordpy.scheduling.interface.gates import CROSS_SCHEDULER_NOMINATION, SKIP_FILTER_WITH_NOMINATED_PODS
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.interface.nominator import Nominator
from koordpy.scheduling.interface.outcome import FilterOutcome, PreFilterOutcome, Refusals
from koordpy.scheduling.interface.plan import PLAN, PLANNED_NODE, PlacementPlan
from koordpy.scheduling.interface.status import REJECTED, SUCCESS, Code, Status, Verdict

from .enabled_plugins import EnabledPlugins
from .plugin_call import Broken, as_error, call

_NOWHERE = np.zeros(0, np.int64)

_REJECTED_CODES = np.array([code in REJECTED for code in sorted(Code)])


class FilterPhase:
    """The plugins that decide which nodes a pod can go to.

    Pods nominated by `local_schedulers` count by Kubernetes' rule, those of others by the gate. `reruns` are
    in-tree plugins that kube-scheduler has run already.
    """

    def __init__(
        self,
        enabled: EnabledPlugins,
        nominator: Nominator,
        gates: FeatureGates,
        local_schedulers: frozenset[str],
        reruns: frozenset[str],
    ) -> None:
        self._nominator = nominator
        self._reruns = reruns
        self._local_schedulers = local_schedulers
        self._counts_foreign_nominations = gates.enabled(CROSS_SCHEDULER_NOMINATION)
        self._skips_second_pass = gates.enabled(SKIP_FILTER_WITH_NOMINATED_PODS)
        self._before_pre_filter = enabled.at("pre_filter", BeforePreFilter)
        self._pre_filter = enabled.at("pre_filter", PreFilter)
        self._for_each_pod = [(name, plugin) for name, plugin in self._pre_filter if plugin.for_each_pod]
        self._after_pre_filter = enabled.at("pre_filter", AfterPreFilter)
        self._find_one_node = enabled.having(FindOneNode)[:1]
        self._prefer_nodes = enabled.having(PreferNodes)[:1]
        transformers = (*enabled.at("pre_filter", NodeTransformer), *enabled.at("filter", NodeTransformer))
        self._transformers = dict(transformers)
        self._before_filter = enabled.at("filter", BeforeFilter)
        self._filter = enabled.at("filter", Filter)
        self._followers = [(name, plugin) for name, plugin in self._pre_filter if _follows_pods(plugin)]

    def run_pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> PreFilterOutcome:
        """Run BeforePreFilter, PreFilter, AfterPreFilter, FindOneNode and PreferNodes."""
        try:
            return self._run_pre_filter(state, pod, nodes)
        except Broken as broken:
            return PreFilterOutcome(broken.status)

    def pre_filter_each(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Run the PreFilter plugins that must run for each of several identical pods, after a first one."""
        try:
            for name, plugin in self._for_each_pod:
                if name not in state.skip_filter:
                    _, status = call(state, "PreFilter", name, plugin.pre_filter, state, pod, nodes)
                    if not status.is_success:
                        return status.by(name)
        except Broken as broken:
            return broken.status
        return SUCCESS

    def pre_filter_again(self, state: CycleState, pod: Pod, nodes: NodeSet, names: Collection[str]) -> bool:
        """Run some PreFilter plugins in the state of another pod, and those that must run for each pod.

        Return whether they leave all nodes to the pod; if not, it must be evaluated alone.
        """
        try:
            shown = self._transformed(state, pod, nodes)
            for name, plugin in self._pre_filter:
                if name not in names and not plugin.for_each_pod:
                    continue
                allowed, status = call(state, "PreFilter", name, plugin.pre_filter, state, pod, shown)
                if status.is_skip:
                    state.skip_filter.add(name)
                    continue
                if allowed is not None or not status.is_success:
                    return False
                state.skip_filter.discard(name)
        except Broken:
            return False
        return True

    def _run_pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> PreFilterOutcome:
        for name, before in self._before_pre_filter:
            changed, status = call(state, "BeforePreFilter", name, before.before_pre_filter, state, pod)
            if not status.is_success:
                return PreFilterOutcome(status.by(name))
            pod = changed or pod
        outcome = self._stock_pre_filter(state, pod, self._transformed(state, pod, nodes))
        if not outcome.status.is_success:
            return outcome
        for name, after in self._after_pre_filter:
            status = call(
                state, "AfterPreFilter", name, after.after_pre_filter, state, pod, outcome.node_names
            )
            if not status.is_success:
                return PreFilterOutcome(status.by(name))
        for name, finder in self._find_one_node:
            planned = state.read(PLANNED_NODE)
            if planned is not None:
                if outcome.node_names is None or planned in outcome.node_names:
                    return PreFilterOutcome(node_names=frozenset((planned,)), rejectors=[name])
                state.delete(PLANNED_NODE)
            found, status = call(
                state, "FindOneNodePlugin", name, finder.find_one_node, state, pod, outcome.node_names
            )
            if status.is_skip:
                continue
            if not status.is_success:
                return PreFilterOutcome(status.by(name))
            if isinstance(found, PlacementPlan):
                state.write(PLAN, found)
                found = found.node_of.get(pod.metadata.uid, "")
            if not found:
                return PreFilterOutcome(
                    Status.failed(
                        f'FindOneNodePlugin "{name}" succeeded but produced no node for pod '
                        f"{pod.metadata.key}"
                    )
                )
            return PreFilterOutcome(node_names=frozenset((found,)))
        for name, preferrer in self._prefer_nodes:
            names, status = call(
                state, "PreferNodesPlugin", name, preferrer.prefer_nodes, state, pod, outcome.node_names
            )
            if status.is_skip:
                continue
            if not status.is_success:
                return PreFilterOutcome(status.by(name))
            at = {candidate: index for index, candidate in enumerate(nodes.names)}
            for node_name in names:
                if node_name in at:
                    tried = self.run_filters(state, pod, nodes.pick(np.array([at[node_name]], np.int64)))
                    if tried.error is None and tried.feasible.all():
                        return PreFilterOutcome(node_names=frozenset((node_name,)))
        return outcome

    def _transformed(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NodeSet:
        """Return the nodes as the attempt sees them."""
        for name, transformer in self._transformers.items():
            nodes = call(state, "TransformNodes", name, transformer.transform_nodes, state, pod, nodes)
        return nodes

    def _stock_pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> PreFilterOutcome:
        node_names: frozenset[str] | None = None
        rejectors: list[str] = []
        refused: Status | None = None
        for name, plugin in self._pre_filter:
            if name in self._reruns and not call(
                state, "PreFilter", name, plugin.needs_rerun, state, pod, nodes
            ):
                state.skip_filter.add(name)
                continue
            allowed, status = call(state, "PreFilter", name, plugin.pre_filter, state, pod, nodes)
            if not status.is_success:
                if status.is_skip:
                    state.skip_filter.add(name)
                    continue
                if status.code is Code.UNSCHEDULABLE_AND_UNRESOLVABLE:
                    return PreFilterOutcome(status.by(name))
                if status.code is Code.UNSCHEDULABLE:
                    refused = status.by(name)
                    continue
                return PreFilterOutcome(as_error(f'running PreFilter plugin "{name}"', status, name))
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
        """Run PreFilter, then Filter on the nodes that PreFilter left."""
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
        """Run BeforeFilter and Filter; nodes with nominated pods must also pass with these on them.

        `nodes` are as the node table has them, or overlaid by a what-if; not as PreFilter saw them.
        """
        outcome = FilterOutcome(nodes, np.ones(len(nodes), np.bool_))
        try:
            shown_pod, shown = pod, self._transformed(state, pod, nodes)
            for name, before in self._before_filter:
                shown_pod, shown, verdict = call(
                    state, "BeforeFilter", name, before.before_filter, state, shown_pod, shown
                )
                self._take(outcome, name, verdict, None, is_before=True)
            self._filter_pass(state, shown_pod, shown, outcome)
            if self._nominator:
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
            verdict = call(state, "Filter", name, plugin.filter_nodes, state, pod, subset)
            self._take(outcome, name, verdict, asked)

    def _take(
        self,
        outcome: FilterOutcome,
        name: str,
        verdict: Verdict,
        asked: Int64 | None,
        *,
        is_before: bool = False,
    ) -> None:
        """Apply a verdict to the nodes that are still feasible; an Error of BeforeFilter stays unchanged."""
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
            raise Broken(status if is_before else as_error(f'running "{name}" filter plugin', status, name))
        outcome.feasible[refused] = False
        outcome.refusals.append(refusals)

    def _filter_with_nominated(
        self, state: CycleState, pod: Pod, nodes: NodeSet, outcome: FilterOutcome
    ) -> None:
        """Filter the nodes with more important nominated pods again, with these pods in place."""
        ignored = state.read(NOMINATED_PODS_TO_IGNORE) or frozenset()
        counted: dict[str, list[Pod]] = {}
        names = self._nominator.node_names
        for node_name in names if len(names) < len(nodes) else nodes.names:
            pods = [
                nominated
                for nominated in self._nominator.pods_on(node_name)
                if self._outranks(nominated, pod)
                and nominated.metadata.uid != pod.metadata.uid
                and nominated.metadata.uid not in ignored
            ]
            if pods:
                counted[node_name] = sorted(pods, key=self._is_foreign)
        if not counted:
            return
        refused: list[Refusals] = []
        failing: list[int] = []
        for name, added_pods in counted.items():
            row = nodes.table.row_of(name)
            at = np.flatnonzero(nodes.rows == row) if row is not None else _NOWHERE
            if not len(at):
                continue
            one = FilterOutcome(nodes.pick(at).with_pods({name: added_pods}), np.ones(1, np.bool_))
            what_if = state.clone()
            for added in added_pods:
                self.add_pod(what_if, pod, added, NodeInfo(one.nodes, 0))
            self._filter_pass(what_if, pod, one.nodes, one)
            if not one.feasible[0]:
                failing.append(int(at[0]))
                refused.extend(Refusals(r.plugin, at, r.verdict, at) for r in one.refusals)
            elif self._skips_second_pass:
                _readmit(outcome, at)
        _readmit(outcome, np.array(failing, np.int64))
        outcome.feasible[failing] = False
        outcome.refusals.extend(refused)

    def _outranks(self, nominated: Pod, pod: Pod) -> bool:
        """Return whether a nominated pod's share counts against a pod."""
        mine, other = pod.spec.priority or 0, nominated.spec.priority or 0
        if not self._is_foreign(nominated):
            return other >= mine
        return self._counts_foreign_nominations and other > mine

    def _is_foreign(self, pod: Pod) -> bool:
        """Return whether another scheduler is responsible for a pod."""
        return (pod.spec.scheduler_name or "default-scheduler") not in self._local_schedulers

    def add_pod(self, state: CycleState, pod: Pod, added: Pod, node: NodeInfo) -> None:
        """Run AddPod of the PreFilter plugins for a pod on a node in this state. Raises Broken."""
        for name, plugin in self._followers:
            if name not in state.skip_filter:
                status = call(
                    state, "PreFilterExtensionAddPod", name, plugin.add_pod, state, pod, added, node
                )
                if not status.is_success:
                    raise Broken(as_error(f'running AddPod on PreFilter plugin "{name}"', status, name))

    def remove_pod(self, state: CycleState, pod: Pod, removed: Pod, node: NodeInfo) -> None:
        """Run RemovePod of the PreFilter plugins for a pod on a node in this state. Raises Broken."""
        for name, plugin in self._followers:
            if name not in state.skip_filter:
                status = call(
                    state, "PreFilterExtensionRemovePod", name, plugin.remove_pod, state, pod, removed, node
                )
                if not status.is_success:
                    raise Broken(as_error(f'running RemovePod on PreFilter plugin "{name}"', status, name))

    def tracks_pods(self, state: CycleState) -> bool:
        """Return whether any Filter plugin tracks hypothetically added and removed pods in this state.

        If none does, a NodeSet with the pods in its overlay is all that Filter needs.
        """
        filters = {name for name, _ in self._filter}
        return any(name in filters and name not in state.skip_filter for name, _ in self._followers)

    def entangled(self, state: CycleState) -> list[str]:
        """Return the Filter plugins starting with the first whose answer for a node depends on other nodes'
        pods.

        If there is none, pods can be added and removed hypothetically on many nodes at once, in one state.
        """
        names = [name for name, _ in self._filter]
        elsewhere = {name for name, plugin in self._followers if not plugin.node_local}
        for place, name in enumerate(names):
            if name in elsewhere and name not in state.skip_filter:
                return names[place:]
        return []


def _follows_pods(plugin: PreFilter) -> bool:
    """Return whether a plugin tracks hypothetically added and removed pods."""
    kind = type(plugin)
    return kind.add_pod is not PreFilter.add_pod or kind.remove_pod is not PreFilter.remove_pod


def _readmit(outcome: FilterOutcome, indexes: Int64) -> None:
    """Discard the results of the pass without nominated pods for some nodes."""
    if not len(indexes):
        return
    outcome.feasible[indexes] = True
    for refusals in outcome.refusals:
        refusals.indexes = refusals.indexes[~np.isin(refusals.indexes, indexes)]
