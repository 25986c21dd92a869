"""Score nodes by the requested resources, each with its own strategy.

So pods that request GPUs can be packed while all others are spread. Source: Koordinator,
`pkg/scheduler/plugins/noderesourcefitplus`.
"""

from collections.abc import Mapping

import numpy as np

from koordpy.api.core import Container, Pod
from koordpy.api.quantity import resource_value
from koordpy.api.resources import DEFAULT_MEMORY, DEFAULT_MILLI_CPU, pod_fit_vector, surely_same
from koordpy.cluster.columns import Int64
from koordpy.cluster.nodes import NodeSet
from koordpy.lib import int64
from koordpy.lib.last_answer import LastAnswer
from koordpy.scheduling.interface import (
    MAX_NODE_SCORE,
    Plugin,
    PreScore,
    Score,
    SignPlugin,
)
from koordpy.scheduling.interface.cycle_state import CycleState, StateKey
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.status import SUCCESS, Status

from .args import NodeResourcesFitPlusArgs

_COUNTED: StateKey[Mapping[str, int]] = StateKey("PreScoreNodeResourcesFitPlus")

_DEFAULTS = {"cpu": DEFAULT_MILLI_CPU, "memory": DEFAULT_MEMORY}
"""The request of a container that does not name a resource."""


class NodeResourcesFitPlus(Plugin, PreScore, Score, SignPlugin):
    """Scores the weighted mean over the resources that are configured and requested by the pod."""

    name = "NodeResourcesFitPlus"
    args: NodeResourcesFitPlusArgs

    def __init__(self, args: NodeResourcesFitPlusArgs, handle: Handle) -> None:
        super().__init__(args, handle)
        self._resources = args.resources
        self._counted_of = LastAnswer(self._counted, surely_same).of  # workloads come in one go

    def pre_score(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Status:
        """Add up the pod's requests once."""
        state.write(_COUNTED, self._counted_of(pod))
        return SUCCESS

    def _counted(self, pod: Pod) -> dict[str, int]:
        requested = pod_fit_vector(pod)
        return {name: _amount(pod, name) for name in self._resources if requested.get(name, 0) > 0}

    def score_nodes(self, state: CycleState, pod: Pod, nodes: NodeSet) -> Int64:
        """Score the utilization of each counted resource with the pod."""
        counted = state.read(_COUNTED)
        if counted is None:
            raise LookupError(f'get state node "{nodes.names[0]}" from PreScore: not found')
        weight = sum(self._resources[name].weight for name in counted)
        if not weight:
            return np.full(len(nodes), MAX_NODE_SCORE, np.int64)
        total = np.zeros(len(nodes), np.int64)
        for name, amount in counted.items():
            spec = self._resources[name]
            column = nodes.table.resources.get(name)
            if column is None:
                continue  # no node has it: 0
            if name in _DEFAULTS:
                requested = nodes.nonzero_requested(0 if name == "cpu" else 1) + amount
            else:
                requested = nodes.requested(column) + amount
            capacity = nodes.allocatable(column)
            divisor = np.maximum(capacity, 1)
            if spec.type == "MostAllocated":
                total += np.minimum(requested, capacity) * 100 // divisor * spec.weight
            elif spec.type == "LeastAllocated":
                total += np.maximum(capacity - requested, 0) * 100 // divisor * spec.weight
        return total // weight


def _amount(pod: Pod, name: str) -> int:
    """Return the counted request of one resource: cpu in milli, others in base units.

    Unlike Kubernetes' sum this one raises the sum of the preceding containers to an init container's request,
    and ignores pod-level requests.
    """
    total = sum(_of_container(container, name) for container in pod.spec.containers)
    for container in pod.spec.init_containers:
        amount = _of_container(container, name)
        total = total + amount if container.restart_policy == "Always" else max(total, amount)
    overhead = pod.spec.overhead.get(name)
    return int64.wrap(total if overhead is None else total + resource_value(name, overhead))


def _of_container(container: Container, name: str) -> int:
    amount = container.resources.requests.get(name)
    return _DEFAULTS.get(name, 0) if amount is None else resource_value(name, amount)
