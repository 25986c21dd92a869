"""A node must have the requested resources.

An extended resource that a DeviceClass backs is not compared where the node offers none of it: there
kube-scheduler's plugin DynamicResources, which does not run here, allocates it from ResourceSlices. Where a
device plugin offers it, it is compared as any other.

Source: Kubernetes, `framework/plugins/noderesources` (`fit.go`), with its gate DRAExtendedResource: without
that gate an API server keeps no `extendedResourceName`.
"""

from collections.abc import Mapping

import msgspec
import numpy as np
from numpy.typing import NDArray

from koordpy.api.core import Pod, PodStatus
from koordpy.api.resources import pod_fit_vector, pod_score_request, surely_same
from koordpy.cluster.columns import PODS
from koordpy.cluster.device_classes import DeviceClasses
from koordpy.cluster.nodes import NodeSet
from koordpy.lib.last_answer import LastAnswer
from koordpy.scheduling.interface import (
    Filter,
    Plugin,
    PreFilter,
    PreScore,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import PASS, SUCCESS, Code, Status, Verdict

from . import scoring
from .args import NodeResourcesFitArgs

_PRE_FILTER: StateKey[dict[str, int]] = StateKey("PreFilterNodeResourcesFit")
_PRE_SCORE: StateKey[dict[str, int]] = StateKey("PreScoreNodeResourcesFit")

_ANYTHING = np.int64(-(1 << 63))

_ALWAYS = ("cpu", "memory", "ephemeral-storage")

MOST_UNKNOWN = 20
"""Reported resources that no node has; pods may request thousands."""


class NodeResourcesFit(Plugin, PreFilter, Filter, PreScore, Score, SignPlugin):
    """Refuses nodes that lack a requested resource or have too many pods; scores the free resources."""

    name = "NodeResourcesFit"
    args: NodeResourcesFitArgs

    def __init__(self, args: NodeResourcesFitArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._classes = handle.cluster.shared(DeviceClasses)
        self._ignored = frozenset(args.ignored_resources)
        self._ignored_groups = frozenset(args.ignored_resource_groups)
        self._needs_of = LastAnswer(self._needs, surely_same).of  # workloads come in one go
        self._counted_of = LastAnswer(self._counted, surely_same).of
        strategy = args.scoring_strategy
        self._weights = strategy.weights
        self._drop_zeros = strategy.type == "RequestedToCapacityRatio"
        self._scorer: scoring.Scorer = scoring.least_allocated
        if strategy.type == "MostAllocated":
            self._scorer = scoring.most_allocated
        elif strategy.requested_to_capacity_ratio is not None:
            shape = strategy.requested_to_capacity_ratio.shape
            if self._drop_zeros:
                self._scorer = scoring.requested_to_capacity_ratio(
                    [(p.utilization, p.score * 10) for p in shape]
                )

    # --- filter ----------------------------------------------------------------------------------

    def pre_filter(self, state: CycleState, pod: Pod, nodes: NodeSet) -> tuple[frozenset[str] | None, Status]:
        """Add up the requests once."""
        state.write(_PRE_FILTER, self._needs_of(pod))
        return None, SUCCESS

    def _needs(self, pod: Pod) -> dict[str, int]:
        return {
            name: amount
            for name, amount in pod_fit_vector(pod).items()
            if amount > 0 and (name in _ALWAYS or not self._is_ignored(name))
        }

    def _is_ignored(self, name: str) -> bool:
        return name in self._ignored or name.split("/", 1)[0] in self._ignored_groups

    def filter_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Verdict:
        """Compare with the free resources; a request above allocatable is not resolvable by preemption."""
        needs = state.read(_PRE_FILTER)
        if needs is None:
            needs = self._needs_of(pod)
        axis = nodes.table.resources
        free = nodes.free()
        least = np.full(free.shape[1], _ANYTHING)
        least[PODS] = 1
        for name, amount in needs.items():
            if name in axis:
                least[axis.get(name)] = amount
            elif name not in self._classes.class_of:
                return self._refuse(nodes, needs, free)
        return self._refuse(nodes, needs, free) if np.count_nonzero(free < least) else PASS

    def _refuse(self, nodes: NodeSet, needs: Mapping[str, int], free: NDArray[np.int64]) -> Verdict:
        """Return the missing resources by node; of those that no node has only the first `MOST_UNKNOWN`."""
        axis, class_of = nodes.table.resources, self._classes.class_of
        needs = {name: needs[name] for name in needs if name in axis or name not in class_of}
        unknown = [name for name in needs if name not in axis]
        if len(unknown) > MOST_UNKNOWN:
            needs = {name: needs[name] for name in needs if name in axis} | dict.fromkeys(
                unknown[:MOST_UNKNOWN], 1
            )
        everywhere = np.ones(len(nodes), np.bool_)
        lacking = [free[:, PODS] < 1]
        never = [np.zeros(len(nodes), np.bool_)]
        for name, amount in needs.items():
            column = axis.get(name)
            if column is None:
                lacking.append(everywhere)
                never.append(everywhere)
                continue
            offered = nodes.allocatable(column)
            compared = everywhere if name not in class_of else offered != 0
            lacking.append(compared & (free[:, column] < amount))
            never.append(offered < amount)
        refused = np.stack(lacking, axis=1)
        hopeless = (refused & np.stack(never, axis=1)).any(axis=1)
        codes = np.where(hopeless, np.int8(Code.UNSCHEDULABLE_AND_UNRESOLVABLE), np.int8(Code.UNSCHEDULABLE))
        reasons = ["Too many pods", *(f"Insufficient {name}" for name in needs)]
        return Verdict.reject_every(refused, reasons, codes)

    # --- score -----------------------------------------------------------------------------------

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Add up the requests once, with defaults for containers without any."""
        state.write(_PRE_SCORE, self._counted_of(pod))
        return SUCCESS

    def _counted(self, pod: Pod) -> dict[str, int]:
        """The requests for the score, which (as in Kubernetes) exclude pod-level requests."""
        if (
            pod.spec.resources is not None
            or pod.status.container_statuses
            or pod.status.init_container_statuses
        ):
            spec = msgspec.structs.replace(pod.spec, resources=None)
            pod = msgspec.structs.replace(pod, spec=spec, status=PodStatus())
        cpu, memory = pod_score_request(pod)
        return {**pod_fit_vector(pod), "cpu": cpu, "memory": memory}

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> NDArray[np.int64]:
        """Score the requests of each resource of the strategy with the pod."""
        counted = state.read(_PRE_SCORE)
        if counted is None:
            counted = self._counted_of(pod)
        parts = []
        for name, weight in self._weights:
            amount = counted.get(name, 0)
            column = nodes.table.resources.get(name)
            if column is None or (amount == 0 and name not in _ALWAYS):
                continue
            if name in ("cpu", "memory"):
                requested = nodes.nonzero_requested(0 if name == "cpu" else 1)
            else:
                requested = nodes.requested(column)
            parts.append((requested + amount, nodes.allocatable(column), weight))
        if not parts:
            return np.zeros(len(nodes), np.int64)
        return scoring.weighted_mean(parts, self._scorer, drop_zeros=self._drop_zeros)
