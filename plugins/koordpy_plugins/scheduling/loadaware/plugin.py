"""Keep pods off nodes with high usage, and prefer those with the lowest.

Usage comes from NodeMetric; pods that it does not include yet count with an estimate. Source: Koordinator,
`pkg/scheduler/plugins/loadaware`.
"""

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from koordpy.api import extension, qos
from koordpy.api.core import Node, Pod
from koordpy.api.koordinator import NodeMetric
from koordpy.api.meta import KubeObject
from koordpy.api.needs import Lack, Needs
from koordpy.cluster.nodes import NodeSet
from koordpy.scheduling.interface import (
    APIService,
    Changed,
    ChangeHelps,
    EnqueueExtensions,
    Filter,
    Plugin,
    PreFilter,
    Reserve,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import PLACED, CycleState, StateKey
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import PASS, SUCCESS, Code, Status, Verdict

from . import arithmetic
from .args import LoadAwareSchedulingArgs
from .assign_cache import AssignCache
from .columns import LoadColumns
from .estimator import surely_same
from .lacks import lacks
from .node_load import micros
from .service import node_assign_info
from .settings import LoadSettings, ThresholdSettings

REASON_EXPIRED = "node(s) nodeMetric expired"

_ESTIMATE: StateKey[tuple[Pod, NDArray[np.int64]]] = StateKey("IncomingPodEstimatedLoadAwareScheduling")


class LoadAwareScheduling(
    Plugin, PreFilter, Filter, Score, Reserve, EnqueueExtensions, APIService, SignPlugin
):
    """Refuses nodes on which the pod would raise a resource over its threshold; scores the free share."""

    name = "LoadAwareScheduling"
    args: LoadAwareSchedulingArgs
    watch_suffices = True
    needs = Needs(elsewhere=("an agent on every node that reports NodeMetrics (koordlet)",))

    def __init__(self, args: LoadAwareSchedulingArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self.settings = args
        loads = LoadSettings.of(args)
        self.cache = handle.cluster.shared(AssignCache, loads)
        self.columns = handle.cluster.shared(LoadColumns, loads, ThresholdSettings.of(args))
        self.estimator = self.cache.estimator
        names = self.estimator.names
        self._weights = np.array([args.resource_weights.get(name, 0) for name in names], np.int64)
        self._reasons = [
            *((f"node(s) {name} usage exceed threshold",) for name in names),
            *((f"node(s) {name} aggregated usage exceed threshold",) for name in names),
            (REASON_EXPIRED,),
        ]
        handle.on_forget(lambda pod, node_name: self.cache.forget(node_name, pod.metadata.uid))

    # --- the incoming pod ------------------------------------------------------------------------

    def sign_pod(self, pod: Pod) -> Hashable | None:
        """Sign the inputs of estimates, thresholds and exceptions besides the spec."""
        of_daemon_set = any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references)
        factors = pod.metadata.annotations.get(extension.ANNOTATION_LOAD_ESTIMATED_SCALING_FACTORS)
        return qos.priority_class(pod), of_daemon_set, factors

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Estimate the pod once."""
        self._estimate(state, pod)
        return None, SUCCESS

    def _estimate(self, state: CycleState, pod: Pod) -> NDArray[np.int64]:
        known = state.read(_ESTIMATE)
        if known is not None and surely_same(known[0], pod):
            return known[1]
        estimate = np.array(self.estimator.of_pod(pod), np.int64)
        state.write(_ESTIMATE, (pod, estimate))
        return estimate

    def _added(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NDArray[np.int64]:
        """Estimate the added usage: (r,) of the pod, or in a what-if (n, r) with those placed before it.

        All pods of a what-if are equal, so the earlier ones count wherever this one does.
        """
        estimate = self._estimate(state, pod)
        placed = state.read(PLACED)
        if not placed:
            return estimate
        added = np.tile(estimate, (nodes.table.capacity, 1))
        sums: dict[int, NDArray[np.int64]] = {}  # many nodes may share a list
        for name, pods in placed.items():
            row = nodes.table.row_of(name)
            if row is None or not pods:
                continue
            total = sums.get(id(pods))
            if total is None:
                total = sums[id(pods)] = sum(
                    (
                        estimate
                        if surely_same(pod, other)
                        else np.array(self.estimator.of_object(other), np.int64)
                        for other in pods
                    ),
                    np.zeros_like(estimate),
                )
            added[row] += total
        return added[nodes.rows]

    # --- filter ----------------------------------------------------------------------------------

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Compare the usage of each node with the pod, in percent, with its thresholds."""
        if any(owner.kind == "DaemonSet" for owner in pod.metadata.owner_references):
            return PASS
        prod = qos.priority_class(pod) is qos.PriorityClass.PROD
        now = self._now() if self.settings.filter_expired_node_metrics else None
        added = self._added(state, pod, nodes)
        suspects = self.columns.suspects(nodes, added, now, prod=prod)
        if suspects is None:
            return PASS
        at = np.flatnonzero(suspects)
        codes = np.zeros(len(nodes), np.int8)
        keys = np.zeros(len(nodes), np.int64)
        if added.ndim > 1:
            added = added[at]
        codes[at], keys[at] = self._judge(nodes.pick(at), added, now, prod=prod)
        return Verdict.keyed(codes, keys, self._reasons)

    def _judge(
        self, nodes: NodeSet, added: NDArray[np.int64], now: int | None, *, prod: bool
    ) -> tuple[NDArray[np.int8], NDArray[np.int64]]:
        """Return (n,) codes and (n,) indexes of reasons."""
        thresholds, existing, aggregated = self.columns.thresholds(nodes, prod=prod)
        judged = arithmetic.any_resource(thresholds) & self.columns.known(nodes)
        expired = np.zeros(len(nodes), np.bool_)
        if now is not None:
            expired = judged & self.columns.expired(nodes, now)
            judged &= ~expired
            if self.settings.enable_schedule_when_node_metrics_expired:
                expired[:] = False
        judged &= self.columns.measured(nodes)
        usage = arithmetic.percent(existing + added, self.columns.allocatable(nodes))
        over = (usage > thresholds) & (thresholds != 0)
        over &= judged[:, None]
        refused = expired | arithmetic.any_resource(over)
        width = over.shape[1]
        keys = over.argmax(axis=1) + np.where(aggregated, width, 0)
        keys[expired] = 2 * width
        return np.where(refused, np.int8(Code.UNSCHEDULABLE), np.int8(0)), keys

    def _now(self) -> int:
        return micros(self.handle.clock.now())

    # --- score -----------------------------------------------------------------------------------

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NDArray[np.int64]:
        """Score the free share with the pod; 0 for a node without an unexpired NodeMetric."""
        dominant = self.settings.dominant_resource_weight
        if dominant == 0 and not self._weights.any():
            return np.zeros(len(nodes), np.int64)
        prod = self.settings.score_according_prod_usage and (
            qos.priority_class(pod) is qos.PriorityClass.PROD
        )
        used = self.columns.existing_for_score(nodes, prod=prod) + self._added(state, pod, nodes)
        scores = arithmetic.least_used_score(used, self.columns.allocatable(nodes), self._weights, dominant)
        return np.where(self.columns.scored(nodes, self._now()), scores, 0)

    # --- reserve ---------------------------------------------------------------------------------

    def reserve(self, state: CycleState, pod: Pod, node_name: str) -> Status:
        """Add the pod to its node."""
        estimate = self._estimate(state, pod).tolist()
        self.cache.assign(node_name, pod, estimate)
        return SUCCESS

    def unreserve(self, state: CycleState, pod: Pod, node_name: str) -> None:
        """Remove it."""
        self.cache.forget(node_name, pod.metadata.uid)

    # --- unschedulable pods ----------------------------------------------------------------------

    def events_to_register(self) -> Mapping[type[KubeObject], ChangeHelps]:
        """NodeMetrics; a node without one is not refused, so a deletion may help too."""
        return {NodeMetric: lambda old, new: True}

    def may_pass(self, pods: Sequence[Pod], changed: Changed) -> list[bool]:
        """Return the pods that would pass on one of the nodes with a new NodeMetric."""
        nodes, _ = self.handle.nodes.select(list(changed.get(NodeMetric, ())))
        now = self._now() if self.settings.filter_expired_node_metrics else None
        return [self._passes(pod, nodes, now) for pod in pods]

    def _passes(self, pod: Pod, nodes: NodeSet, now: int | None) -> bool:
        if not len(nodes):
            return False
        prod = qos.priority_class(pod) is qos.PriorityClass.PROD
        estimate = np.array(self.estimator.of_pod(pod), np.int64)
        suspects = self.columns.suspects(nodes, estimate, now, prod=prod)
        return suspects is None or not suspects.all()

    # --- doctor ----------------------------------------------------------------------------------

    def lacks(self) -> Iterable[Lack]:
        """Return findings on missing and expired NodeMetrics."""
        cluster = self.handle.cluster
        settings = self.settings
        refuses_expired = (
            settings.filter_expired_node_metrics and not settings.enable_schedule_when_node_metrics_expired
        )
        return lacks(
            cluster.store(Node),
            cluster.store(NodeMetric),
            self._now(),
            settings.node_metric_expiration_seconds,
            refuses_expired=refuses_expired,
        )

    # --- REST ------------------------------------------------------------------------------------

    def endpoints(self) -> Mapping[str, Callable[..., object]]:
        """The cache's contents for one node."""
        return {
            "node/{node_name}": lambda node_name: node_assign_info(
                self.cache.get(node_name), self.estimator.names
            )
        }
