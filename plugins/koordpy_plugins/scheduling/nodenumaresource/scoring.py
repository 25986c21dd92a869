"""Scores of nodes: by what would be used of the NUMA nodes that a pod gets, or of the whole node.

Source: Koordinator, `pkg/scheduler/plugins/nodenumaresource/scoring.go`.
"""

import logging
from collections.abc import Callable

from koordpy.api.amplification import amplify
from koordpy.api.resource_amounts import total
from koordpy.api.resource_names import CPU
from koordpy.scheduling.interface.cycle_state import CycleState
from koordpy.scheduling.interface.handle import Handle
from koordpy.scheduling.interface.node_info import NodeInfo
from koordpy.scheduling.toolkit.topology_manager.manager import affinity_of
from koordpy.scheduling.toolkit.topology_manager.policy import NUMATopologyPolicy

from .allocation.allocate import allocate_from_node
from .allocation.request import Request
from .cases import Case
from .nominated import nominated_uid
from .reservations.allocate import allocate_nominated
from .reservations.reusable import reusable_on
from .scorer import Amount, Scorer, amounts_of
from .state.pod_allocation import PodAllocation

log = logging.getLogger(__name__)


class NodeScore:
    """Scores nodes one by one."""

    def __init__(self, handle: Handle, scorer: Scorer) -> None:
        self._handle, self._scorer = handle, scorer

    def score(self, state: CycleState, case: Case, node: NodeInfo) -> int:
        """Return 0 to 100: 0 also if the pod cannot be served. Raises ValueError as Filter would refuse."""
        bind, status = case.binds()
        if not status.is_success:
            raise ValueError(status.message)
        if bind and not case.options.is_valid:
            return 0
        try:
            request = case.request(bind=bind, affinity=affinity_of(state, node.name))
        except ValueError:
            return 0
        if case.numa == NUMATopologyPolicy.NONE:
            return self._of_node(case, request, node)
        reusable = reusable_on(state, node.name)
        nominated = nominated_uid(self._handle, state, case.pod, node.name)
        found, status = allocate_nominated(request, reusable, nominated)
        if status.is_success and found is None:
            found, status = allocate_from_node(request, reusable.owners_use)
        if found is None:
            log.debug("pod %s on %s scores 0: %s", case.pod.metadata.key, node.name, status.message)
            return 0
        return self._of_allocation(case, request, found, node)

    def _of_node(self, case: Case, request: Request, node: NodeInfo) -> int:
        ratio = request.cpu_ratio
        if request.state.milli_cpu == 0 or ratio <= 1:
            return self._scored(node.requested, node.allocatable, request)
        topology = request.options.cpu_topology
        if topology is not None and not topology.is_valid:
            return 0
        held = 1000 * (0 if topology is None else request.held.allocated_count())
        cpu = node.requested(CPU) - held + amplify(held, ratio)
        return self._scored(_with_cpu(node.requested, cpu), node.allocatable, request)

    def _of_allocation(self, case: Case, request: Request, found: PodAllocation, node: NodeInfo) -> int:
        requested: Amount = node.requested
        allocatable: Amount = node.allocatable
        options = request.options
        if found.numa_resources:
            _, allocated = request.held.available_numa_resources(options, request.offer.reusable)
            nodes = found.numa_resources
            requested = amounts_of(total(allocated[numa] for numa in nodes if numa in allocated))
            zones = options.numa_resources
            allocatable = amounts_of(total(zones[numa] for numa in nodes if numa in zones))
        if found.cpus:
            _, held = request.held.available_cpus(options, request.offer.preferred - found.cpus)
            requested = _with_cpu(requested, amplify(1000 * len(held), request.cpu_ratio))
        return self._scored(requested, allocatable, request)

    def _scored(self, requested: Amount, allocatable: Amount, request: Request) -> int:
        return self._scorer.score(requested, allocatable, amounts_of(request.requests))


def _with_cpu(amount: Callable[[str], int], cpu: int) -> Amount:
    return lambda name: cpu if name == CPU else amount(name)
